"""`--listener otel`: a collector gets one trace a question, and Assay reads them back."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.json_server import Answer, JsonRequest, JsonServer

import assay
from assay.data.traces import read_spans, trace_steps
from assay.errors import UsageError
from assay.evaluation import otel
from assay.evaluation.otel import parse_headers, traces_url

NOTES = assay.load_dataset("notes")
TEXTS = {query.text: NOTES.answers[query.id] for query in NOTES.queries.values()}


class Collector(JsonServer):
    def __init__(self) -> None:
        self.requests: list[JsonRequest] = []
        super().__init__()

    def answer(self, request: JsonRequest) -> Answer:
        self.requests.append(request)
        return 200, {}, {}


@pytest.fixture
def collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", raising=False)
    with Collector().running() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x-tenant=t")
        yield running


def answering(query: str, top_k: int) -> dict[str, Any]:
    reference = TEXTS[query]
    return {"doc_ids": list(reference.documents)[:top_k], "answer": reference.answer or "Unknown."}


def evaluate(**options: Any) -> assay.Run:
    return assay.evaluate(
        answering, NOTES, num_queries=5, answers=True, listeners="otel", **options
    )


def spans_of(request: JsonRequest) -> list[dict[str, Any]]:
    return [
        span
        for resource in request.body["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def test_assay_reads_back_questions_answers_and_documents(collector: Collector) -> None:
    run = evaluate()
    (request,) = collector.requests
    assert request.path == "/v1/traces"
    assert (request.headers["api-key"], request.headers["x-tenant"]) == ("a b", "t")
    path = Path("traces.json")
    path.write_text(json.dumps(request.body))
    steps = {question: found for _, question, found in trace_steps(read_spans(path))}
    assert {question: found[0].doc_ids for question, found in steps.items()} == {
        row.query_text: tuple(row.retrieved_docs) for row in run.rows()
    }
    scored = {row.query_text: row.answer for row in assay.score_answers(path).rows()}
    assert scored == {row.query_text: row.answer for row in run.answers()}


def test_every_score_of_a_question_is_an_evaluation_result(collector: Collector) -> None:
    run = evaluate()
    roots = [span for span in spans_of(collector.requests[0]) if "parentSpanId" not in span]
    row, root = next(run.rows()), roots[0]
    results = {}
    for event in root["events"]:
        values = {each["key"]: each["value"] for each in event["attributes"]}
        assert event["name"] == "gen_ai.evaluation.result"
        name = values["gen_ai.evaluation.name"]["stringValue"]
        results[name] = values["gen_ai.evaluation.score.value"]["doubleValue"]
    assert results["ndcg_at_5"] == row.score("ndcg@5")
    assert {"correctness", "faithfulness"} <= set(results)
    took = int(root["endTimeUnixNano"]) - int(root["startTimeUnixNano"])
    assert took / 1e6 == pytest.approx(row.latency_ms, abs=0.1)


def test_a_private_run_sends_no_text(collector: Collector) -> None:
    run = evaluate(private=True)
    sent = json.dumps([request.body for request in collector.requests])
    assert len(spans_of(collector.requests[0])) == 10
    assert next(run.rows()).query_id in sent
    for question, reference in TEXTS.items():
        assert question not in sent
        assert not reference.answer or reference.answer not in sent


def test_a_request_is_bounded(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel, "QUESTIONS_PER_REQUEST", 2)
    evaluate()
    assert [len(spans_of(request)) for request in collector.requests] == [4, 4, 2]


def test_a_collector_that_is_not_there_does_not_fail_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    with pytest.warns(UserWarning, match="listener 'otel' failed in on_finish: ConnectError"):
        run = evaluate()
    assert run.state == "complete"


def test_the_variables_of_opentelemetry_are_understood() -> None:
    assert traces_url({}) == "http://localhost:4318/v1/traces"
    assert traces_url({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/t"}) == "http://c/t"
    assert traces_url({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c/"}) == "http://c/v1/traces"
    assert parse_headers(" a=1, b=x%3Dy ,") == {"a": "1", "b": "x=y"}
    with pytest.raises(UsageError, match="write NAME=VALUE"):
        parse_headers("secret")
