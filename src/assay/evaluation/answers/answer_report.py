"""The section of a report that is about answers: metrics, diagnosis, and one row per question."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from assay.data.dataset import Dataset, Document
from assay.evaluation.answers.cases import invented_citations
from assay.evaluation.answers.examination import Examination, Verdict
from assay.evaluation.plan import RunConfig
from assay.measure.answers.answer_metrics import (
    ANSWER_METRICS,
    BY_FACTS,
    JUDGED_METRICS,
    AnswerCase,
    AnswerScores,
    measure_answers,
)
from assay.measure.answers.diagnosis import (
    NOT_TRIED,
    Counterfactuals,
    Observation,
    diagnose,
    observe,
    summarize_diagnoses,
)
from assay.measure.answers.judge import flip_rate
from assay.measure.graded import Floats
from assay.measure.statistics import below, summarize


class AnswerReport:
    """Builds the answers section of a report and the rows of `answers.jsonl`."""

    def __init__(
        self,
        cases: Sequence[AnswerCase],
        examination: Examination,
        dataset: Dataset,
        config: RunConfig,
    ) -> None:
        self._cases = cases
        self._found = examination
        self._dataset = dataset
        self._config = config
        self._scores = measure_examined(cases, examination, dataset.documents)

    def head(self) -> dict[str, Any]:
        """What the tables show; the answers themselves are in the rows."""
        statistics = dict(self._statistics())
        invented = list(invented_citations(self._cases, self._dataset))
        return {
            "questions": len(self._cases),
            "answered": sum(case.answer is not None for case in self._cases),
            "unanswerable": sum(not case.answerable for case in self._cases),
            "references": self._dataset.references_fingerprint,
            "correctness_by": self._correctness_by,
            "metrics": {name: row["mean"] for name, row in statistics.items()},
            "statistics": statistics,
            "judge": self._judge(),
            "diagnosis": self._diagnosis(),
            "counterfactuals": self._counterfactuals(),
            "invented_citations": {
                "ids": len(invented),
                "examples": [{"query_id": one, "doc_id": two[:200]} for one, two in invented[:3]],
            },
            "trouble": self._found.trouble,
            "note": self._found.note,
        }

    def rows(self) -> Iterable[dict[str, Any]]:
        """One row for each question, with the values of all metrics that cover it."""
        columns = {
            name: dict(zip(ids, self._scores.values[name].tolist(), strict=True))
            for name, ids in self._scores.query_ids.items()
        }
        for case in self._cases:
            figures = {
                name: by[case.query_id] for name, by in columns.items() if case.query_id in by
            }
            others = (self._found.counterfactuals or {}).get(case.query_id, NOT_TRIED)
            yield _row(case, _verdict_of(self._found, case), others) | figures

    @property
    def _correctness_by(self) -> str:
        if self._found.judge is None:
            return BY_FACTS
        votes = self._config.judge_votes
        said = "1 vote" if votes == 1 else f"the majority of {votes} votes"
        return f"judge {self._found.judge.provider}, {said}"

    def _statistics(self) -> Iterable[tuple[str, dict[str, Any]]]:
        for name, values in self._scores.values.items():
            if not values.size:
                continue
            summary = summarize(values, seed=self._config.seed)
            ids = set(self._scores.query_ids[name])
            metric = ANSWER_METRICS.get(name)
            ceiling = 1.0
            if metric is not None:
                covered = [case for case in self._cases if case.query_id in ids]
                ceiling = metric.mean_ceiling(covered, self._config.top_k)
            yield (
                name,
                {
                    "n": summary.n,
                    "mean": summary.mean,
                    "low": summary.low,
                    "high": below(summary.high, ceiling),
                    "median": summary.median,
                    "std": summary.std,
                    "ceiling": ceiling,
                    "how": metric.how if metric else self._how(name),
                },
            )

    def _how(self, name: str) -> str:
        return self._correctness_by if name == "correctness" else JUDGED_METRICS[name]

    def _judge(self) -> dict[str, Any] | None:
        use = self._found.judge
        if use is None:
            return None
        verdicts = self._found.verdicts.values()
        judgments = [each.judgment for each in verdicts if each.judgment]
        asked = [each for each in judgments if not each.by_rule]
        facts = sum(each.facts.unparseable for each in verdicts if each.facts)
        return {
            "provider": use.provider,
            "votes": use.votes,
            **({"spending": asdict(use.spending)} if use.spending else {}),
            "prompts": dict(use.prompts),
            "judged": len(asked),
            "decided_by_rule": len(judgments) - len(asked),
            "flip_rate": flip_rate(asked),
            "unparseable_votes": sum(each.unparseable for each in asked) + facts,
            "undecided": sum(each.verdict is None for each in judgments),
        }

    def _diagnosis(self) -> dict[str, Any] | None:
        """Only of questions whose answer is known to be correct or wrong.

        Where there is no reference there is nothing to say; those that a judge left undecided are
        counted separately.
        """
        verdicts = self._found.verdicts
        seen = [
            _observation(case, verdicts[case.query_id])
            for case in self._cases
            if case.query_id in verdicts and verdicts[case.query_id].correct is not None
        ]
        if not seen:
            return None
        undecided = sum(each.undecided for each in verdicts.values())
        report = summarize_diagnoses(seen, self._found.counterfactuals, undecided=undecided)
        return {
            "sentence": report.sentence,
            "questions": report.questions,
            "undecided": report.undecided,
            "wrong": len(report.diagnoses),
            "counts": {str(failure): number for failure, number in report.counts.items() if number},
            "points": {str(component): points for component, points in report.points.items()},
            "settled": report.settled,
            "from_memory": report.from_memory,
            "quadrants": _quadrants(seen),
        }

    def _counterfactuals(self) -> dict[str, dict[str, int]] | None:
        if not self._found.contexts:
            return None
        tried = {}
        for field in ("gold", "no_context", "distractors"):
            values = [getattr(each, field) for each in (self._found.counterfactuals or {}).values()]
            decided = [value for value in values if value is not None]
            tried[field] = {"asked": len(decided), "right": sum(decided)}
        return tried


def measure_examined(
    cases: Sequence[AnswerCase], found: Examination, documents: Mapping[str, Document]
) -> AnswerScores:
    """The metrics that need no model and those of the judge, correctness first."""
    columns: list[tuple[str, Mapping[str, float]]] = [
        ("correctness", _column(cases, found, _correct)),
        ("judged_facts", _column(cases, found, _judged_facts)),
        ("judged_faithfulness", _column(cases, found, _judged_faithfulness)),
    ]
    if found.judge is None or not found.verdicts:
        columns = columns[:1]
    scores = measure_answers(cases, documents)
    ids = {name: list(column) for name, column in columns if column}
    values: dict[str, Floats] = {
        name: np.array(list(column.values()), dtype=np.float64)
        for name, column in columns
        if column
    }
    return AnswerScores(ids | scores.query_ids, values | scores.values)


def _column(
    cases: Sequence[AnswerCase],
    found: Examination,
    value: Callable[[AnswerCase, Verdict], float | None],
) -> dict[str, float]:
    figures = {case.query_id: value(case, _verdict_of(found, case)) for case in cases}
    return {query_id: figure for query_id, figure in figures.items() if figure is not None}


def _verdict_of(found: Examination, case: AnswerCase) -> Verdict:
    return found.verdicts.get(case.query_id, Verdict(None))


def _correct(case: AnswerCase, verdict: Verdict) -> float | None:
    """0 where the judge was undecided: that does not make an answer correct."""
    if verdict.correct is None and verdict.judgment is None:
        return None
    return float(verdict.correct is True)


def _judged_facts(case: AnswerCase, verdict: Verdict) -> float | None:
    if not case.reference.facts or not case.answerable:
        return None
    return verdict.facts.recall if verdict.facts else 0.0


def _judged_faithfulness(case: AnswerCase, verdict: Verdict) -> float | None:
    return None if not case.answerable else verdict.faithfulness or 0.0


def _observation(case: AnswerCase, verdict: Verdict) -> Observation:
    return observe(case, correct=bool(verdict.correct), contradicted=verdict.contradicted)


def _quadrants(seen: Sequence[Observation]) -> dict[str, int]:
    """Retrieval against generation: was the evidence retrieved, and was the answer correct?"""
    counts = Counter(
        ("evidence" if each.evidence else "no_evidence", "right" if each.correct else "wrong")
        for each in seen
        if each.answerable and not each.error
    )
    return {
        f"{evidence}_{answer}": counts[evidence, answer]
        for evidence in ("evidence", "no_evidence")
        for answer in ("right", "wrong")
    }


def _row(case: AnswerCase, verdict: Verdict, others: Counterfactuals) -> dict[str, Any]:
    row: dict[str, Any] = {
        "query_id": case.query_id,
        "query_text": case.question,
        "answer": case.answer,
        "citations": case.citations,
        "retrieved_docs": case.retrieved,
        "answerable": case.answerable,
        "reference_answer": case.reference.answer or None,
        "facts": [fact.text for fact in case.reference.facts],
        "needed_docs": sorted(case.needed),
        "correct": verdict.correct,
    }
    if verdict.judgment is not None and not verdict.judgment.by_rule:
        row["votes"] = [vote.value for vote in verdict.judgment.votes]
    diagnosis = None
    if verdict.correct is not None:
        diagnosis = diagnose(_observation(case, verdict), others)
    if diagnosis is not None:
        row["diagnosis"] = {
            "failure": diagnosis.failure,
            "half": diagnosis.component,
            "settled": diagnosis.settled,
            "why": diagnosis.why,
        }
    tried = {name: value for name, value in asdict(others).items() if value is not None}
    return row | ({"counterfactuals": tried} if tried else {})
