"""Between the last call and the report: judge the answers, and ask again where that helps.

Each answer is compared with its reference: by a judge if there is one, else by its key facts.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from assay.agents.protocol import Agent, TakesContext, context_taker
from assay.answer.providers.provider import LLMProvider
from assay.data.dataset import Dataset, Document
from assay.errors import BudgetExceeded, ProviderError, ProviderFailure
from assay.evaluation.answers.asking_again import AskingAgain, TargetLost
from assay.evaluation.answers.contradictions import (
    Found,
    confirm_contradictions,
    find_contradictions,
    open_checker,
)
from assay.evaluation.answers.counterfactuals import Context, run_counterfactual, select_cases
from assay.evaluation.answers.criteria_scores import CriteriaScores, rate_answers
from assay.evaluation.answers.judge_opening import (
    JudgeUse,
    UnreliableJudge,
    check_controls,
    open_judge,
    sways,
)
from assay.evaluation.answers.nugget_scores import (
    NuggetFindings,
    NuggetSet,
    nuggets_by_judge,
    nuggets_by_rules,
)
from assay.evaluation.answers.poisoning import PoisonRun, run_poison
from assay.measure.answers.abstention import abstained
from assay.measure.answers.answer_metrics import AnswerCase, correct_by_facts
from assay.measure.answers.contradiction.rules import Contradiction, ContradictionKind
from assay.measure.answers.criteria import Criterion
from assay.measure.answers.diagnosis import NOT_TRIED, Counterfactuals
from assay.measure.answers.judge import FactsJudgment, Judge, Judgment, Vote, unreliable
from assay.measure.answers.judge_controls import ControlResult
from assay.net.gather import gather
from assay.net.retry import CircuitBreaker
from assay.progress import Progress, silent
from assay.run.config import RunConfig

Documents = Mapping[str, Document]
Reply = TypeVar("Reply")

_CONTEXT_IGNORED = (
    "the agent ignored the documents that it was given, so asking again shows nothing: "
    "failures are diagnosed from this run alone"
)
_FIELDS = {Context.GOLD: "gold", Context.NONE: "no_context", Context.DISTRACTORS: "distractors"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known about one answer.

    `correct` is None if nothing could be decided: there is no reference, or the judge is
    undecided.
    """

    correct: bool | None
    judgment: Judgment | None = None
    facts: FactsJudgment | None = None
    faithfulness: float | None = None
    unread: frozenset[str] = frozenset()
    """The judged figures for which most replies about this answer could not be read."""

    @property
    def undecided(self) -> bool:
        """Whether a judge was asked and had no majority."""
        return self.judgment is not None and self.correct is None

    @property
    def contradicted(self) -> bool:
        """Whether the answer contradicts a fact of the reference."""
        return self.facts is not None and self.facts.contradicted > 0


@dataclass
class AnswerExamination:
    """What judge and counterfactual runs found.

    `verdicts` are empty if a judge was to decide and did not finish: key facts are no substitute
    for it. `counterfactuals` is None if no question was asked again. `trouble` says why the
    judge or the counterfactual runs stopped early, if they did.
    """

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    counterfactuals: dict[str, Counterfactuals] | None = None
    judge: JudgeUse | None = None
    trouble: str | None = None
    target_lost: bool = False
    note: str | None = None
    contexts: tuple[Context, ...] = ()
    context_ignored: int = 0
    """How many questions got the same answer from every context, where all of them did."""
    judgments: tuple[Judgment, ...] = ()
    """Everything that the judge said about correctness, also where it was then not believed."""
    controls: ControlResult | None = None
    """What the judge said about pairs whose verdict is known; None if it was not asked."""
    criteria: CriteriaScores = field(default_factory=CriteriaScores)
    contradictions: Found = field(default_factory=dict)
    contradictions_by: str = ""
    poison: PoisonRun | None = None
    nuggets: NuggetFindings | None = None

    @property
    def unread(self) -> list[str]:
        """The judged figures for which most answers got no reply that could be read."""
        verdicts = self.verdicts.values()
        unread = Counter(name for each in verdicts for name in each.unread)
        facts = sum(each.facts is not None for each in verdicts)
        supported = sum(each.faithfulness is not None for each in verdicts)
        read = {"judged_facts": facts - unread["judged_facts"], "judged_faithfulness": supported}
        return [name for name, number in read.items() if unread[name] > number]

    def sure_contradictions(self, query_id: str) -> list[Contradiction]:
        """Those of the rules, and what the small model finds where a judge did not clear it."""
        those = self.contradictions.get(query_id, ())
        if self.judge is not None and self.verdicts:
            return list(those)
        return [each for each in those if each.kind is not ContradictionKind.LIKELY]


