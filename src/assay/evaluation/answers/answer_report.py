"""The section of a report that is about answers: metrics, diagnosis, and one row per question."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property

import numpy as np

from assay.answers.answer_metrics import ANSWER_METRICS, Columns, measure_answers
from assay.answers.case import MAX_ANSWER, AnswerCase
from assay.answers.checks import find_faults
from assay.answers.diagnosis import NOT_TRIED, diagnose, summarize_diagnoses
from assay.answers.differences import case_differences
from assay.answers.entailment import contradicted_check
from assay.answers.faithfulness import unsupported
from assay.answers.judge import flip_rate
from assay.answers.outcome import BY_DECLINING, BY_FACTS, BY_VALUES, Outcome, outcome
from assay.data.dataset import Dataset
from assay.evaluation.answers.evaluate import AnswerResults
from assay.evaluation.answers.poisoning import (
    poison_columns,
    poison_findings,
    poison_outcomes,
    poison_report,
)
from assay.evaluation.gates import figure_calibration
from assay.llm.prompt import load_prompt
from assay.metrics.answer_values import AnswerDiagnosis, AnswerFinding, DiagnosisReport
from assay.metrics.figures import (
    ANSWER_METRIC_WORDS,
    LOWER_IS_BETTER,
    MODEL_METRICS,
    NUGGET_METRICS,
    TRUTHFULNESS_BOUNDS,
)
from assay.metrics.statistics import SCORES, below, summarize
from assay.run.answers import (
    CONTEXT_NAMES,
    AnswersReport,
    AnswerStatistic,
    BadId,
    ContextName,
    CounterfactualCount,
    JudgeRecord,
    UndecidedAnswers,
    ViolationCount,
)
from assay.run.config import RunConfig
from assay.run.models import AnswerRow
from assay.text import detect_language

# What is left of a row in a private run: ids, verdicts and figures.
_NO_TEXTS: Mapping[str, object] = {
    "query_text": "",
    "answer": None,
    "reference_answer": None,
    "facts": [],
    "differences": [],
    "nuggets": [],
    "reasons": {},
}
_OF_TEXTS = ("faithfulness", "judged_faithfulness", "model_faithfulness", "hallucination_rate")


def measure_results(cases: Sequence[AnswerCase], results: AnswerResults) -> Columns:
    """The metrics that need no model and those of the judge, correctness first."""
    judged: Columns = {name: {} for name in ("correctness", "truthfulness", "hallucination_rate")}
    if results.judge and results.verdicts and not results.unfit:
        judged["judged_faithfulness"] = {}
    for case in cases:
        verdict = results.verdict_of(case)
        if verdict.decidable:  # an undecided judge does not make an answer correct
            right, wrong = verdict.correct is True, verdict.correct is False and case.attempted
            shown = list(case.shown.values())
            invents = wrong and unsupported(case.answer or "", shown, case.names)
            judged["correctness"][case.query_id] = float(right)
            judged["truthfulness"][case.query_id] = float(right) - wrong
            judged["hallucination_rate"][case.query_id] = float(bool(invents))
        if case.answerable and "judged_faithfulness" in judged:
            judged["judged_faithfulness"][case.query_id] = verdict.faithfulness or 0.0
    columns = judged | (results.nuggets.scores() if results.nuggets else {})
    columns |= measure_answers(cases)
    if results.support:
        columns["model_faithfulness"] = dict(results.support.values)
    columns |= poison_columns(results.poison)
    columns |= {rated.criterion.metric: rated.values for rated in results.criteria}
    return {name: column for name, column in columns.items() if column}


class AnswerReport:
    """Builds the answers section of a report and the rows of `answers.jsonl`."""

    def __init__(
        self,
        cases: Sequence[AnswerCase],
        results: AnswerResults,
        dataset: Dataset,
        config: RunConfig,
        *,
        skip: Collection[str] = (),
    ) -> None:
        """`skip` are metrics and checks that nothing is known about."""
        # Nothing is called unfaithful if there is no text to compare with.
        if not dataset.documents and not any(case.contexts for case in cases):
            skip = {*skip, *_OF_TEXTS}
        self._skip = skip
        self._cases = [_with_verdict(case, results) for case in cases]
        self._results = results
        self._dataset = dataset
        self._config = config
        self._poison = poison_outcomes(results.poison)
        measured = measure_results(cases, results)
        self._scores = {name: each for name, each in measured.items() if name not in skip}

    def section(self) -> AnswersReport:
        """What the tables show; the answers themselves are in the rows."""
        results, config = self._results, self._config
        statistics = self._statistics()
        notes = (results.note, self._not_asked, self._language_note)
        poison, ended = results.poison, Counter(map(outcome, self._cases))
        decided = ended.total() > ended[Outcome.UNDECIDED]
        return AnswersReport(
            questions=len(self._cases),
            answered=sum(case.answer is not None for case in self._cases),
            unanswerable=sum(not case.answerable for case in self._cases),
            references=self._dataset.references_fingerprint,
            correctness_by=self._correctness_by,
            metrics={name: statistic.mean for name, statistic in statistics.items()},
            statistics=statistics,
            judge=self._judge(),
            diagnosis=self._diagnosis(),
            counterfactuals=self._counterfactuals(),
            invented_citations=self._invented(),
            trouble=results.trouble,
            note="; ".join(filter(None, notes)) or None,
            outcomes={str(each): ended[each] for each in Outcome} if decided else {},
            criteria=[rated.record() for rated in results.criteria],
            findings=self._findings,
            poison=poison_report(poison, config.seed, private=config.private) if poison else None,
            nuggets=results.nuggets.report if results.nuggets else None,
            undecided=self._undecided,
        )

    def rows(self) -> Iterable[AnswerRow]:
        """One row for each question, with the values of all metrics that cover it."""
        results = self._results
        rated = {each.criterion.metric: each for each in results.criteria}
        for case in self._cases:
            query_id, verdict = case.query_id, results.verdict_of(case)
            judgment, length = verdict.judgment, case.answer_length
            known = self._config.target or case.needed or not case.answerable
            tried = asdict((results.counterfactuals or {}).get(query_id, NOT_TRIED))
            votes = judgment.votes if judgment and not judgment.by_rule else ()
            reasons = {name: each.ratings[query_id].reason for name, each in rated.items()}
            some = {  # only some rows have these
                "votes": [(vote or "unparseable").lower() for vote in votes],
                # Which contexts were needed has to be said of a row of a log.
                "diagnosis": self._diagnoses.get(query_id) if known else None,
                "answer_length": length if length > MAX_ANSWER else None,
                "counterfactuals": {name: each for name, each in tried.items() if each is not None},
                "differences": case_differences(case),
                "reasons": {name: each for name, each in reasons.items() if each},
                "nuggets": results.nuggets and results.nuggets.assigned.get(query_id),
                "poison": self._poison.get(query_id),
            }
            row = AnswerRow.model_construct(
                None,
                query_id=query_id,
                query_text=case.question,
                answer=case.answer,
                citations=list(case.citations),
                retrieved_docs=list(case.retrieved),
                answerable=case.answerable,
                reference_answer=case.reference.answer or None,
                facts=[fact.text for fact in case.reference.facts],
                needed_docs=sorted(case.needed),
                correct=verdict.correct,
                **{name: each for name, each in some.items() if each},
                **{name: by[query_id] for name, by in self._scores.items() if query_id in by},
            )
            yield row.model_copy(update=_NO_TEXTS) if self._config.private else row

    def _invented(self) -> ViolationCount:
        """Citations of documents that do not exist; in a log, of contexts that its row lacks."""
        known, is_log = self._dataset.corpus_ids, not self._config.target
        if known is None and not is_log:
            return ViolationCount(ids=0)
        found = [
            BadId(query_id=case.query_id, doc_id=each[:200])
            for case in self._cases
            for each in dict.fromkeys(case.citations)
            if each not in (case.retrieved if is_log else known or ())
        ]
        return ViolationCount(ids=len(found), examples=found[:3])

    @property
    def _not_asked(self) -> str | None:
        """How many questions of the split are not asked, because only others have a reference."""
        dataset, config = self._dataset, self._config
        if not dataset.answers or config.ground_truth:  # a file of references says what is asked
            return None
        asked = dataset.judgments.get(config.split, {})
        number = sum(name not in dataset.answers for name in asked)
        words = (
            "more questions are not asked: no reference answer; write it, or tag it unanswerable"
        )
        return f"{number:,} {words}" if number else None

    @property
    def _language_note(self) -> str | None:
        """What cannot be seen in answers that are not in English."""
        said = [detect_language([case.answer]) for case in self._cases if case.answer]
        known = Counter(each for each in said if each is not None)
        language, number = known.most_common(1)[0] if known else ("english", 0)
        if language == "english" or 2 * number <= known.total():
            return None
        return (
            f"most answers are in {language.capitalize()}: refusals, negations and names are read "
            "in English alone; figures, citations and key facts are checked in any language"
        )

    @property
    def _correctness_by(self) -> str:
        if (judge := self._results.judge) is not None:
            return f"judged by {judge.name}, {judge.votes} votes, half with the texts swapped"
        if any(case.reference.facts for case in self._cases):
            return BY_FACTS
        return BY_VALUES if any(case.reference.answer for case in self._cases) else BY_DECLINING

    def _statistics(self) -> dict[str, AnswerStatistic]:
        results, seed = self._results, self._config.seed
        nuggets = results.nuggets.report if results.nuggets else None
        rated = {each.criterion.metric: each.how for each in results.criteria}
        found: dict[str, AnswerStatistic] = {}
        for name, column in self._scores.items():
            bounds = TRUTHFULNESS_BOUNDS if name == "truthfulness" else SCORES
            summary = summarize(np.array(list(column.values())), seed=seed, bounds=bounds)
            # 0 is the best of a rate of faults: no mean is too high for it.
            ceiling = None if name in LOWER_IS_BETTER else 1.0
            if (metric := ANSWER_METRICS.get(name)) is not None:
                covered = [case for case in self._cases if case.query_id in column]
                ceiling = metric.mean_ceiling(covered, self._config.top_k)
            how = rated.get(name) or ANSWER_METRIC_WORDS[name]
            if name == "correctness":
                how = self._correctness_by
            elif name in NUGGET_METRICS and nuggets:
                how = f"{how}; {nuggets.made}; assigned by {nuggets.assigned_by}"
            elif name in MODEL_METRICS and results.support:
                how = f"{how}, by {results.support.words}"
            found[name] = AnswerStatistic(
                n=summary.n,
                mean=summary.mean,
                low=summary.low,
                high=below(summary.high, 1.0 if ceiling is None else ceiling),
                median=summary.median,
                std=summary.std,
                ceiling=ceiling,
                how=how,
            )
        return found

    @cached_property
    def _undecided(self) -> UndecidedAnswers | None:
        """The questions that there is nothing to decide by, if the judge finished."""
        left = [case for case in self._cases if not self._results.verdict_of(case).decidable]
        if self._results.trouble or not left:
            return None
        why = "there is no reference answer"
        if any(case.reference.answer != "" for case in left):
            why = "the references have no key facts or values; add --judge, or facts"
        return UndecidedAnswers(number=len(left), of=len(self._cases), why=why)

    @cached_property
    def _findings(self) -> list[AnswerFinding]:
        support = self._results.support
        found = poison_findings(self._results.poison)
        found += find_faults(
            self._cases,
            quote=not self._config.private,
            skip=list(self._skip),
            further=[contradicted_check(support)] if support and support.flagged else (),
        )
        if number := self._results.context_ignored:
            words = f"all {number} questions that were asked again got the same answer from every "
            ignored = AnswerFinding(
                kind="ignores-context", number=number, of=number, words=f"{words}context"
            )
            return [ignored, *found]
        return found

    @cached_property
    def _diagnoses(self) -> dict[str, AnswerDiagnosis]:
        """Why answers are wrong, by query id."""
        others = self._results.counterfactuals or {}
        return {
            case.query_id: found
            for case in self._cases
            if (found := diagnose(case, others.get(case.query_id, NOT_TRIED)))
        }

    def _judge(self) -> JudgeRecord | None:
        results, judge = self._results, self._results.judge
        if judge is None:
            return None
        judgments = results.judgments
        asked = [each for each in judgments if not each.by_rule]
        questions = {case.question for case in self._cases}
        questions |= {query.text for query in self._dataset.queries.values()}
        status = figure_calibration("correctness", self._config, questions)
        rated = ["judge_criterion"] if results.criteria else []
        return JudgeRecord(
            provider=judge.name,
            votes=judge.votes,
            prompts=judge.prompts | {name: load_prompt(name).id for name in rated},
            judged=len(asked),
            decided_by_rule=len(judgments) - len(asked),
            flip_rate=flip_rate(asked),
            unparseable_votes=sum(each.unreadable for each in asked),
            undecided=sum(each.verdict is None for each in judgments),
            controls=results.controls,
            calibration=status.words if status else None,
            spending=getattr(judge.provider, "spending", None),  # a model of the caller's has none
        )

    def _diagnosis(self) -> DiagnosisReport | None:
        """None if no question is decided, if a judge was to decide and did not finish, and for a
        log that does not say which contexts were needed.
        """
        known = self._config.target or any(case.answerable and case.needed for case in self._cases)
        if not self._results.verdicts or not known:
            return None
        return summarize_diagnoses(
            self._cases,
            self._diagnoses,
            self._results.counterfactuals,
            findings=self._findings,
            tried=self._config.counterfactuals or not self._config.target,  # a log: nobody to ask
            why_undecided=self._undecided.why if self._undecided else "",
        )

    def _counterfactuals(self) -> dict[ContextName, CounterfactualCount] | None:
        if (found := self._results.counterfactuals) is None:
            return None
        every = found.values()
        tried = {name: Counter(getattr(each, name) for each in every) for name in CONTEXT_NAMES}
        return {
            name: CounterfactualCount(asked=right[True] + right[False], right=right[True])
            for name, right in tried.items()
        }


def _with_verdict(case: AnswerCase, results: AnswerResults) -> AnswerCase:
    """The case with the judge's verdict; undecided if a judge was to decide and did not."""
    verdict = results.verdict_of(case)
    if verdict.judgment is None and (results.judge is None or case.reference.answer == ""):
        return case
    if verdict.correct is None:
        return replace(case, verdict="undecided")
    return replace(case, verdict="right" if verdict.correct else "wrong")
