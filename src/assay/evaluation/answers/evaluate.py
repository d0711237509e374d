"""Evaluates the answers of a run after its last call, and asks again if the settings say so.

    results = await evaluate_answers(cases, judge, asker, options)

Each answer is compared with its reference: by a judge if there is one, else by key facts.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from assay.answers.case import AnswerCase
from assay.answers.criteria import Criterion
from assay.answers.diagnosis import NOT_TRIED, Counterfactuals
from assay.answers.entailment import ModelFaithfulness, measure_support, open_entailment
from assay.answers.judge import Judge, Judgment, UnreliableJudge, unreliable
from assay.answers.outcome import correct
from assay.errors import BudgetExceeded, ProviderError, ProviderFailure
from assay.evaluation.answers.asking_again import (
    Context,
    CounterfactualRunner,
    TargetLost,
    run_counterfactual,
    select_cases,
)
from assay.evaluation.answers.judging import (
    RatedCriterion,
    Verdict,
    believed_ratings,
    check_controls,
    drop_injected_verdicts,
    failed_figures,
    judge_answer,
    rate_answers,
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
from assay.evaluation.calling import unless_stopped
from assay.metrics.answer_values import JudgeControls
from assay.net.gather import gather_for
from assay.targets.protocol import context_taker

_CONTEXT_IGNORED = (
    "the agent ignored the documents that it was given, so asking again shows nothing: "
    "failures are diagnosed from this run alone"
)
_FIELDS = {Context.GOLD: "gold", Context.NONE: "no_context", Context.DISTRACTORS: "distractors"}
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class AnswerOptions:
    """What to measure beside correctness: facts to state, and criteria of the user's own."""

    nuggets: NuggetSet | None = None
    criteria: Sequence[Criterion] = ()


@dataclass(frozen=True)
class AnswerResults:
    """What judge and counterfactual runs found about the answers.

    `verdicts` are empty if a judge was to decide and did not finish: key facts are no substitute
    for it. `counterfactuals` is None if no question was asked again. `trouble` says why the judge
    or the counterfactual runs stopped early. `context_ignored` counts the questions that got the
    same answer from every context, if all of them did. `judgments` are everything that the judge
    said about correctness, also if it was then not believed. `failed_figures` are left out: the
    judge failed the controls of their prompt.
    """

    cases: Sequence[AnswerCase] = ()
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    counterfactuals: Mapping[str, Counterfactuals] | None = None
    judge: Judge | None = None
    trouble: str | None = None
    target_lost: bool = False
    note: str | None = None
    context_ignored: int = 0
    judgments: tuple[Judgment, ...] = ()
    controls: JudgeControls | None = None
    failed_figures: Mapping[str, str] = field(default_factory=dict)
    criteria: Sequence[RatedCriterion] = ()
    poison: PoisonRun | None = None
    nuggets: NuggetFindings | None = None
    support: ModelFaithfulness | None = None

    @property
    def unread(self) -> list[str]:
        """The judged figures for which most answers got no reply that could be read."""
        verdicts = self.verdicts.values()
        unread = Counter(name for each in verdicts for name in each.unread)
        facts = sum(bool(each.facts) for each in verdicts)
        supported = sum(each.faithfulness is not None for each in verdicts)
        read = {"judged_facts": facts - unread["judged_facts"], "judged_faithfulness": supported}
        mute = [name for name, number in read.items() if unread[name] > number]
        return [*mute, *(name for name in self.failed_figures if name not in mute)]

    @property
    def right(self) -> dict[str, bool | None]:
        """Whether each answer is right; None if nobody could decide."""
        found = {case.query_id: self.verdict_of(case) for case in self.cases}
        decided = {name: each.correct is not None or each.undecided for name, each in found.items()}
        return {name: found[name].correct is True if decided[name] else None for name in found}

    def verdict_of(self, case: AnswerCase) -> Verdict:
        """What is known about an answer; nothing if it was not judged."""
        return self.verdicts.get(case.query_id, Verdict(None))