async def examine_answers(
    cases: Sequence[AnswerCase],
    agent: Agent | None,
    config: RunConfig,
    dataset: Dataset,
    folder: Path,
    *,
    provider: LLMProvider | None = None,
    nuggets: NuggetSet | None = None,
    criteria: Sequence[Criterion] = (),
    stop: asyncio.Event,
    progress: Progress = silent,
    breaker: Callable[[], CircuitBreaker] = CircuitBreaker,
) -> AnswerExamination:
    """Judge the answers of a complete run.

    A judge that fails ends its own work and not the run: what needs no model is kept.

    Args:
        cases: the questions with their answers.
        agent: asked again if `config.counterfactuals` and if it can be given documents; None where
            answers were logged and nobody can be asked.
        folder: the run folder, for the calls of counterfactual runs.
        provider: a model of the caller's own, in place of the one that `config.judge` names.
        nuggets: what the answers should state.
        criteria: those of the user's own, which a judge rates the answers by.
        stop: set to end early.
        breaker: makes the circuit breakers for the questions that are asked again.
    """
    judged = provider is not None or bool(config.judge)
    checker = open_checker()
    found = AnswerExamination(
        {} if judged else verdicts_by_facts(cases),
        contradictions=find_contradictions(cases, dataset.documents, checker),
        contradictions_by=checker.name,
    )
    asking = AskingAgain(dataset, config, stop, progress, breaker=breaker)
    examiner = _Examiner(config, dataset, folder, asking, progress, found, nuggets, criteria)
    try:
        async with open_judge(config, provider) as judge:
            try:
                await _unless_stopped(examiner.run(cases, agent, judge), stop)
            finally:
                found.judge = None if judge is None else JudgeUse.of(judge)
    except (ProviderError, BudgetExceeded) as error:
        found.trouble = str(error)
        if isinstance(error, ProviderError) and error.kind is ProviderFailure.TIMEOUT:
            found.trouble += ", or allow more with --judge-timeout"
        if config.private and isinstance(error, ProviderError):
            found.trouble = f"the judge failed: {error.kind}"
    except UnreliableJudge as error:
        found.trouble, found.verdicts, found.nuggets = str(error), {}, None
    except TargetLost:
        found.trouble = "the target became unreachable while questions were asked again"
        found.target_lost = True
    if stop.is_set() and found.trouble is None:
        found.trouble = "interrupted before all answers were judged"
    return found


@dataclass(frozen=True)
class _Examiner:
    config: RunConfig
    dataset: Dataset
    folder: Path
    asking: AskingAgain
    progress: Progress
    found: AnswerExamination
    nuggets: NuggetSet | None = None
    criteria: Sequence[Criterion] = ()

    async def run(
        self, cases: Sequence[AnswerCase], agent: Agent | None, judge: Judge | None
    ) -> None:
        found = self.found
        if agent is not None and self.config.poison:
            found.poison = await run_poison(agent, cases, self.folder, self.asking)
        if judge is not None:
            documents = self.dataset.documents
            found.controls = await check_controls(
                judge, cases, documents, self.config.judge_controls
            )
            if found.controls is not None and (failure := found.controls.failure):
                raise UnreliableJudge(failure)
            verdicts = await verdicts_by_judge(judge, cases, documents, self.progress)
            found.judgments = tuple(v.judgment for v in verdicts.values() if v.judgment)
            if doubt := unreliable(found.judgments, self.config.judge_max_flips):
                raise UnreliableJudge(doubt)
            found.verdicts = await without_swayed(judge, cases, verdicts)
            found.note = _judge_note(verdicts, found)
            found.contradictions = await confirm_contradictions(
                judge, found.contradictions, cases, documents
            )
            found.contradictions_by += f", then the judge {judge.name}"
            await self._rate(cases, judge)
        if self.nuggets is not None and judge is not None:
            found.nuggets = await nuggets_by_judge(
                judge, cases, self.nuggets, self.config, self.progress
            )
        elif self.nuggets is not None:
            found.nuggets = nuggets_by_rules(cases, self.nuggets)
        taker = context_taker(agent) if agent and self.config.counterfactuals else None
        if taker is None:
            return
        found.counterfactuals = {}
        correct = {name: each.correct for name, each in found.verdicts.items()}
        differs = False
        for context in Context:
            selected = select_cases(cases, correct, context)
            differs |= await self._try(context, selected, taker, judge, found.counterfactuals)
        if found.counterfactuals and not differs:
            found.context_ignored = len(found.counterfactuals)
            found.counterfactuals, found.contexts, found.note = None, (), _CONTEXT_IGNORED

    async def _rate(self, cases: Sequence[AnswerCase], judge: Judge) -> None:
        if not self.criteria:
            return
        rated = await rate_answers(
            judge,
            self.criteria,
            cases,
            self.dataset.documents,
            reasons=self.config.reasons,
            progress=self.progress,
        )
        self.found.trouble = rated.refuse_unsteady(self.config.judge_max_flips)
        self.found.criteria = rated

    async def _try(
        self,
        context: Context,
        cases: Sequence[AnswerCase],
        agent: TakesContext,
        judge: Judge | None,
        results: dict[str, Counterfactuals],
    ) -> bool:
        """Whether any answer differs from the one that was given before."""
        calls = await run_counterfactual(agent, cases, context, self.folder, self.asking)
        again = [
            replace(case, answer=calls[case.query_id].answer)
            for case in cases
            if case.query_id in calls
        ]
        for query_id, right in (await self._correct(again, judge, context)).items():
            before = results.get(query_id, NOT_TRIED)
            results[query_id] = replace(before, **{_FIELDS[context]: right})
        self.found.contexts = (*self.found.contexts, context)
        return any(
            calls[case.query_id].answer != case.answer for case in cases if case.query_id in calls
        )

    async def _correct(
        self, cases: Sequence[AnswerCase], judge: Judge | None, context: Context
    ) -> Mapping[str, bool | None]:
        if judge is None:
            return {case.query_id: correct_by_facts(case) for case in cases}
        what = f"judging, context: {context}"
        judgments = await _each(cases, lambda case: _judgment(judge, case), what, self.progress)
        return {
            case.query_id: None if judgment is None else judgment.verdict
            for case, judgment in zip(cases, judgments, strict=True)
        }


