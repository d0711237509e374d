"""Each answer held against its reference: by a judge where there is one, else by its key facts."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from assay.answer.together import gathered
from assay.data.dataset import Document
from assay.measure.answers.abstention import abstained
from assay.measure.answers.case import AnswerCase
from assay.measure.answers.correctness import correct_by_facts
from assay.measure.answers.diagnosis import Counterfactuals
from assay.measure.answers.judge import FactsJudgment, Judge
from assay.measure.answers.verdicts import Judgment, Vote
from assay.progress import Progress, silent

Documents = Mapping[str, Document]
Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known about one answer. `correct` is None where nothing could be decided: there is
    no reference, or the judge said neither.
    """

    correct: bool | None
    judgment: Judgment | None = None
    facts: FactsJudgment | None = None
    faithfulness: float | None = None

    @property
    def undecided(self) -> bool:
        """A judge was asked, and said neither."""
        return self.judgment is not None and self.correct is None

    @property
    def contradicted(self) -> bool:
        return self.facts is not None and self.facts.contradicted > 0


@dataclass
class Examination:
    """`trouble` says why the judge or the further questions stopped early, where they did.

    `verdicts` are empty where a judge was to decide and did not come to an end: what it would have
    said is not known, and key facts do not speak for it. `others` is None where no question was put
    again.
    """

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    others: dict[str, Counterfactuals] | None = None
    judge: dict[str, Any] | None = None
    trouble: str | None = None
    target_lost: bool = False
    note: str | None = None
    tried: tuple[str, ...] = ()


def verdicts_by_facts(cases: Sequence[AnswerCase]) -> dict[str, Verdict]:
    return {case.query_id: Verdict(correct_by_facts(case)) for case in cases}


async def verdicts_by_judge(
    judge: Judge, cases: Sequence[AnswerCase], documents: Documents, progress: Progress = silent
) -> dict[str, Verdict]:
    """Correctness, facts and faithfulness of every answer that has a reference."""
    verdicts = await _each(
        cases, lambda case: _verdict(judge, case, documents), "judging answers", progress
    )
    return {case.query_id: verdict for case, verdict in zip(cases, verdicts, strict=True)}


async def correct_by_judge(
    judge: Judge, cases: Sequence[AnswerCase], what: str, progress: Progress = silent
) -> dict[str, bool | None]:
    """Right or wrong alone, for answers that were given in another context."""
    judgments = await _each(cases, lambda case: _judgment(judge, case), what, progress)
    return {
        case.query_id: None if judgment is None else judgment.verdict
        for case, judgment in zip(cases, judgments, strict=True)
    }


async def _verdict(judge: Judge, case: AnswerCase, documents: Documents) -> Verdict:
    judgment = await _judgment(judge, case)
    if case.answer is None or not case.answerable or abstained(case.answer):
        return Verdict(judgment.verdict if judgment else None, judgment)
    facts = None
    if case.reference.facts:
        facts = await judge.facts(case.question, case.answer, case.reference.facts)
    ids = case.citations or case.retrieved
    sources = [documents[each].full_text for each in ids if each in documents]
    faithful = await judge.faithfulness(case.answer, sources) if sources else 0.0
    return Verdict(judgment.verdict if judgment else None, judgment, facts, faithful)


async def _judgment(judge: Judge, case: AnswerCase) -> Judgment | None:
    if case.reference.answer == "":
        return None
    if case.answer is None:
        return Judgment((Vote.FALSE,), by_rule=True)
    return await judge.correctness(case.question, case.answer, case.reference.answer)


async def _each(
    cases: Sequence[AnswerCase],
    put: Callable[[AnswerCase], Coroutine[Any, Any, Reply]],
    what: str,
    progress: Progress,
) -> list[Reply]:
    done = 0
    progress(what, done, len(cases))

    async def one(case: AnswerCase) -> Reply:
        nonlocal done
        reply = await put(case)
        done += 1
        progress(what, done, len(cases))
        return reply

    return await gathered(one(case) for case in cases)


async def unless_stopped(work: Coroutine[Any, Any, Reply], stop: asyncio.Event) -> Reply | None:
    """None where `stop` came first; what the judge said until then is in its cache."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
