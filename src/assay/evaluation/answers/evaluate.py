"""Evaluates the answers of a run after its last call, and asks again if the settings say so.

    results = await evaluate_answers(cases, judge, asker, nuggets=facts, criteria=criteria)

Each answer is compared with its reference: by a judge if there is one, else by key facts.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assay.answers.case import AnswerCase
from assay.answers.criteria import Criterion
from assay.answers.diagnosis import Counterfactuals
from assay.answers.entailment import ModelFaithfulness, measure_support, open_entailment
from assay.answers.judge import Judge, Judgment, UnreliableJudge, unreliable
from assay.answers.outcome import correct
from assay.errors import BudgetExceeded, ProviderError
from assay.evaluation.answers.asking_again import CounterfactualRunner, TargetLost, ask_again
from assay.evaluation.answers.judging import (
    RatedCriterion,
    Verdict,
    check_controls,
    check_support,
    drop_injected_verdicts,
    rate_answers,
    verdicts_by_judge,
)
from assay.evaluation.answers.nuggets import (
    NuggetFindings,
    Nuggets,
    nuggets_by_judge,
    nuggets_by_rules,
)
from assay.evaluation.answers.poisoning import PoisonedAnswer, run_poison
from assay.evaluation.calling import unless_stopped
from assay.metrics.answer_values import JudgeControls
from assay.targets.protocol import context_taker


@dataclass
class AnswerResults:
    """What judge and counterfactual runs found about the answers; each stage adds its part.

    `verdicts` are empty if a judge was to decide and did not finish. `trouble` says why it or the
    counterfactual runs stopped early. `context_ignored` counts the questions that got the same
    answer from every context, if all of them did. `judgments` are all about correctness, also if
    the judge was then not believed. `unfit` says why its faithfulness is left out.
    """

    cases: Sequence[AnswerCase] = ()
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    counterfactuals: Mapping[str, Counterfactuals] | None = None
    judge: Judge | None = None
    trouble: str | None = None
    target_lost: bool = False
    note: str | None = None
    context_ignored: int = 0
    judgments: Sequence[Judgment] = ()
    controls: JudgeControls | None = None
    unfit: str | None = None
    criteria: Sequence[RatedCriterion] = ()
    poison: Sequence[PoisonedAnswer] = ()
    nuggets: NuggetFindings | None = None
    support: ModelFaithfulness | None = None

    @property
    def right(self) -> dict[str, bool | None]:
        """Whether each answer is right; None if nobody could decide."""
        found = {case.query_id: self.verdict_of(case) for case in self.cases}
        return {
            query_id: each.correct is True if each.decidable else None
            for query_id, each in found.items()
        }

    def verdict_of(self, case: AnswerCase) -> Verdict:
        """What is known about an answer; nothing if it was not judged."""
        return self.verdicts.get(case.query_id, Verdict(None))


def results_by_rules(cases: Sequence[AnswerCase], facts: Nuggets | None) -> AnswerResults:
    """What is known without any model: key facts and values decide what is right."""
    nuggets = None if facts is None else nuggets_by_rules(cases, facts)
    verdicts = {case.query_id: Verdict(correct(case)) for case in cases}
    return AnswerResults(cases, verdicts, nuggets=nuggets)


async def evaluate_answers(
    cases: Sequence[AnswerCase],
    judge: Judge | None,
    asker: CounterfactualRunner,
    *,
    nuggets: Nuggets | None = None,
    criteria: Sequence[Criterion] = (),
) -> AnswerResults:
    """Judge the answers of a complete run; without a judge, key facts decide what is right.

    `asker` asks the run's agent again, with its settings, its data set and its progress; `nuggets`
    are facts to state, `criteria` those of the user. A judge that fails ends its own work and not
    the run: what was found before is kept.
    """
    results = AnswerResults(cases, judge=judge) if judge else results_by_rules(cases, nuggets)
    try:
        await unless_stopped(_run_stages(results, asker, nuggets, criteria), asker.stop)
    except BudgetExceeded as error:
        results.trouble = str(error)
    except ProviderError as error:
        # The message may quote what the service said.
        private = asker.config.private
        results.trouble = f"the judge failed: {error.kind}" if private else str(error)
    except UnreliableJudge as error:
        results.trouble, results.verdicts, results.note = str(error), {}, None
    except TargetLost:
        results.trouble = "the target became unreachable while questions were asked again"
        results.target_lost = True
    if asker.stop.is_set() and results.trouble is None:
        results.trouble = "interrupted before all answers were judged"
    return results


async def _run_stages(
    results: AnswerResults,
    asker: CounterfactualRunner,
    facts: Nuggets | None,
    criteria: Sequence[Criterion],
) -> None:
    """Add what each stage finds to `results`; the first that fails ends them."""
    cases, judge, config, progress = results.cases, results.judge, asker.config, asker.progress
    if asker.agent is not None and config.poison:
        results.poison = await run_poison(cases, asker)
    if config.faithfulness:
        model = open_entailment(config.faithfulness)
        results.support = await asyncio.to_thread(measure_support, model, cases, progress)
    if judge is not None:
        await _judge_correctness(results, judge, asker)
        if criteria:
            rated = await rate_answers(judge, criteria, cases, config, progress)
            results.criteria, results.trouble = rated
        if facts is not None:
            results.nuggets = await nuggets_by_judge(judge, cases, facts, asker)
    if asker.agent is not None and config.counterfactuals and context_taker(asker.agent):
        right = {name: each.correct for name, each in results.verdicts.items()}
        found, differs = await ask_again(cases, right, judge, asker)
        if found and not differs:  # asking again shows nothing
            results.context_ignored = len(found)
        else:
            results.counterfactuals = found


async def _judge_correctness(
    results: AnswerResults, judge: Judge, asker: CounterfactualRunner
) -> None:
    """Controls first, then verdicts, then whether answers talked the judge into them."""
    settings, cases = asker.config.judge_set, results.cases
    results.controls = await check_controls(judge, cases, settings.controls)
    if results.controls and results.controls.failure:
        raise UnreliableJudge(results.controls.failure)
    support = await check_support(judge, cases, settings.controls)
    asked = await verdicts_by_judge(judge, cases, asker.progress)
    results.unfit = support.failure if support else None
    results.judgments = [each.judgment for each in asked.values() if each.judgment]
    if doubt := unreliable(results.judgments, max_flips=settings.max_flips):
        raise UnreliableJudge(doubt)
    results.verdicts = verdicts = await drop_injected_verdicts(judge, cases, asked)
    unread = sum(each.unread for each in verdicts.values())
    if not results.unfit and unread > sum(e.faithfulness is not None for e in verdicts.values()):
        results.unfit = "most replies could not be read"
    notes = [f"judged_faithfulness is left out: {results.unfit}"] if results.unfit else []
    if swayed := sum(asked[name].correct is not each.correct for name, each in verdicts.items()):
        what = f"{swayed} right only with sentences that make the judge call a wrong answer right"
        notes.append(f"answers undecided: {what} as well")
    results.note = "; ".join(notes) or None
