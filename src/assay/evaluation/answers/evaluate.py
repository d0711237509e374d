"""Evaluates the answers of a run after its last call, and asks again if the settings say so.

    results = await evaluate_answers(cases, judge, asker, options)

Each answer is compared with its reference: by a judge if there is one, else by key facts.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from assay.answers.case import AnswerCase
from assay.answers.criteria import Criterion
from assay.answers.diagnosis import NOT_TRIED, Counterfactuals
from assay.answers.entailment import ModelFaithfulness, measure_support, open_entailment
from assay.answers.judge import Judge, Judgment, UnreliableJudge, unreliable
from assay.answers.judge_controls import JudgeControls
from assay.answers.outcome import correct
from assay.errors import BudgetExceeded, ProviderError, ProviderFailure
from assay.evaluation.answers.asking_again import (
    Context,
    CounterfactualRunner,
    TargetLost,
    run_counterfactual,
    select_cases,
)
from assay.evaluation.answers.criteria import CriteriaScores, rate_answers
from assay.evaluation.answers.judging import (
    JudgeUse,
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
from assay.net.gather import gather_for
from assay.targets.protocol import Agent, TakesContext, context_taker

_CONTEXT_IGNORED = (
    "the agent ignored the documents that it was given, so asking again shows nothing: "
    "failures are diagnosed from this run alone"
)
_FIELDS = {Context.GOLD: "gold", Context.NONE: "no_context", Context.DISTRACTORS: "distractors"}


@dataclass(frozen=True)
class AnswerResults:
    """What judge and counterfactual runs found.

    `verdicts` are empty if a judge was to decide and did not finish: key facts are no substitute
    for it. `counterfactuals` is None if no question was asked again. `trouble` says why the judge
    or the counterfactual runs stopped early. `context_ignored` counts the questions that got the
    same answer from every context, if all of them did. `judgments` are everything that the judge
    said about correctness, also if it was then not believed. `failed_figures` are left out: the
    judge failed the controls of their prompt.
    """

    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    counterfactuals: Mapping[str, Counterfactuals] | None = None
    judge: JudgeUse | None = None
    trouble: str | None = None
    target_lost: bool = False
    note: str | None = None
    contexts: tuple[Context, ...] = ()
    context_ignored: int = 0
    judgments: tuple[Judgment, ...] = ()
    controls: JudgeControls | None = None
    failed_figures: Mapping[str, str] = field(default_factory=dict)
    criteria: CriteriaScores = field(default_factory=CriteriaScores)
    poison: PoisonRun | None = None
    nuggets: NuggetFindings | None = None
    support: ModelFaithfulness | None = None

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


@dataclass(frozen=True)
class AnswerOptions:
    """What to do with the answers beside judging them.

    Parameters:
        folder: the run folder, for the calls of counterfactual runs.
        provider: a model of the caller's own, in place of the one that the settings name.
        nuggets: what the answers should state.
        criteria: those of the user's own, which a judge rates the answers by.
    """

    folder: Path
    provider: LLMProvider | None = None
    nuggets: NuggetSet | None = None
    criteria: Sequence[Criterion] = ()


async def evaluate_answers(
    cases: Sequence[AnswerCase],
    agent: Agent | None,
    asker: CounterfactualRunner,
    options: AnswerOptions,
) -> AnswerResults:
    """Judge the answers of a complete run.

    A judge that fails ends its own work and not the run: what needs no model is kept.

    Parameters:
        cases: the questions with their answers.
        agent: asked again if the settings say so and it can be given documents; None if answers
            were logged and nobody can be asked.
        asker: asks questions again, with the settings, the data set and the progress of the run.
        options: what else to measure.
    """
    config, stop = asker.config, asker.stop
    judged = options.provider is not None or bool(config.judge)
    results = AnswerResults({} if judged else verdicts_by_facts(cases))

    async def run(judge: Judge | None) -> None:
        nonlocal results
        async for stage in _stages(results, cases, agent, judge, asker, options):
            results = stage

    try:
        kept = None if agent is None else options.folder  # a log has no folder of a run
        async with open_judge(config, options.provider, kept) as judge:
            try:
                await unless_stopped(run(judge), stop)
            finally:
                results = replace(results, judge=None if judge is None else JudgeUse.of(judge))
    except (ProviderError, BudgetExceeded) as error:
        results = replace(results, trouble=_judge_trouble(error, private=config.private))
    except UnreliableJudge as error:
        results = replace(results, trouble=str(error), verdicts={}, nuggets=None)
    except TargetLost:
        trouble = "the target became unreachable while questions were asked again"
        results = replace(results, trouble=trouble, target_lost=True)
    if stop.is_set() and results.trouble is None:
        results = replace(results, trouble="interrupted before all answers were judged")
    return results


def _judge_trouble(error: ProviderError | BudgetExceeded, *, private: bool) -> str:
    if not isinstance(error, ProviderError):
        return str(error)
    if private:
        return f"the judge failed: {error.kind}"
    more = ", or allow more with --judge-set timeout=S"
    return str(error) + (more if error.kind is ProviderFailure.TIMEOUT else "")


async def _stages(
    results: AnswerResults,
    cases: Sequence[AnswerCase],
    agent: Agent | None,
    judge: Judge | None,
    asker: CounterfactualRunner,
    options: AnswerOptions,
) -> AsyncIterator[AnswerResults]:
    """The results after each stage: what an exception ends is kept as far as it came."""
    config, documents = asker.config, asker.dataset.documents
    if agent is not None and config.poison:
        poison = await run_poison(agent, cases, options.folder, asker)
        yield (results := replace(results, poison=poison))
    if config.faithfulness:
        model = open_entailment(config.faithfulness)
        support = await asyncio.to_thread(measure_support, model, cases, asker.progress)
        yield (results := replace(results, support=support))
    if judge is not None:
        controls = await check_controls(judge, cases, documents, config.judge_set.controls)
        yield (results := replace(results, controls=controls))
        if controls is not None and (failure := controls.failure):
            raise UnreliableJudge(failure)
        failed = await failed_figures(judge, cases, documents, config.judge_set.controls)
        yield (results := replace(results, failed_figures=failed))
        verdicts = await verdicts_by_judge(judge, cases, documents, asker.progress)
        judgments = tuple(each.judgment for each in verdicts.values() if each.judgment)
        yield (results := replace(results, judgments=judgments))
        if doubt := unreliable(judgments, config.judge_set.max_flips):
            raise UnreliableJudge(doubt)
        kept = await drop_injected_verdicts(judge, cases, verdicts)
        results = replace(results, verdicts=kept)
        yield (results := replace(results, note=_judge_note(verdicts, results)))
    if judge is not None and options.criteria:
        rated = await rate_answers(
            judge,
            options.criteria,
            cases,
            documents,
            controls=config.judge_set.controls > 0,
            progress=asker.progress,
        )
        trouble = rated.refuse_unsteady()
        yield (results := replace(results, criteria=rated, trouble=trouble))
    if options.nuggets is not None:
        assigned = (
            nuggets_by_rules(cases, options.nuggets)
            if judge is None
            else await nuggets_by_judge(judge, cases, options.nuggets, config, asker.progress)
        )
        yield (results := replace(results, nuggets=assigned))
    taker = context_taker(agent) if agent and config.counterfactuals else None
    if taker is not None:
        yield await _ask_again(results, cases, taker, judge, asker, options.folder)


async def _ask_again(
    results: AnswerResults,
    cases: Sequence[AnswerCase],
    taker: TakesContext,
    judge: Judge | None,
    asker: CounterfactualRunner,
    folder: Path,
) -> AnswerResults:
    """Every question once more in each kind of context, where that can tell anything."""
    right = {name: each.correct for name, each in results.verdicts.items()}
    found: dict[str, Counterfactuals] = {}
    differs = False
    for context in Context:
        selected = select_cases(cases, right, context)
        calls = await run_counterfactual(taker, selected, context, folder, asker)
        again = [
            replace(case, answer=calls[case.query_id].answer, verdict=None)
            for case in selected
            if case.query_id in calls
        ]
        differs |= any(
            calls[case.query_id].answer != case.answer
            for case in selected
            if case.query_id in calls
        )
        for query_id, is_right in (await _correct(again, judge, context, asker)).items():
            before = found.get(query_id, NOT_TRIED)
            found[query_id] = replace(before, **{_FIELDS[context]: is_right})
    if found and not differs:
        note = "; ".join(filter(None, (results.note, _CONTEXT_IGNORED)))
        return replace(results, context_ignored=len(found), note=note)
    return replace(results, counterfactuals=found, contexts=tuple(Context))


async def _correct(
    cases: Sequence[AnswerCase],
    judge: Judge | None,
    context: Context,
    asker: CounterfactualRunner,
) -> Mapping[str, bool | None]:
    if judge is None:
        return {case.query_id: correct(case) for case in cases}
    what = f"judging, context: {context}"
    judgments = await gather_for(
        cases, lambda case: judge_answer(judge, case), what, asker.progress
    )
    return {
        case.query_id: None if judgment is None else judgment.verdict
        for case, judgment in zip(cases, judgments, strict=True)
    }


def _judge_note(before: Mapping[str, Verdict], results: AnswerResults) -> str | None:
    notes = []
    notes += [f"{name} is left out: {why}" for name, why in results.failed_figures.items()]
    if unread := [name for name in results.unread if name not in results.failed_figures]:
        notes.append(f"most replies for {' and '.join(unread)} could not be read: left out")
    swayed = sum(
        each.correct is not results.verdicts[name].correct for name, each in before.items()
    )
    if swayed:
        what = f"{swayed} right only with sentences that make the judge call a wrong answer right"
        notes.append(f"answers undecided: {what} as well")
    return "; ".join(notes) or None
