"""`assay score traces.json --dataset D`: the searches in OpenTelemetry traces, against judgments.

    found = score_traces(Path("traces.json"), load_dataset("notes"))
    found.search.figures["evidence_recall"].mean

A trace belongs to the question of the data set that it asks, by its text. No agent is called, so
the figures are those of searches that an agent reports.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from assay.data.dataset import Dataset
from assay.data.traces import read_spans, span_rows, trace_steps
from assay.errors import DataError
from assay.evaluation.results import metrics_for
from assay.evaluation.searching import SearchedCalls, measure_searches, summarize_searches
from assay.metrics.scoring import Scores, score_rankings
from assay.run.calls import Call
from assay.run.config import RunConfig
from assay.run.models import SearchReport
from assay.text import normalize


@dataclass(frozen=True, slots=True)
class TraceScores:
    """Figures over the questions that have a trace.

    `rankings` scores what the agent's model was shown at the end. `repeated` traces ask a question
    again, of which the last counts; `unknown` ask one that the data set does not have.
    """

    search: SearchReport
    rankings: Scores
    questions: int
    repeated: int
    unknown: int


def score_traces(
    path: Path, dataset: Dataset, *, split: str = "test", top_k: int = 10
) -> TraceScores:
    """Measure the searches of every trace. Raises `DataError` if none asks a known question."""
    by_text = {normalize(query.text): query for query in dataset.queries_in(split)}
    spans = read_spans(path)
    shown = {row["id"]: [each["id"] for each in row["contexts"]] for row in span_rows(spans)}
    calls: dict[str, Call] = {}
    traced = list(trace_steps(spans))
    unknown = 0
    for trace_id, question, steps in traced:
        query = by_text.get(normalize(question))
        if query is None:
            unknown += 1
            continue
        # Without retrieved documents, a trace ends with all that its searches showed.
        seen = [doc_id for step in steps for doc_id in step.doc_ids]
        ids = tuple(dict.fromkeys(filter(None, shown[trace_id] or seen)))
        calls[query.id] = Call(query.id, ids, 0.0, 1, returned=len(ids), steps=steps)
    if not calls:
        what = f"none of its {len(traced)} traces asks a question of {dataset.name!r} ({split})"
        raise DataError(what, file=path)
    queries = [query for query in by_text.values() if query.id in calls]
    config = RunConfig(target="", dataset=dataset.name, split=split, top_k=top_k)
    searched = SearchedCalls(
        config, dataset, queries, lambda asked: (calls.get(q.id) for q in asked)
    )
    rows = asyncio.run(measure_searches(searched, None))
    judged = dataset.judgments_in(split)
    rankings = score_rankings(
        {query_id: call.doc_ids for query_id, call in calls.items()},
        {query_id: judged[query_id] for query_id in calls},
        metrics_for(top_k),
        known=dataset.corpus_ids,
        top_k=top_k,
    )
    repeated = len(traced) - unknown - len(calls)
    return TraceScores(
        summarize_searches(searched, rows), rankings, len(by_text), repeated, unknown
    )
