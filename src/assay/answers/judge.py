"""A language model as judge: each answer is judged in both orders, and a verdict wins in each."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from assay.answers.abstention import abstained, clearly_abstained, may_decline
from assay.answers.framing import statements
from assay.data.dataset import Fact
from assay.errors import ProviderError, ProviderFailure, UsageError
from assay.llm.passages import NOT_FOUND
from assay.llm.prompt import delimited, delimiter_code, load_prompt
from assay.llm.providers.provider import LLMProvider
from assay.metrics.graded import Floats
from assay.net.gather import gather, gather_for
from assay.net.json import parse_json
from assay.progress import Progress, silent

_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL | re.IGNORECASE)
_LABEL = re.compile(r"\A(?:answer|verdict|response|result)\s*[:=]\s*", re.IGNORECASE)
_FENCE = re.compile(r"\A\s*+```\w*+\s*|```\s*+\Z")
_WRAPPING = " \t\r\n.!*_`\"'“”‘’()[]"


class Vote(StrEnum):
    """One reply of a judge, read strictly."""

    TRUE = "true"
    FALSE = "false"
    UNPARSEABLE = "unparseable"
    REFUSED = "refused"


def parse_word(reply: str, allowed: Sequence[str]) -> str | None:
    """The one allowed word that the reply consists of, else None.

    Case, quotes, emphasis, a final full stop and a label ("Answer:") do not matter, nor does the
    thinking that some models put first. Anything more could mean either: "not true", "TRUE or
    FALSE", "TRUE, except that ...", an essay that mentions both.
    """
    bare = _THOUGHT.sub("", reply).strip(_WRAPPING)
    word = _LABEL.sub("", bare).strip(_WRAPPING).upper()
    return word if word in allowed else None


def parse_words(reply: str, allowed: Sequence[str], number: int) -> list[str] | None:
    """The allowed words of a JSON list of exactly `number`; a list of one may be its word alone."""
    bare = _FENCE.sub("", _THOUGHT.sub("", reply)).strip()
    if number == 1 and (word := parse_word(bare, allowed)):
        return [word]
    try:
        found = parse_json(bare)
    except ValueError:
        return None
    if not isinstance(found, list) or len(found) != number:
        return None
    words = [str(each).strip().upper() for each in found]
    return words if all(word in allowed for word in words) else None


def parse_vote(reply: str) -> Vote:
    """TRUE or FALSE alone is a vote; anything else is `UNPARSEABLE`."""
    word = parse_word(reply, ("TRUE", "FALSE"))
    return Vote.UNPARSEABLE if word is None else Vote[word]


@dataclass(frozen=True, slots=True)
class Judgment:
    """The votes about one answer; `by_rule` where no model had to be asked.

    With `both_orders`, every second vote was given with the reference first.
    """

    votes: tuple[Vote, ...]
    by_rule: bool = False
    both_orders: bool = False

    @property
    def orders(self) -> tuple[tuple[Vote, ...], ...]:
        """The votes by what was shown first: the answer, then the reference."""
        return (self.votes[0::2], self.votes[1::2]) if self.both_orders else (self.votes,)

    @property
    def verdict(self) -> bool | None:
        """What the majority says in each of the orders; None if there is no such thing.

        So a judge that prefers a place decides nothing, whatever the number of votes. An
        unparseable vote counts against both sides: if it were left out, one clear vote among five
        could decide.
        """
        verdicts = set(self.verdicts)
        return verdicts.pop() if len(verdicts) == 1 else None

    @property
    def verdicts(self) -> tuple[bool | None, ...]:
        """What the majority says in each of the orders; None where there is none."""
        return tuple(map(_majority, self.orders))

    @property
    def flipped(self) -> bool:
        """Whether the judge said both TRUE and FALSE about the same two answers."""
        return {Vote.TRUE, Vote.FALSE} <= set(self.votes)

    @property
    def unparseable(self) -> int:
        """How many votes were neither TRUE nor FALSE."""
        return sum(vote in (Vote.UNPARSEABLE, Vote.REFUSED) for vote in self.votes)


def _majority(votes: Sequence[Vote]) -> bool | None:
    for vote, count in Counter(votes).items():
        if 2 * count > len(votes) and vote in (Vote.TRUE, Vote.FALSE):
            return vote is Vote.TRUE
    return None


def correctness_values(judgments: Sequence[Judgment]) -> Floats:
    """1 for TRUE, else 0: where the judge is undecided, the answer does not count as correct."""
    return np.array([float(each.verdict is True) for each in judgments], dtype=np.float64)


def flip_rate(judgments: Sequence[Judgment]) -> float | None:
    """The share of answers about which the judge contradicts itself.

    None if no answer was judged more than once.
    """
    repeated = [each for each in judgments if len(each.votes) > 1]
    return sum(each.flipped for each in repeated) / len(repeated) if repeated else None


_STATES = ("STATED", "CONTRADICTED", "ABSENT")
# Enough for one word in any wrapping; an essay is cut, and would not count anyway.
_TOKENS = 16
_TOKENS_PER_WORD = 6
# For a second call, where a reasoning model had not finished thinking.
_TOKENS_TO_THINK = 1024
_THINKING = re.compile(r"\s*(?:<think>(?!.*</think>).*)?", re.DOTALL | re.IGNORECASE)
MAX_SENTENCES = 50
"""Sentences of one answer that the judge is asked about: bounds the calls a long answer costs."""


@dataclass(frozen=True, slots=True)
class FactsJudgment:
    """How many of the reference's facts the answer states, contradicts or leaves out."""

    stated: int
    contradicted: int
    absent: int
    unparseable: int

    @property
    def recall(self) -> float:
        """The share of the facts that are stated."""
        total = self.stated + self.contradicted + self.absent + self.unparseable
        return self.stated / total if total else 0.0


