"""The part of a report that is about answers: figures, diagnosis, and one row for each question."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from assay.data.dataset import Dataset
from assay.evaluate.answers.diagnosing import diagnosed, diagnosis_of
from assay.evaluate.answers.examination import Examination, Verdict
from assay.evaluate.answers.figures import measure_examined
from assay.evaluate.answers.questions import invented_citations, references_fingerprint
from assay.evaluate.plan import RunConfig
from assay.measure.answers.answer_metrics import ANSWER_METRICS, JUDGED_METRICS
from assay.measure.answers.case import AnswerCase
from assay.measure.answers.correctness import BY_FACTS
from assay.measure.answers.diagnosis import NOT_TRIED, Counterfactuals
from assay.measure.answers.verdicts import flip_rate
from assay.measure.statistics import below, summarize


class AnswerReport:
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
        """What the tables show; the answers themselves stand in the rows."""
        statistics = dict(self._statistics())
        invented = list(invented_citations(self._cases, self._dataset))
        return {
            "questions": len(self._cases),
            "answered": sum(case.answer is not None for case in self._cases),
            "unanswerable": sum(not case.answerable for case in self._cases),
            "references": references_fingerprint(self._dataset),
            "correctness_by": self._correctness_by,
            "metrics": {name: row["mean"] for name, row in statistics.items()},
            "statistics": statistics,
            "judge": self._judge(),
            "diagnosis": diagnosed(self._cases, self._found.verdicts, self._found.others),
            "counterfactuals": self._counterfactuals(),
            "invented_citations": {
                "ids": len(invented),
                "examples": [{"query_id": one, "doc_id": two[:200]} for one, two in invented[:3]],
            },
            "trouble": self._found.trouble,
            "note": self._found.note,
        }

    def rows(self) -> Iterable[dict[str, Any]]:
        columns = {
            name: dict(zip(ids, self._scores.values[name].tolist(), strict=True))
            for name, ids in self._scores.query_ids.items()
        }
        for case in self._cases:
            figures = {
                name: by[case.query_id] for name, by in columns.items() if case.query_id in by
            }
            yield _row(case, self._verdict(case), self._others(case)) | figures

    def _verdict(self, case: AnswerCase) -> Verdict:
        return self._found.verdicts.get(case.query_id, Verdict(None))

    def _others(self, case: AnswerCase) -> Counterfactuals:
        return (self._found.others or {}).get(case.query_id, NOT_TRIED)

    @property
    def _correctness_by(self) -> str:
        if self._found.judge is None:
            return BY_FACTS
        votes = self._config.judge_votes
        said = "1 vote" if votes == 1 else f"the majority of {votes} votes"
        return f"judge {self._found.judge['provider']}, {said}"

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
        if self._found.judge is None:
            return None
        verdicts = self._found.verdicts.values()
        judgments = [each.judgment for each in verdicts if each.judgment]
        asked = [each for each in judgments if not each.by_rule]
        facts = sum(each.facts.unparseable for each in verdicts if each.facts)
        return {
            **self._found.judge,
            "judged": len(asked),
            "decided_by_rule": len(judgments) - len(asked),
            "flip_rate": flip_rate(asked),
            "unparseable_votes": sum(each.unparseable for each in asked) + facts,
            "undecided": sum(each.verdict is None for each in judgments),
        }

    def _counterfactuals(self) -> dict[str, dict[str, int]] | None:
        if not self._found.tried:
            return None
        tried = {}
        for field in ("gold", "no_context", "distractors"):
            values = [getattr(each, field) for each in (self._found.others or {}).values()]
            decided = [value for value in values if value is not None]
            tried[field] = {"asked": len(decided), "right": sum(decided)}
        return tried


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
    if found := diagnosis_of(case, verdict, others):
        row["diagnosis"] = found
    tried = {name: value for name, value in asdict(others).items() if value is not None}
    return row | ({"counterfactuals": tried} if tried else {})