@dataclass
class _Stages:
    """Runs one stage after the other; after the first that fails, none is started."""

    asker: CounterfactualRunner
    trouble: str | None = None
    target_lost: bool = False
    unreliable: bool = False

    def reject(self, doubt: str | None) -> None:
        """Go no further with a judge that is not believed."""
        if doubt and not self.trouble:
            self.trouble, self.unreliable = doubt, True

    async def run(self, work: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result | None:
        """The result of a stage; None if it failed, or the run was stopped."""
        if self.trouble or self.asker.stop.is_set():
            return None
        try:
            return await unless_stopped(work(), self.asker.stop)
        except BudgetExceeded as error:
            self.trouble = str(error)
        except ProviderError as error:
            more = ", or allow more with --judge-set timeout=S"
            slow = error.kind is ProviderFailure.TIMEOUT
            self.trouble = f"{error}{more if slow else ''}"
            if self.asker.config.private:  # the message may quote what the service said
                self.trouble = f"the judge failed: {error.kind}"
        except UnreliableJudge as error:
            self.reject(str(error))
        except TargetLost:
            self.trouble = "the target became unreachable while questions were asked again"
            self.target_lost = True
        return None


async def evaluate_answers(
    cases: Sequence[AnswerCase],
    judge: Judge | None,
    asker: CounterfactualRunner,
    options: AnswerOptions,
) -> AnswerResults:
    """Judge the answers of a complete run; without a judge, key facts decide what is right.

    `asker` asks the run's agent again, with its settings, its data set and its progress. A judge
    that fails ends its own work and not the run: what needs no model is kept.
    """
    config, stages, facts = asker.config, _Stages(asker), options.nuggets
    poison = support = nuggets = None
    criteria: Sequence[RatedCriterion] = ()
    doubt = None
    if asker.agent is not None and config.poison:
        poison = await stages.run(lambda: run_poison(cases, asker))
    if config.faithfulness:
        model = open_entailment(config.faithfulness)
        support = await stages.run(
            lambda: asyncio.to_thread(measure_support, model, cases, asker.progress)
        )
    if judge is None:
        results = AnswerResults(cases, verdicts_by_facts(cases))
        nuggets = None if facts is None else nuggets_by_rules(cases, facts)
    else:
        results = await _judge_correctness(cases, judge, asker, stages)
        if options.criteria:
            rated = await stages.run(
                lambda: rate_answers(judge, options.criteria, cases, config, asker.progress)
            )
            criteria, doubt = believed_ratings(rated or [])
        if facts is not None:
            nuggets = await stages.run(lambda: nuggets_by_judge(judge, cases, facts, asker))
    results = replace(results, criteria=criteria, poison=poison, nuggets=nuggets, support=support)
    if asker.agent is not None and config.counterfactuals and context_taker(asker.agent):
        results = await stages.run(lambda: _ask_again(results, judge, asker)) or results
    trouble = stages.trouble or doubt
    if asker.stop.is_set() and trouble is None:
        trouble = "interrupted before all answers were judged"
    return replace(
        results,
        verdicts={} if stages.unreliable else results.verdicts,
        trouble=trouble,
        target_lost=stages.target_lost,
    )


async def _judge_correctness(
    cases: Sequence[AnswerCase], judge: Judge, asker: CounterfactualRunner, stages: _Stages
) -> AnswerResults:
    """Controls first, then verdicts, then whether answers talked the judge into them."""
    number = asker.config.judge_set.controls
    controls = await stages.run(lambda: check_controls(judge, cases, number))
    stages.reject(controls.failure if controls else None)
    failed = await stages.run(lambda: failed_figures(judge, cases, number)) or {}
    asked = await stages.run(lambda: verdicts_by_judge(judge, cases, asker.progress)) or {}
    judgments = tuple(each.judgment for each in asked.values() if each.judgment)
    stages.reject(unreliable(judgments, max_flips=asker.config.judge_set.max_flips))
    verdicts = await stages.run(lambda: drop_injected_verdicts(judge, cases, asked)) or {}
    results = AnswerResults(
        cases,
        verdicts,
        judge=judge,
        judgments=judgments,
        controls=controls,
        failed_figures=failed,
    )
    notes = [f"{name} is left out: {why}" for name, why in failed.items()]
    if unread := [name for name in results.unread if name not in failed]:
        notes.append(f"most replies for {' and '.join(unread)} could not be read: left out")
    swayed = sum(asked[name].correct is not each.correct for name, each in verdicts.items())
    if swayed:
        what = f"{swayed} right only with sentences that make the judge call a wrong answer right"
        notes.append(f"answers undecided: {what} as well")
    return replace(results, note="; ".join(notes) or None if verdicts else None)


async def _ask_again(
    results: AnswerResults, judge: Judge | None, asker: CounterfactualRunner
) -> AnswerResults:
    """Every question once more in each kind of context, if that can tell anything."""
    right = {name: each.correct for name, each in results.verdicts.items()}
    found: dict[str, Counterfactuals] = {}
    differs = False
    for context in Context:
        selected = select_cases(results.cases, right, context)
        calls = await run_counterfactual(selected, context, asker)
        answered = [case for case in selected if case.query_id in calls]
        differs |= any(case.answer != calls[case.query_id].answer for case in answered)
        again = [
            replace(case, answer=calls[case.query_id].answer, verdict=None) for case in answered
        ]
        verdicts = [correct(case) for case in again]
        if judge is not None:
            judgments = await gather_for(
                again,
                lambda case: judge_answer(judge, case),
                f"judging, context: {context}",
                asker.progress,
            )
            verdicts = [each.verdict if each else None for each in judgments]
        for case, verdict in zip(again, verdicts, strict=True):
            before = found.get(case.query_id, NOT_TRIED)
            found[case.query_id] = replace(before, **{_FIELDS[context]: verdict})
    if found and not differs:
        note = "; ".join(filter(None, (results.note, _CONTEXT_IGNORED)))
        return replace(results, context_ignored=len(found), note=note)
    return replace(results, counterfactuals=found)
