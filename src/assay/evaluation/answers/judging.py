"""The judge of a run: which model it is, whether its verdicts can be believed, and its verdicts."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from assay.answers.case import AnswerCase
from assay.answers.criteria import Criterion, criterion_failure, rate_answer
from assay.answers.judge import TRUTH, Judge, Judgment, correctness_prompt, ruled, unreliable
from assay.answers.judge_controls import (
    NEAR_MISSES,
    UNRELATED,
    altered_pairs,
    ask_controls,
    control_pairs,
    self_test,
)
from assay.answers.statements import abstained, split_surplus
from assay.llm.providers.opening import open_provider
from assay.llm.providers.provider import LLMProvider
from assay.metrics.answer_values import JudgeControls
from assay.net.gather import gather, gather_for
from assay.progress import Progress, silent
from assay.run.answers import CriterionRecord
from assay.run.config import RunConfig
from assay.run.folder import JudgeLog
from assay.text import sentences

# `UNRELATED` is a wrong answer to this: nothing that is put after it can make it right.
_OTHER_QUESTION = "Which bird nests on the tower of the lighthouse?"
_OTHER_REFERENCE = "A pair of kestrels nests on the tower."


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known about one answer.

    `correct` is None if nothing decides. `unread` says that most replies about the support of the
    answer's sentences could not be read.
    """

    correct: bool | None
    judgment: Judgment | None = None
    faithfulness: float | None = None
    unread: bool = False

    @property
    def decidable(self) -> bool:
        """Whether something could decide, also if a judge had no majority."""
        return self.correct is not None or self.judgment is not None


@asynccontextmanager
async def open_judge(
    config: RunConfig, provider: LLMProvider | None, folder: Path | None = None
) -> AsyncIterator[Judge | None]:
    """The judge that the settings or the caller name; None for none.

    What it is asked and replies is kept in the run's `folder`, unless the run is private.
    """
    record = None
    if folder is not None and not config.private and (provider or config.judge):
        record = JudgeLog(folder).add
    if provider is not None:
        yield Judge(provider, config.judge_set.votes, record=record)
    elif config.judge:
        async with open_provider(
            config.judge,
            max_cost=config.judge_set.max_cost,
            concurrency=config.judge_set.concurrency,
            timeout=config.judge_set.timeout,
            cache=not config.no_cache,
        ) as opened:
            yield Judge(opened, config.judge_set.votes, record=record)
    else:
        yield None


async def check_controls(
    judge: Judge, cases: Sequence[AnswerCase], number: int
) -> JudgeControls | None:
    """Ask the judge what is known: about references or, if there is none, about sources."""
    known = [(case.question, case.reference.answer or "") for case in cases if case.answerable]
    found = await self_test(known, number, lambda pair: judge.correctness(*pair[:3]))
    return found or await check_support(judge, cases, number)


async def check_support(
    judge: Judge, cases: Sequence[AnswerCase], number: int
) -> JudgeControls | None:
    """Whether the judge tells a source's own sentence from foreign and from changed ones."""
    sources = dict.fromkeys(text for case in cases for text in case.seen_texts[:1])
    pairs = control_pairs([("", next(iter(sentences(text)), "")) for text in sources], number)
    if not pairs:
        return None
    own = [(pair.question, pair.reference) for pair in pairs if pair.same]
    altered = altered_pairs(own, NEAR_MISSES * number)
    return await ask_controls(
        pairs, lambda pair: judge.supports(pair.answer, [pair.reference]), altered
    )


async def verdicts_by_judge(
    judge: Judge, cases: Sequence[AnswerCase], progress: Progress = silent
) -> dict[str, Verdict]:
    """Correctness and faithfulness of every answer that has a reference, by query id."""
    verdicts = await gather_for(
        cases, lambda case: _verdict(judge.about(case.query_id), case), "judging answers", progress
    )
    return {case.query_id: verdict for case, verdict in zip(cases, verdicts, strict=True)}


async def _verdict(judge: Judge, case: AnswerCase) -> Verdict:
    judgment = await judge_answer(judge, case)
    right = judgment.verdict if judgment else None
    if case.answer is None or not case.answerable or abstained(case.answer):
        return Verdict(right, judgment)
    sources = case.cited_texts
    faithful = await judge.faithfulness(case.answer, sources) if sources else 0.0
    return Verdict(right, judgment, faithful, unread=faithful is None)


