"""The section of a report that is about answers: metrics, diagnosis, and one row per question."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property

from assay.answers.answer_metrics import (
    ANSWER_METRICS,
    BY_DECLINING,
    BY_FACTS,
    JUDGED_METRICS,
    LOWER_IS_BETTER,
    MAX_ANSWER,
    NUGGET_METRICS,
    OUTCOME_METRICS,
    POISON_METRICS,
    TRUTHFULNESS_BOUNDS,
    AnswerCase,
    AnswerScores,
    Documents,
    Outcome,
)
from assay.answers.answer_view import AnswerView
from assay.answers.diagnosis import (
    NOT_TRIED,
    Counterfactuals,
    diagnose,
    summarize_diagnoses,
)
from assay.answers.findings import AnswerFinding, find_faults
from assay.answers.judge import flip_rate
from assay.data.dataset import Dataset
from assay.evaluation.answers.cases import invented_citations, invented_report
from assay.evaluation.answers.criteria import answer_statistic
from assay.evaluation.answers.examination import (
    AnswerExamination,
    contradiction_row,
    contradictions_report,
)
from assay.evaluation.answers.judging import Verdict, controls_record, untested_sentence
from assay.evaluation.answers.poisoning import poison_findings, poison_report
from assay.evaluation.answers.verdict_scores import (
    count_without_reference,
    decided_outcome,
    measure_run,
    observation,
    quadrants,
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
    DiagnosisReport,
    FindingRecord,
    JudgeRecord,
    JudgeSpending,
    PoisonReport,
    UndecidedAnswers,
)
from assay.run.config import RunConfig
from assay.run.models import AnswerDiagnosis, AnswerRow
from assay.text import detect_language

# What is left of a row in a private run: ids, verdicts and figures.
_NO_TEXTS: Mapping[str, object] = {
    "query_text": "",
    "answer": None,
    "reference_answer": None,
    "facts": [],
    "contradictions": [],
    "nuggets": [],
    "reasons": {},
}


class AnswerReport:
    """Builds the answers section of a report and the rows of `answers.jsonl`."""

    def __init__(
        self,
        cases: Sequence[AnswerCase],
        examination: AnswerExamination,
        dataset: Dataset,
        config: RunConfig,
        scores: AnswerScores | None = None,
        *,
        skip: Collection[str] = (),
    ) -> None:
        """`scores` where they were measured already, of contexts that are no longer in memory;
        `skip` are kinds of findings that nothing is known about.
        """
        self._skip = skip
        self._cases = cases
        self._found = examination
        self._dataset = dataset
        self._config = config
        self._scores = scores or measure_run(cases, examination, dataset)

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
            contradictions=contradictions_report(
                self._found.contradictions,
                self._found.contradictions_by,
                examples=0 if self._config.private else 3,
            ),
            trouble=self._found.trouble,
            note=self._found.note or self._language_note,
            outcomes=self._outcomes(),
            criteria=self._found.criteria.records(),
            findings=[
                FindingRecord(
                    kind=each.kind,
                    number=each.number,
                    of=each.of,
                    words=each.words,
                    examples=list(each.query_ids),
                )
                for each in self._findings
            ],
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
            figures = {
                name: by[case.query_id] for name, by in columns.items() if case.query_id in by
            }
            figures |= self._found.criteria.values(case.query_id)
            others = (self._found.counterfactuals or {}).get(case.query_id, NOT_TRIED)
            row = _row(
                case, verdict_of(self._found, case), others, figures, self._dataset.documents
            )
            if did := poisoned.get(case.query_id):
                row = row.model_copy(update={"poison": did})
            texts: dict[str, object] = {}
            if those := self._found.contradictions.get(case.query_id):
                texts["contradictions"] = list(map(contradiction_row, those))
            if reasons := self._found.criteria.reasons(case.query_id):
                texts["reasons"] = reasons
            if self._found.nuggets and (said := self._found.nuggets.rows(case.query_id)):
                texts["nuggets"] = said
            yield row.model_copy(update=_NO_TEXTS if self._config.private else texts)

    @property
    def _language_note(self) -> str | None:
        """What cannot be seen in answers that are not in English."""
        said = [detect_language([case.answer]) for case in self._cases if case.answer]
        known = Counter(each for each in said if each is not None)
        language, number = known.most_common(1)[0] if known else ("english", 0)
        if language == "english" or 2 * number <= known.total():
            return None
        return (
            f"most answers are in {language.capitalize()}: hedges, options and most contradictions "
            "are looked for in English alone, so that finding none says nothing; numbers, names, "
            "citations and key facts are checked in any language, and a judge reads more"
        )

    @property
    def _correctness_by(self) -> str:
        if self._found.judge is None:
            return BY_FACTS
        votes = self._found.judge.votes
        return f"judge {self._found.judge.provider}, the majority in both orders of {votes} votes"

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
            facts = self._found.judge or any(case.reference.facts for case in self._cases)
            return self._correctness_by if facts else BY_DECLINING
        if name in NUGGET_METRICS and self._found.nuggets:
            return self._found.nuggets.how(name)
        return {**OUTCOME_METRICS, **POISON_METRICS, **JUDGED_METRICS}[name]

    def _outcomes(self) -> dict[str, int]:
        """How many questions ended in each way, of those that are decided."""
        outcomes = [decided_outcome(case, verdict_of(self._found, case)) for case in self._cases]
        counts = Counter(each for each in outcomes if each is not None)
        return {str(each): counts[each] for each in Outcome} if counts else {}

    @cached_property
    def _undecided(self) -> UndecidedAnswers | None:
        return undecided_answers(self._cases, self._found, self._dataset)

    @cached_property
    def _findings(self) -> list[AnswerFinding]:
        others = self._found.counterfactuals or {}
        views = [
            AnswerView(
                case,
                self._dataset.documents,
                verdict_of(self._found, case).correct,
                verdict_of(self._found, case).contradicted,
                others.get(case.query_id, NOT_TRIED),
                self._found.sure_contradictions(case.query_id),
            )
            for case in self._cases
        ]
        found = find_faults(views, self._dataset.answers.values(), quote=not self._config.private)
        found = [each for each in found if each.kind not in self._skip]
        found = [*poison_findings(self._found.poison), *found]
        if not self._found.context_ignored:
            return found
        number = self._found.context_ignored
        words = f"all {number} questions that were asked again got the same answer from every "
        ignored = AnswerFinding(
            "ignores its context", number, number, f"{words}context: it is ignored"
        )
        return [ignored, *(each for each in found if each.kind != ignored.kind)]

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
            further["controls"] = controls_record(controls)
        questions = {case.question for case in self._cases}
        questions |= {query.text for query in self._dataset.queries.values()}
        if status := figure_calibration("correctness", self._config, questions):
            further["calibration"] = status.words
        if use.spending is not None:
            further["spending"] = JudgeSpending(**asdict(use.spending))
        return record.model_copy(update=further)

    def _criteria_prompts(self) -> dict[str, str]:
        if not self._found.criteria.criteria:
            return {}
        names = ["judge_criterion", *(["judge_reason"] if self._config.reasons else [])]
        return {name: load_prompt(name).id for name in names}

    def _diagnosis(self) -> DiagnosisReport | None:
        """Only of questions whose answer is known to be correct or wrong.

        Where there is no reference there is nothing to say; those that a judge left undecided are
        counted separately.
        """
        verdicts = self._found.verdicts
        seen = [
            observation(case, verdicts[case.query_id], self._dataset.documents)
            for case in self._cases
            if case.query_id in verdicts and verdicts[case.query_id].correct is not None
        ]
        if not seen:
            return None
        undecided = sum(each.undecided for each in verdicts.values())
        report = summarize_diagnoses(
            seen,
            self._found.counterfactuals,
            undecided=undecided,
            findings=[each.words for each in self._findings],
            tried=self._config.counterfactuals or not self._config.target,  # a log: nobody to ask
            unknown=(unknown.number, unknown.why) if (unknown := self._undecided) else (0, ""),
        )
        return DiagnosisReport(
            sentence=report.sentence + untested_sentence(self._found.controls),
            questions=report.questions,
            undecided=report.undecided,
            wrong=len(report.diagnoses),
            counts={str(failure): number for failure, number in report.counts.items() if number},
            points={str(component): points for component, points in report.points.items()},
            settled=report.settled,
            from_memory=report.from_memory,
            quadrants=quadrants(seen),
            tried=self._config.counterfactuals,
        )

    def _counterfactuals(self) -> dict[ContextName, CounterfactualCount] | None:
        if not self._found.contexts:
            return None
        tried: dict[ContextName, CounterfactualCount] = {}
        for field in CONTEXT_NAMES:
            values = [getattr(each, field) for each in (self._found.counterfactuals or {}).values()]
            decided = [value for value in values if value is not None]
            tried[field] = CounterfactualCount(asked=len(decided), right=sum(decided))
        return tried


def _row(
    case: AnswerCase,
    verdict: Verdict,
    others: Counterfactuals,
    figures: Mapping[str, float],
    documents: Documents,
) -> AnswerRow:
    optional: dict[str, object] = {}
    if verdict.judgment is not None and not verdict.judgment.by_rule:
        optional["votes"] = [vote.value for vote in verdict.judgment.votes]
    diagnosis = None
    if verdict.correct is not None:
        diagnosis = diagnose(observation(case, verdict, documents), others)
    if diagnosis is not None:
        optional["diagnosis"] = AnswerDiagnosis(
            failure=str(diagnosis.failure),
            half=None if diagnosis.component is None else str(diagnosis.component),
            settled=diagnosis.settled,
            why=diagnosis.why,
        )
    if case.answer_length > MAX_ANSWER:
        optional["answer_length"] = case.answer_length
    tried = {name: value for name, value in asdict(others).items() if value is not None}
    if tried:
        optional["counterfactuals"] = tried
    return AnswerRow.model_construct(
        None,
        query_id=case.query_id,
        query_text=case.question,
        answer=case.answer,
        citations=list(case.citations),
        retrieved_docs=list(case.retrieved),
        answerable=case.answerable,
        reference_answer=case.reference.answer or None,
        facts=[fact.text for fact in case.reference.facts],
        needed_docs=sorted(case.needed),
        correct=verdict.correct,
        **optional,
        **figures,
    )