class Judge:
    """Asks `provider` about answers, `votes` times about each, one call a vote.

    Every second vote shows the reference first, so an odd number is raised by one; every second
    pair asks in other words. Every vote has a prompt of its own, by the code in its marks: a cache
    never answers one vote with another, and the same judging a second time is answered from the
    cache.

    A refusal is a vote for neither side; other failures of the provider are raised, and votes up
    to then are in its cache.
    """

    def __init__(self, provider: LLMProvider, votes: int = 2, *, max_tokens: int = _TOKENS) -> None:
        if votes < 1:
            raise UsageError(f"a judge needs at least 1 vote, got {votes!r}")
        self.provider = provider
        self.votes = votes + votes % 2
        self._max_tokens = max_tokens

    @property
    def name(self) -> str:
        """The provider's name, `KIND:MODEL`."""
        return self.provider.name

    @property
    def prompts(self) -> dict[str, str]:
        """Names and ids of the prompts, for the record of a run."""
        names = (*_WORDINGS[: self.votes // 2], "judge_fact", "judge_support")
        return {name: load_prompt(name).id for name in names}

    async def correctness(self, question: str, answer: str, reference: str | None) -> Judgment:
        """Whether the answer says what the reference says.

        Where there is no answer (`reference` None) declining is correct, and if there is one
        declining is wrong: the model is asked about neither, unless the wording is ambiguous.
        """
        declined = clearly_abstained(answer)
        if declined or (reference is None and not may_decline(answer)):
            right = declined and reference is None
            return Judgment((Vote.TRUE if right else Vote.FALSE,), by_rule=True)
        truth = NOT_FOUND if reference is None else reference
        prompts = (correctness_prompt(question, answer, truth, vote) for vote in range(self.votes))
        votes = await gather([self._vote(prompt) for prompt in prompts])
        return Judgment(tuple(votes), both_orders=True)

    async def facts(self, question: str, answer: str, facts: Sequence[Fact]) -> FactsJudgment:
        """Fact by fact: also separates what is contradicted from what is left out."""
        prompts = [fact_prompt(question, answer, fact) for fact in facts]
        replies = await gather(map(self._reply, prompts))
        words = [parse_word(reply or "", _STATES) for reply in replies]
        stated, contradicted, absent = (words.count(each) for each in _STATES)
        return FactsJudgment(stated, contradicted, absent, words.count(None))

    async def faithfulness(self, answer: str, sources: Sequence[str]) -> float | None:
        """The share of the answer's sentences that the judge finds supported; None where most
        replies are no verdict. Those after the first `MAX_SENTENCES` count as not supported.
        """
        said = [] if abstained(answer) else statements(answer)
        shown = said[:MAX_SENTENCES]
        votes = await gather(self.supports(each, sources) for each in shown)
        if 2 * sum(vote not in (Vote.TRUE, Vote.FALSE) for vote in votes) > len(votes):
            return None
        return votes.count(Vote.TRUE) / len(said) if said else 0.0

    async def supports(self, sentence: str, sources: Sequence[str], vote: int = 0) -> Vote:
        """Whether the sources support one sentence; `faithfulness` asks the same once."""
        return await self._vote(support_prompt(sentence, sources, vote))

    async def choose(self, prompt: str, allowed: Sequence[str]) -> str | None:
        """The one of the allowed words that the reply consists of, read as strictly as a vote."""
        return parse_word(await self._reply(prompt) or "", allowed)

    async def choose_each(
        self, prompt: str, allowed: Sequence[str], number: int
    ) -> list[str] | None:
        """One of the allowed words for each of `number` things; None for any other reply."""
        reply = await self._reply(prompt, self._max_tokens + _TOKENS_PER_WORD * number)
        return parse_words(reply or "", allowed, number)

    async def explain(self, prompt: str, max_tokens: int) -> str:
        """What the model says in its own words; empty where it refuses. It never decides."""
        return await self._generate(prompt, max_tokens) or ""

    async def _vote(self, prompt: str) -> Vote:
        reply = await self._reply(prompt)
        return Vote.REFUSED if reply is None else parse_vote(reply)

    async def _reply(self, prompt: str, max_tokens: int | None = None) -> str | None:
        most = max_tokens or self._max_tokens
        reply = await self._generate(prompt, most)
        if reply is not None and most < _TOKENS_TO_THINK and _THINKING.fullmatch(reply):
            return await self._generate(prompt, _TOKENS_TO_THINK)
        return reply

    async def _generate(self, prompt: str, max_tokens: int) -> str | None:
        """The reply; None where the model refuses."""
        try:
            return await self.provider.generate(prompt, max_tokens)
        except ProviderError as error:
            if error.kind is ProviderFailure.REFUSAL:
                return None
            raise


_WORDINGS = ("judge_correctness", "judge_correctness_facts", "judge_correctness_reader")
"""The same question in three wordings: at temperature 0 the same one would get the same reply."""


def correctness_prompts(votes: int) -> tuple[str, ...]:
    """The ids of the prompts that so many votes are asked with."""
    return tuple(load_prompt(name).id for name in _WORDINGS[: votes // 2])


def correctness_prompt(question: str, answer: str, reference: str, vote: int = 0) -> str:
    """The public evaluator's question; the reference first in every second vote, and other words
    in every second pair.
    """
    code = delimiter_code(question, answer, reference, str(vote))
    blocks = [
        f"Generated Answer:\n{delimited('answer', code, answer)}",
        f"Ground Truth Answer:\n{delimited('answer', code, reference)}",
    ]
    first, second = reversed(blocks) if vote % 2 else blocks
    return load_prompt(_WORDINGS[vote // 2 % len(_WORDINGS)]).fill(
        code=code, question=delimited("question", code, question), first=first, second=second
    )


def fact_prompt(question: str, answer: str, fact: Fact) -> str:
    """Asks whether the answer states, contradicts or leaves out one fact."""
    code = delimiter_code(question, answer, fact.text)
    wordings = "; ".join(fact.accept)
    said = f"{fact.text} (for example: {wordings})" if wordings else fact.text
    return load_prompt("judge_fact").fill(
        code=code,
        question=delimited("question", code, question),
        fact=delimited("fact", code, said),
        answer=delimited("answer", code, answer),
    )


_SUPPORT = ("judge_support", "judge_support_first")


def support_prompt(statement: str, sources: Sequence[str], vote: int = 0) -> str:
    """Asks whether the sources support one statement, which is first in every second vote."""
    code = delimiter_code(statement, *sources, *([str(vote)] if vote else []))
    return load_prompt(_SUPPORT[vote % 2]).fill(
        code=code,
        documents="\n\n".join(delimited("document", code, source) for source in sources),
        statement=delimited("statement", code, statement),
    )


class JudgeInput(NamedTuple):
    """An answer to be judged.

    `answer` is None if the agent failed, `reference` where declining is the correct answer.
    """

    question: str
    answer: str | None
    reference: str | None


async def judge_answers(
    judge: Judge, inputs: Sequence[JudgeInput], progress: Progress = silent
) -> list[Judgment]:
    """The judgments in the order of `inputs`.

    A failure of the provider is raised; votes up to then are in its cache, so calling again
    continues from there.
    """

    async def one(case: JudgeInput) -> Judgment:
        if case.answer is None:
            return Judgment((Vote.FALSE,), by_rule=True)
        return await judge.correctness(case.question, case.answer, case.reference)

    return await gather_for(inputs, one, "judging", progress)
