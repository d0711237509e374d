"""Evaluates the answers of a run after its last call, and asks again where the settings say so.

Each answer is compared with its reference: by a judge if there is one, else by its key facts.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from assay.answers.abstention import abstained
from assay.answers.answer_metrics import AnswerCase, Documents, correct_by_facts
from assay.answers.contradiction.model import open_contradiction_model
from assay.answers.contradiction.rules import (
    Contradiction,
    ContradictionChecker,
    ContradictionKind,
)
from assay.answers.criteria import Criterion
from assay.answers.diagnosis import NOT_TRIED, Counterfactuals
from assay.answers.judge import Judge, Judgment, Vote, unreliable
from assay.answers.judge_controls import ControlResult
from assay.data.dataset import Dataset
from assay.errors import BudgetExceeded, ProviderError, ProviderFailure
from assay.evaluation.answers.asking_again import (
    AskingAgain,
    Context,
    TargetLost,
    run_counterfactual,
    select_cases,
)
from assay.evaluation.answers.criteria import CriteriaScores, rate_answers
from assay.evaluation.answers.judging import (
    JudgeUse,
    UnreliableJudge,
    Verdict,
    check_controls,
    drop_injected_verdicts,
    failed_figures,
    judge_answer,
    open_judge,
    verdicts_by_facts,
    verdicts_by_judge,
)
from assay.evaluation.answers.nugget_scores import (
    NuggetFindings,
    NuggetSet,
    nuggets_by_judge,
    nuggets_by_rules,
)
from assay.evaluation.answers.poisoning import PoisonRun, run_poison
from assay.evaluation.pacing import unless_stopped
from assay.llm.providers.provider import LLMProvider
from assay.net.gather import gather, gather_for
from assay.net.retry import CircuitBreaker
from assay.progress import Progress, silent
from assay.run.answers import AnswerContradiction, ContradictionsReport
from assay.run.config import RunConfig
from assay.targets.protocol import Agent, TakesContext, context_taker

ContradictionsById = dict[str, tuple[Contradiction, ...]]
"""Contradictions by query id; questions without any are left out."""

_CONTEXT_IGNORED = (
    "the agent ignored the documents that it was given, so asking again shows nothing: "
    "failures are diagnosed from this run alone"
)
_FIELDS = {Context.GOLD: "gold", Context.NONE: "no_context", Context.DISTRACTORS: "distractors"}


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
    failed_figures: dict[str, str] = field(default_factory=dict)
    """Judged figures that are left out, because the judge failed the controls of their prompt."""
    criteria: CriteriaScores = field(default_factory=CriteriaScores)
    contradictions: ContradictionsById = field(default_factory=dict)
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
        mute = [name for name, number in read.items() if unread[name] > number]
        return [*mute, *(name for name in self.failed_figures if name not in mute)]

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

    Parameters:
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
    checker = ContradictionChecker(open_contradiction_model())
    found = AnswerExamination(
        {} if judged else verdicts_by_facts(cases),
        contradictions=find_contradictions(cases, dataset.documents, checker),
        contradictions_by=checker.name,
    )
    asking = AskingAgain(dataset, config, stop, progress, breaker=breaker)
    examiner = _Examiner(config, dataset, folder, asking, progress, found, nuggets, criteria)
    try:
        kept = None if agent is None else folder  # a log has no folder of a run
        async with open_judge(config, provider, kept) as judge:
            try:
                await unless_stopped(examiner.run(cases, agent, judge), stop)
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
            found.failed_figures = await failed_figures(
                judge, cases, documents, self.config.judge_controls
            )
            verdicts = await verdicts_by_judge(judge, cases, documents, self.progress)
            found.judgments = tuple(v.judgment for v in verdicts.values() if v.judgment)
            if doubt := unreliable(found.judgments):
                raise UnreliableJudge(doubt)
            found.verdicts = await drop_injected_verdicts(judge, cases, verdicts)
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
            found.counterfactuals, found.contexts = None, ()
            found.note = "; ".join(filter(None, (found.note, _CONTEXT_IGNORED)))

    async def _rate(self, cases: Sequence[AnswerCase], judge: Judge) -> None:
        if not self.criteria:
            return
        rated = await rate_answers(
            judge,
            self.criteria,
            cases,
            self.dataset.documents,
            reasons=self.config.reasons,
            controls=self.config.judge_controls > 0,
            progress=self.progress,
        )
        self.found.trouble = rated.refuse_unsteady()
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
        judgments = await gather_for(
            cases, lambda case: judge_answer(judge, case), what, self.progress
        )
        return {
            case.query_id: None if judgment is None else judgment.verdict
            for case, judgment in zip(cases, judgments, strict=True)
        }


def _judge_note(before: Mapping[str, Verdict], found: AnswerExamination) -> str | None:
    notes = []
    notes += [f"{name} is left out: {why}" for name, why in found.failed_figures.items()]
    if unread := [name for name in found.unread if name not in found.failed_figures]:
        notes.append(f"most replies for {' and '.join(unread)} could not be read: left out")
    swayed = sum(each.correct is not found.verdicts[name].correct for name, each in before.items())
    if swayed:
        what = f"{swayed} right only with sentences that make the judge call a wrong answer right"
        notes.append(f"answers undecided: {what} as well")
    return "; ".join(notes) or None


def find_contradictions(
    cases: Sequence[AnswerCase], documents: Documents, checker: ContradictionChecker
) -> ContradictionsById:
    """The contradicted sentences of each answer, against what it cites or was shown."""
    found = {
        case.query_id: tuple(checker.find(case.answer, case.cited_texts(documents)))
        for case in cases
        if case.answer is not None and not abstained(case.answer)
    }
    return {query_id: those for query_id, those in found.items() if those}


async def confirm_contradictions(
    judge: Judge, found: ContradictionsById, cases: Sequence[AnswerCase], documents: Documents
) -> ContradictionsById:
    """Without the sentences that the judge finds supported.

    The judge was asked the same for its faithfulness, so the replies are in its cache.
    """

    async def one(case: AnswerCase) -> tuple[str, tuple[Contradiction, ...]]:
        sources = case.cited_texts(documents)
        those = found[case.query_id]
        votes = await gather(judge.supports(each.sentence, sources) for each in those)
        kept = [each for each, vote in zip(those, votes, strict=True) if vote is not Vote.TRUE]
        return case.query_id, tuple(kept)

    checked = await gather(one(case) for case in cases if case.query_id in found)
    return {query_id: those for query_id, those in checked if those}


def contradictions_report(
    found: ContradictionsById, by: str, *, examples: int
) -> ContradictionsReport:
    """Counts, and at most so many examples, which quote answers and sources."""
    everything = [(query_id, each) for query_id, those in found.items() for each in those]
    kinds = Counter(each.kind.value for _, each in everything)
    return ContradictionsReport(
        by=by,
        answers=len(found),
        sentences=len(everything),
        kinds=dict(kinds.most_common()),
        examples=[contradiction_row(each, query_id) for query_id, each in everything[:examples]],
    )


def contradiction_row(found: Contradiction, query_id: str | None = None) -> AnswerContradiction:
    """A contradiction as a row or a report keeps it."""
    return AnswerContradiction(
        query_id=query_id,
        kind=found.kind.value,
        sentence=found.sentence,
        evidence=found.evidence,
        said=found.said,
        source=found.source,
    )
