"""The judge of a run: the model that the settings or the caller name, and what it was used for."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from assay.answer.providers.opening import CachedProvider, open_provider
from assay.answer.providers.provider import LLMProvider, Spending
from assay.data.dataset import Document
from assay.errors import AssayError, ProviderError, ProviderFailure
from assay.measure.answers.answer_metrics import AnswerCase
from assay.measure.answers.instructions import split_surplus
from assay.measure.answers.judge import Judge, correctness_prompt
from assay.measure.answers.judge_controls import (
    ControlPair,
    ControlResult,
    altered_pairs,
    ask_controls,
    ask_support_controls,
    control_pairs,
    support_pairs,
)
from assay.run.answers import JudgeControls
from assay.run.config import RunConfig
from assay.text import stems

_OTHERS = 50
_STAND_IN = ControlPair(
    "Which bird nests on the tower of the lighthouse?",
    "The lighthouse keeper painted the northern door again in spring.",
    "A pair of kestrels nests on the tower.",
    False,
)


@dataclass(frozen=True, slots=True)
class JudgeUse:
    """Which model judged, how, and what it cost; no `spending` for a provider of the caller's."""

    provider: str
    votes: int
    prompts: Mapping[str, str]
    spending: Spending | None = None

    @classmethod
    def of(cls, judge: Judge) -> "JudgeUse":
        """What is known of a judge after its work."""
        provider = judge.provider
        spending = provider.spending if isinstance(provider, CachedProvider) else None
        return cls(judge.name, judge.votes, judge.prompts, spending)


class UnreliableJudge(Exception):
    """The judge contradicts itself, fails its controls or says nothing: no figure is reported."""


@dataclass(frozen=True, slots=True)
class _OwnProvider:
    """A model of the caller's own: whatever it raises ends the judging, and not the run."""

    provider: LLMProvider

    @property
    def name(self) -> str:
        return self.provider.name

    async def generate(self, prompt: str, max_tokens: int = 100) -> str:
        try:
            reply: object = await self.provider.generate(prompt, max_tokens)
        except AssayError:
            raise
        except Exception as error:
            what = f"the judge {self.name!r} raised {type(error).__name__}: {error}"
            raise ProviderError(ProviderFailure.SERVER, what) from error
        if not isinstance(reply, str):
            what = f"the judge {self.name!r} replied with a {type(reply).__name__}, not a string"
            raise ProviderError(ProviderFailure.INVALID_REPLY, what)
        return reply


@asynccontextmanager
async def open_judge(
    config: RunConfig, provider: LLMProvider | None
) -> AsyncIterator[Judge | None]:
    """The judge that the settings or the caller name; None for none."""
    if provider is not None:
        own = provider if isinstance(provider, CachedProvider) else _OwnProvider(provider)
        yield Judge(own, config.judge_votes)
    elif config.judge:
        async with open_provider(
            config.judge,
            max_cost=config.max_cost,
            concurrency=config.judge_concurrency,
            timeout=config.judge_timeout,
        ) as opened:
            yield Judge(opened, config.judge_votes)
    else:
        yield None


async def check_controls(
    judge: Judge, cases: Sequence[AnswerCase], documents: Mapping[str, Document], number: int
) -> ControlResult | None:
    """Ask the judge what is known: about references or, where there is none, about sources.

    None where nothing can be asked, or nothing is to be.
    """
    known = [(case.question, case.reference.answer or "") for case in cases if case.answerable]
    if pairs := control_pairs(known, number):
        return await ask_controls(judge, pairs, altered_pairs(known, number))
    sources = [text for case in cases for text in case.seen_texts(documents)[:1]]
    if number and (pairs := support_pairs(list(dict.fromkeys(sources)), number)):
        return await ask_support_controls(judge, pairs)
    return None


def controls_record(found: ControlResult) -> JudgeControls:
    """What a report says about the controls."""
    return JudgeControls(**{name: getattr(found, name) for name in JudgeControls.model_fields})


def untested_sentence(found: ControlResult | None) -> str:
    """One more sentence for people, where the controls could not test the judge in full."""
    untested = None if found is None else controls_record(found).untested
    return f" {untested[0].upper()}{untested[1:]}." if untested else ""


async def sways(judge: Judge, case: AnswerCase, cases: Sequence[AnswerCase]) -> bool:
    """Whether the answer is right in the judge's eyes only by what it says beside the answer.

    Asked where something in the answer was neither asked nor expected, whatever it says and in
    whatever language: it is put after a wrong answer to another question. One call shows most
    judges to be steady; the others are asked in all their votes, with it and without. Where it
    makes the wrong answer right, the answer itself is judged without it: one that is right then
    was not made right by it, whatever else it does to the judge (a judge may prefer length).
    """
    expected = case.reference.answer or ""
    spoken, rest = split_surplus(case.answer or "", f"{case.question} {expected}")
    if not spoken:
        return False
    wrong = _wrong_pair(case, cases)
    planted = "\n".join([wrong.answer, *spoken])
    first = correctness_prompt(wrong.question, planted, wrong.reference)
    if await judge.choose(first, ("TRUE", "FALSE")) != "TRUE":
        return False
    if (await judge.correctness(*wrong[:3])).verdict is True:
        return False  # it calls this right without a word: the controls are about such a judge
    if (await judge.correctness(wrong.question, planted, wrong.reference)).verdict is not True:
        return False
    if not rest:
        return True
    return (await judge.correctness(case.question, "\n".join(rest), expected)).verdict is not True


def _wrong_pair(case: AnswerCase, cases: Sequence[AnswerCase]) -> ControlPair:
    """A wrong answer to another question, whose reference shares no word with this answer: what
    is put after it can make it right by no fact.
    """
    said = frozenset(stems(f"{case.question} {case.answer}"))
    others = [
        (each.question, each.reference.answer or "")
        for each in cases[:_OTHERS]
        if said.isdisjoint(stems(each.reference.answer or ""))
    ]
    pairs = (pair for pair in control_pairs(others, 1) if not pair.same)
    return next(pairs, _STAND_IN)