def verdicts_by_facts(cases: Sequence[AnswerCase]) -> dict[str, Verdict]:
    """A verdict for each query id, by key facts and without a model."""
    return {case.query_id: Verdict(correct_by_facts(case)) for case in cases}


async def verdicts_by_judge(
    judge: Judge, cases: Sequence[AnswerCase], documents: Documents, progress: Progress = silent
) -> dict[str, Verdict]:
    """Correctness, facts and faithfulness of every answer that has a reference, by query id."""
    verdicts = await _each(
        cases, lambda case: _verdict(judge, case, documents), "judging answers", progress
    )
    return {case.query_id: verdict for case, verdict in zip(cases, verdicts, strict=True)}


def _judge_note(before: Mapping[str, Verdict], found: AnswerExamination) -> str | None:
    notes = []
    if unread := found.unread:
        notes.append(f"most replies for {' and '.join(unread)} could not be read: left out")
    swayed = sum(each.correct is not found.verdicts[name].correct for name, each in before.items())
    if swayed:
        what = f"{swayed} right only with sentences that make the judge call a wrong answer right"
        notes.append(f"answers undecided: {what} as well")
    return "; ".join(notes) or None


async def without_swayed(
    judge: Judge, cases: Sequence[AnswerCase], verdicts: Mapping[str, Verdict]
) -> dict[str, Verdict]:
    """The verdicts, without those of answers that are right only by what they say beside the
    answer, which makes wrong ones right too: nobody knows about these.
    """
    right = [case for case in cases if verdicts[case.query_id].correct and case.reference.answer]
    swayed = await gather(sways(judge, case, cases) for case in right)
    talked = {case.query_id for case, each in zip(right, swayed, strict=True) if each}
    return {
        name: replace(each, correct=None, facts=None, faithfulness=None) if name in talked else each
        for name, each in verdicts.items()
    }


async def _verdict(judge: Judge, case: AnswerCase, documents: Documents) -> Verdict:
    judgment = await _judgment(judge, case)
    if case.answer is None or not case.answerable or abstained(case.answer):
        return Verdict(judgment.verdict if judgment else None, judgment)
    facts = None
    if case.reference.facts:
        facts = await judge.facts(case.question, case.answer, case.reference.facts)
    sources = case.cited_texts(documents)
    faithful = await judge.faithfulness(case.answer, sources) if sources else 0.0
    unread = {"judged_faithfulness"} if faithful is None else set[str]()
    if facts is not None and 2 * facts.unparseable > len(case.reference.facts):
        unread.add("judged_facts")
    right = judgment.verdict if judgment else None
    return Verdict(right, judgment, facts, faithful, frozenset(unread))


async def _judgment(judge: Judge, case: AnswerCase) -> Judgment | None:
    if case.reference.answer == "":
        return None
    if case.answer is None:
        return Judgment((Vote.FALSE,), by_rule=True)
    return await judge.correctness(case.question, case.answer, case.reference.answer)


async def _each(
    cases: Sequence[AnswerCase],
    ask: Callable[[AnswerCase], Coroutine[Any, Any, Reply]],
    what: str,
    progress: Progress,
) -> list[Reply]:
    done = 0
    progress(what, done, len(cases))

    async def one(case: AnswerCase) -> Reply:
        nonlocal done
        reply = await ask(case)
        done += 1
        progress(what, done, len(cases))
        return reply

    return await gather(one(case) for case in cases)


async def _unless_stopped(work: Coroutine[Any, Any, Reply], stop: asyncio.Event) -> Reply | None:
    """None if `stop` came first; what the judge said until then is in its cache."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