async def judge_answer(judge: Judge, case: AnswerCase) -> Judgment | None:
    """Whether an answer is right; None if there is no reference."""
    if case.reference.answer == "":
        return None
    if case.answer is None:
        return ruled("FALSE")
    return await judge.correctness(case.question, case.answer, case.reference.answer)


async def drop_injected_verdicts(
    judge: Judge, cases: Sequence[AnswerCase], verdicts: Mapping[str, Verdict]
) -> dict[str, Verdict]:
    """The verdicts; those of answers that are right only by surplus sentences are undecided."""
    right = [case for case in cases if verdicts[case.query_id].correct and case.reference.answer]
    injected = await gather(is_injected(judge, case) for case in right)
    doubtful = [case.query_id for case, each in zip(right, injected, strict=True) if each]
    return {**verdicts, **{name: Verdict(None, verdicts[name].judgment) for name in doubtful}}


async def is_injected(judge: Judge, case: AnswerCase) -> bool:
    """Whether surplus sentences, not the answer, made the judge say TRUE.

    What was neither asked nor expected, in whatever language, is put after a wrong answer to
    another question. If it makes that right, the answer is judged without it: one that is right
    then was not made right by it, whatever else it does to the judge (a judge may prefer length).
    """
    expected = case.reference.answer or ""
    spoken, rest = split_surplus(case.answer or "", f"{case.question} {expected}")
    if not spoken:
        return False

    async def accepts(question: str, answer: str, reference: str) -> bool:
        return (await judge.correctness(question, answer, reference)).verdict is True

    planted = "\n".join([UNRELATED, *spoken])
    # One call shows most judges to be steady.
    first = correctness_prompt(_OTHER_QUESTION, planted, _OTHER_REFERENCE)
    if (await judge.ask("control", [first], TRUTH)).verdict is not True:
        return False
    if await accepts(_OTHER_QUESTION, UNRELATED, _OTHER_REFERENCE):
        return False  # it calls this right without a word: the controls are about such a judge
    if not await accepts(_OTHER_QUESTION, planted, _OTHER_REFERENCE):
        return False
    return not rest or not await accepts(case.question, "\n".join(rest), expected)


@dataclass(frozen=True)
class RatedCriterion:
    """The ratings by one criterion, by query id."""

    criterion: Criterion
    judge: str
    ratings: Mapping[str, Judgment]

    @property
    def values(self) -> dict[str, float]:
        """An answer that was not decided, or is missing, counts as 0."""
        return {query_id: each.value or 0.0 for query_id, each in self.ratings.items()}

    @property
    def how(self) -> str:
        """What was asked, for tables."""
        undecided = sum(each.value is None for each in self.ratings.values())
        doubt = f"; {undecided} undecided, counted as 0" if undecided else ""
        return self.criterion.text.splitlines()[0][:80] + doubt

    def record(self) -> CriterionRecord:
        """What was asked, and how steadily the judge rated by it."""
        asked = [each for each in self.ratings.values() if each.votes]
        return CriterionRecord(
            name=self.criterion.name,
            text=self.criterion.text,
            levels=list(self.criterion.levels),
            fingerprint=self.criterion.fingerprint,
            judge=self.judge,
            rated=len(asked),
            undecided=sum(each.value is None for each in asked),
            differing=sum(len({*each.votes}) > 1 for each in asked),
        )


async def rate_answers(
    judge: Judge,
    criteria: Sequence[Criterion],
    cases: Sequence[AnswerCase],
    config: RunConfig,
    progress: Progress = silent,
) -> tuple[list[RatedCriterion], str | None]:
    """The ratings of every answer by the criteria that the judge can rate by; why not by others."""
    believed, doubts = [], []
    for criterion in criteria:

        async def rate(case: AnswerCase, criterion: Criterion = criterion) -> Judgment:
            if case.answer is None:
                return Judgment((), criterion.levels, by_rule=True)
            about = judge.about(case.query_id)
            return await rate_answer(about, criterion, case.question, case.answer, case.seen_texts)

        doubt = await criterion_failure(judge, criterion) if config.judge_set.controls else None
        if doubt is None:
            rated = await gather_for(cases, rate, "rating answers", progress)
            doubt = unreliable(rated, max_flips=config.judge_set.max_flips)
        if doubt is None:
            ratings = {case.query_id: each for case, each in zip(cases, rated, strict=True)}
            believed.append(RatedCriterion(criterion, judge.name, ratings))
        else:
            doubts.append(f"criterion {criterion.name!r}: {doubt}")
    return believed, "; ".join(doubts) or None
