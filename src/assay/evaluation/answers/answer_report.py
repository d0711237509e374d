"""The section of a report that is about answers: metrics, diagnosis, and one row per question."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property

from assay.answers.answer_metrics import (
    ANSWER_METRICS,
    JUDGED_METRICS,
    LOWER_IS_BETTER,
    MODEL_METRICS,
    NUGGET_METRICS,
    OUTCOME_METRICS,
    POISON_METRICS,
    TRUTHFULNESS_BOUNDS,
    AnswerScores,
)
from assay.answers.case import MAX_ANSWER, AnswerCase
from assay.answers.diagnosis import (
    NOT_TRIED,
    AnswerDiagnosis,
    DiagnosisReport,
    diagnose,
    summarize_diagnoses,
)
from assay.answers.differences import case_differences
from assay.answers.entailment import contradicted_check
from assay.answers.findings import AnswerFinding, find_faults
from assay.answers.judge import flip_rate
from assay.answers.outcome import BY_DECLINING, BY_FACTS, BY_VALUES, Outcome, outcome
from assay.data.dataset import Dataset
from assay.evaluation.answers.cases import invented_citations, invented_report
from assay.evaluation.answers.criteria import answer_statistic
from assay.evaluation.answers.evaluate import AnswerResults
from assay.evaluation.answers.poisoning import poison_findings, poison_report
from assay.evaluation.answers.verdict_scores import (
    count_without_reference,
    judged,
    measure_run,
    undecided_answers,
    verdict_of,
)
from assay.evaluation.gates import figure_calibration
from assay.llm.prompt import load_prompt
from assay.metrics.statistics import SCORES, summarize
from assay.run.answers import (
    CONTEXT_NAMES,
    AnswersReport,
    AnswerStatistic,
    ContextName,
    CounterfactualCount,
    JudgeRecord,
    PoisonReport,
    UndecidedAnswers,
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


class AnswerReport:
    """Builds the answers section of a report and the rows of `answers.jsonl`."""

    def __init__(
        self,
        cases: Sequence[AnswerCase],
        results: AnswerResults,
        dataset: Dataset,
        config: RunConfig,
        scores: AnswerScores | None = None,
        *,
        skip: Collection[str] = (),
    ) -> None:
        """`scores` if they were measured already, of contexts that are no longer in memory;
        `skip` are checks that nothing is known about.
        """
        self._skip = skip
        self._cases = [judged(case, results) for case in cases]
        self._found = results
        self._dataset = dataset
        self._config = config
        self._scores = scores or measure_run(cases, results, dataset)

    def section(self) -> AnswersReport:
        """What the tables show; the answers themselves are in the rows."""
        statistics = dict(self._statistics()) | self._found.criteria.statistics(self._config.seed)
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
            invented_citations=invented_report(invented_citations(self._cases, self._dataset)),
            trouble=self._found.trouble,
            note=self._found.note or self._language_note,
            outcomes=self._outcomes(),
            criteria=self._found.criteria.records(),
            findings=self._findings,
            poison=self._poison,
            nuggets=self._found.nuggets.report() if self._found.nuggets else None,
            undecided=self._undecided,
            without_reference=count_without_reference(self._dataset, self._config),
        )

    def rows(self) -> Iterable[AnswerRow]:
        """One row for each question, with the values of all metrics that cover it."""
        columns = {
            name: dict(zip(ids, self._scores.values[name].tolist(), strict=True))
            for name, ids in self._scores.query_ids.items()
        }
        poisoned = self._found.poison.outcomes() if self._found.poison else {}
        for case in self._cases:
            query_id = case.query_id
            figures = {name: by[query_id] for name, by in columns.items() if query_id in by}
            figures |= self._found.criteria.values(query_id)
            optional = {name: each for name, each in self._optional(case).items() if each}
            if did := poisoned.get(query_id):
                optional["poison"] = did
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
                correct=verdict_of(self._found, case).correct,
                **optional,
                **figures,
            )
            yield row.model_copy(update=_NO_TEXTS) if self._config.private else row

    def _optional(self, case: AnswerCase) -> dict[str, object]:
        """What only some rows have."""
        query_id, judgment = case.query_id, verdict_of(self._found, case).judgment
        tried = asdict((self._found.counterfactuals or {}).get(query_id, NOT_TRIED))
        nuggets = self._found.nuggets
        return {
            "votes": [vote.value for vote in judgment.votes]
            if judgment is not None and not judgment.by_rule
            else None,
            "diagnosis": self._diagnoses.get(query_id),
            "answer_length": case.answer_length if case.answer_length > MAX_ANSWER else None,
            "counterfactuals": {name: each for name, each in tried.items() if each is not None},
            "differences": case_differences(case),
            "reasons": self._found.criteria.reasons(query_id),
            "nuggets": list(nuggets.assigned.get(query_id, ())) if nuggets else [],
        }

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
        if self._found.judge is not None:
            judge = self._found.judge
            return f"judged by {judge.provider}, {judge.votes} votes, half with the texts swapped"
        if any(case.reference.facts for case in self._cases):
            return BY_FACTS
        return BY_VALUES if any(case.reference.answer for case in self._cases) else BY_DECLINING

    def _statistics(self) -> Iterable[tuple[str, AnswerStatistic]]:
        for name, values in self._scores.values.items():
            if not values.size:
                continue
            bounds = TRUTHFULNESS_BOUNDS if name == "truthfulness" else SCORES
            summary = summarize(values, seed=self._config.seed, bounds=bounds)
            ids = set(self._scores.query_ids[name])
            metric = ANSWER_METRICS.get(name)
            # 0 is the best of a rate of faults: no mean is too high for it.
            ceiling = None if name in LOWER_IS_BETTER else 1.0
            if metric is not None:
                covered = [case for case in self._cases if case.query_id in ids]
                ceiling = metric.mean_ceiling(covered, self._config.top_k)
            how = metric.how if metric else self._how(name)
            yield name, answer_statistic(summary, ceiling, how)

    def _how(self, name: str) -> str:
        if name == "correctness":
            return self._correctness_by
        if name in NUGGET_METRICS and self._found.nuggets:
            return self._found.nuggets.how(name)
        if name in MODEL_METRICS and self._found.support:
            return f"{MODEL_METRICS[name]}, by {self._found.support.words}"
        return {**OUTCOME_METRICS, **POISON_METRICS, **JUDGED_METRICS}[name]

    def _outcomes(self) -> dict[str, int]:
        """How many questions ended in each way; none if nothing is decided."""
        counts = Counter(outcome(case) for case in self._cases)
        decided = counts.total() - counts[Outcome.UNDECIDED]
        return {str(each): counts[each] for each in Outcome} if decided else {}

    @cached_property
    def _undecided(self) -> UndecidedAnswers | None:
        return undecided_answers(self._cases, self._found, self._dataset)

    @cached_property
    def _findings(self) -> list[AnswerFinding]:
        support = self._found.support
        found = find_faults(
            self._cases,
            quote=not self._config.private,
            skip=list(self._skip),
            further=[contradicted_check(support)] if support and support.flagged else (),
        )
        found = [*poison_findings(self._found.poison), *found]
        if number := self._found.context_ignored:
            words = f"all {number} questions that were asked again got the same answer from every "
            ignored = AnswerFinding(
                kind="ignores-context", number=number, of=number, words=f"{words}context"
            )
            return [ignored, *found]
        return found

    @cached_property
    def _diagnoses(self) -> dict[str, AnswerDiagnosis]:
        """Why answers are wrong, by query id."""
        others = self._found.counterfactuals or {}
        found = {
            case.query_id: diagnose(
                case,
                others.get(case.query_id, NOT_TRIED),
                contradicted=verdict_of(self._found, case).contradicted,
            )
            for case in self._cases
        }
        return {query_id: each for query_id, each in found.items() if each is not None}

    @property
    def _poison(self) -> PoisonReport | None:
        if self._found.poison is None:
            return None
        config = self._config
        return poison_report(self._found.poison, seed=config.seed, private=config.private)

    def _judge(self) -> JudgeRecord | None:
        use = self._found.judge
        if use is None:
            return None
        verdicts = self._found.verdicts.values()
        judgments = self._found.judgments
        asked = [each for each in judgments if not each.by_rule]
        facts = sum(each.facts.unparseable for each in verdicts if each.facts)
        record = JudgeRecord(
            provider=use.provider,
            votes=use.votes,
            prompts=dict(use.prompts) | self._criteria_prompts(),
            judged=len(asked),
            decided_by_rule=len(judgments) - len(asked),
            flip_rate=flip_rate(asked),
            unparseable_votes=sum(each.unparseable for each in asked) + facts,
            undecided=sum(each.verdict is None for each in judgments),
        )
        further: dict[str, object] = {}
        if controls := self._found.controls:
            further["controls"] = controls
        questions = {case.question for case in self._cases}
        questions |= {query.text for query in self._dataset.queries.values()}
        if status := figure_calibration("correctness", self._config, questions):
            further["calibration"] = status.words
        if use.spending is not None:
            further["spending"] = use.spending
        return record.model_copy(update=further)

    def _criteria_prompts(self) -> dict[str, str]:
        if not self._found.criteria.criteria:
            return {}
        return {"judge_criterion": load_prompt("judge_criterion").id}

    def _diagnosis(self) -> DiagnosisReport | None:
        """None if no question is decided, or if a judge was to decide and did not finish."""
        if not self._found.verdicts:
            return None
        report = summarize_diagnoses(
            self._cases,
            self._diagnoses,
            self._found.counterfactuals,
            findings=self._findings,
            tried=self._config.counterfactuals or not self._config.target,  # a log: nobody to ask
            why_undecided=self._undecided.why if self._undecided else "",
        )
        if report is None:
            return None
        controls = self._found.controls
        if controls is None or not (untested := controls.untested):
            return report
        sentence = f"{report.sentence} {untested[0].upper()}{untested[1:]}."
        return report.model_copy(update={"sentence": sentence})

    def _counterfactuals(self) -> dict[ContextName, CounterfactualCount] | None:
        if not self._found.contexts:
            return None
        tried: dict[ContextName, CounterfactualCount] = {}
        for field in CONTEXT_NAMES:
            values = [getattr(each, field) for each in (self._found.counterfactuals or {}).values()]
            decided = [value for value in values if value is not None]
            tried[field] = CounterfactualCount(asked=len(decided), right=sum(decided))
        return tried
