"""Listeners: what they are told, that none can harm a run, and the traces that `otel` sends."""

import json
import sys
import threading
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from tests.json_server import Answer, JsonRequest, JsonServer

import assay
from assay import extras
from assay.cli.app import app
from assay.data.traces import read_spans, trace_steps
from assay.errors import UsageError
from assay.evaluation import listeners
from assay.evaluation.listeners import RunListeners, parse_headers, traces_url
from assay.run.folder import RunFolder

EVALUATION = ["eval", "builtin:bm25", "--dataset", "notes", "--num-queries", "6"]

Told = list[tuple[str, str]]


class Recorder:
    told: Told = []  # noqa: RUF012  a new list for each test

    def on_start(self, folder: RunFolder) -> None:
        assert folder.read_header().config.target
        self.told.append(("start", folder.name))

    def on_finish(self, run: assay.Run) -> None:
        assert run.folder.page_file.is_file()
        self.told.append(("finish", run.state))

    def on_fail(self, folder: RunFolder) -> None:
        self.told.append(("fail", folder.name))


class Failing(Recorder):
    """Raises in what every listener has."""

    def on_start(self, folder: RunFolder) -> None:
        raise SystemExit("no tracking server at http://me:hidden-9@h/")

    def on_finish(self, run: assay.Run) -> None:
        raise ValueError


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """`recorder` is a registered listener, `mine:Failing` one of a module."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Recorder, "told", [])
    module = ModuleType("mine")
    module.Recorder, module.Failing = Recorder, Failing  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mine", module)
    registered = EntryPoints([EntryPoint("recorder", "mine:Recorder", listeners.GROUP)])
    monkeypatch.setattr(extras, "entry_points", registered.select)
    return Recorder.told


def test_a_resumed_run_is_told_again_and_a_baseline_is_not(recorded: Told) -> None:
    first = [*EVALUATION, "--baseline", "builtin:bm25", "--listener", "mine:Recorder"]
    assert CliRunner().invoke(app, first).exit_code == 0
    resumed = CliRunner().invoke(app, ["eval", "--resume", "latest", "--listener", "recorder"])
    assert resumed.exit_code == 0, resumed.output
    assert [what for what, _ in recorded] == ["start", "finish"] * 2
    assert recorded[0] == recorded[2]


def test_a_listener_that_fails_is_told_and_changes_nothing(recorded: Told) -> None:
    both = ["--listener", "mine:Failing", "--listener", "recorder", "--json"]
    result = CliRunner().invoke(app, [*EVALUATION, *both])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["state"] == "complete"
    start, finish = (line for line in result.stderr.splitlines() if "'mine:Failing'" in line)
    assert "failed in on_start: SystemExit: no tracking server" in start
    assert "failed in on_finish: ValueError; the run is not affected" in finish
    assert "hidden-9" not in result.stderr
    private = CliRunner().invoke(app, [*EVALUATION, "--private", "--listener", "mine:Failing"])
    assert "failed in on_start: SystemExit; the run is not affected" in private.stderr
    assert [what for what, _ in recorded] == ["start", "finish"]


def test_a_run_that_breaks_off_is_told(recorded: Told) -> None:
    def break_off() -> None:
        with RunListeners([Failing()], lambda _said: None) as told:
            told.started(RunFolder(Path("runs/x")))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()
    assert recorded == [("fail", "x")]


def test_a_listener_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "SECONDS", 0.05)
    forever, said = threading.Event(), list[str]()

    class Hanging(Recorder):
        def on_start(self, folder: RunFolder) -> None:
            forever.wait()

    with RunListeners([Hanging()], said.append) as told:
        told.started(RunFolder(Path("x")))
    forever.set()
    assert "listener 'Hanging' has not returned from on_start within 0.05 s" in said[0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("recoder", "no listener 'recoder'"),
        ("nosuchmodule:X", "cannot import 'nosuchmodule'"),
        ("mine:Nothing", "has no 'Nothing'"),
        ("collections:OrderedDict", "has no method on_start"),
    ],
)
def test_a_wrong_listener_is_refused_at_once(recorded: Told, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        RunListeners([name], print)
    result = CliRunner().invoke(app, [*EVALUATION, "--listener", name])
    assert isinstance(result.exception, UsageError)
    assert not Path("runs").exists()


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
    monkeypatch.setattr(listeners, "QUESTIONS_PER_REQUEST", 2)
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
