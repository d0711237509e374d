"""Whatever an agent, a file or a user writes: a parser returns a value or raises one of our errors.

The same examples in every run; `make fuzz` draws thousands of new ones.
"""

import contextlib
import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fuzz.mutation import almost, almost_text, examples

from assay.answers.criteria import read_criteria
from assay.contract.client import parse_response, parse_response_object
from assay.data import load_dataset
from assay.data.dataset import Query
from assay.data.load import check_dataset
from assay.data.qrels import read_qrels, read_run
from assay.data.traces import read_log, read_spans, trace_steps
from assay.errors import AgentFailure, AssayError
from assay.evaluation.bench import read_suite
from assay.evaluation.gates import parse_gate, split_gates
from assay.metrics.audit import read_report
from assay.net.redact import redact_url
from assay.net.retry import parse_retry_after
from assay.net.sse import EventReader, EventTooLarge
from assay.run.calls import CallLog, CallWriter
from assay.targets.a2a import A2AReply, read_reply
from assay.targets.answer_reader import AnswerReader, Received, parse_mapping
from assay.targets.target_kinds import parse_target, redact_target

OURS = (AssayError, AgentFailure)

ANSWERS = tuple(
    json.dumps(each).encode()
    for each in (
        {"doc_ids": ["d1", "d2"], "answer": "It is so [d1].", "citations": ["d1"]},
        {"results": [{"doc_id": "d1", "score": 0.5, "title": "T", "text": "x"}, {"id": 2}]},
        {"hits": {"hits": [{"_id": "d1", "_score": 1.5, "_source": {"title": "T"}}]}},
        [{"id": "d1"}, {"id": "d2"}],
        ["d1", "d2"],
        {"payload": {"items": [{"docno": "d1", "s": 1}]}, "answer": None},
    )
)
QUESTIONS = (
    b'query_id,query,doc_ids,grades,answer,lang\n1,how?,d1;d2,2;1,so,de\n2,why?,"d3,d4",,,en\n',
    b"query\tdoc_id\tgrade\nhow?\td1\t2\nhow?\td2\t0\n",
    b'{"query": "how?", "doc_ids": ["d1", 2], "tags": ["a"]}\n{"query": "w", "ids": {"d": 1}}\n',
    b'[{"query": "how?", "doc_ids": "d1|d2", "grade": 1.0}]',
)
MAPPINGS = (
    "ids=payload.items[].docno",
    "ids=re:(d\\d+)",
    "scores=results[].score,ids=results[].id",
)
A2A_RESULTS = tuple(
    json.dumps(each).encode()
    for each in (
        {
            "kind": "task",
            "id": "t",
            "status": {"state": "completed"},
            "artifacts": [
                {
                    "artifactId": "a",
                    "name": "retrieval_results",
                    "parts": [{"kind": "data", "data": {"doc_ids": ["d1"]}}],
                }
            ],
        },
        {
            "task": {
                "id": "t",
                "status": {"state": "TASK_STATE_COMPLETED"},
                "artifacts": [{"artifactId": "a", "parts": [{"text": '{"doc_ids": ["d1"]}'}]}],
            }
        },
        {"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text"}]},
        {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_FAILED"}, "final": True}},
        {"artifactUpdate": {"artifact": {"parts": [{"text": "d1"}]}, "append": True}},
    )
)
RESPONSES = tuple(
    json.dumps(each).encode()
    for each in (
        {
            "status": "ok",
            "request_id": "r",
            "outputs": {"chunks": [{"chunk_id": "a", "doc_id": "d1", "text": "x", "score": 1}]},
            "artifacts": ["a"],
            "provenance": {},
            "usage": {"duration_ms": 1, "input_tokens": 1, "output_tokens": 1},
            "warnings": [],
        },
        {"status": "error", "request_id": "r", "ok": False, "outputs": {}, "error": {"code": "X"}},
    )
)
STREAMS = (
    b'event: started\ndata: {"type": "started"}\n\n: ping\n\nevent: final\ndata: {"ok": true}\n\n',
    b"\xef\xbb\xbfdata: one\r\ndata: two\r\n\r\nid: 7\rretry: 100\rdata:three\r\r",
)
TARGETS = (
    "builtin:bm25#openai:m@http://127.0.0.1:1",
    "a2a:http://agent.example:9010/path?x=1#f",
    "mcp:https://user:secret@host/mcp#tool",
    "mcp-stdio:python -m server --flag#tool",
    "http:http://127.0.0.1:8000=RAG_RETRIEVE",
    "rest:http://[::1]:80/q={query}&k={top_k}",
    "python:module.sub:function",
    "openai:https://host/v1#model",
    "https://host.example/",
)
GATES = ("ndcg@5>=0.30", "success_rate>=0.99", "latency_p95_ms<200;recall@10 > .5, mrr<=1e-3")
QRELS = (b"q1 0 d1 2\nq1 0 d2 1\nq2 0 d1 0\n", b"query-id\tcorpus-id\tscore\nq1\td1\t2\n")
RUNS = (
    b"q1 Q0 d1 1 9.5 tag\nq1 Q0 d2 2 9.4 tag\n",
    b'{"q1": ["d1", "d2"], "q2": {"d3": 0.5}}',
    b'[{"query_id": "q1", "retrieved_docs": ["d1"]}]',
)
REPORT = (
    b'{"summary": {"mean_ndcg_at_5": 0.5, "total_queries": 1}, "per_query_results": '
    b'[{"query_id": "q", "retrieved_docs": ["d"], "ndcg_at_5": 0.5, "latency_ms": 1.5}]}'
)
CORPUS = b'{"_id": "d1", "title": "T", "text": "x"}\n{"_id": "d2", "text": "y", "metadata": {}}\n'
QUERIES = b'{"_id": "q1", "text": "what"}\n{"_id": "q2", "text": "why", "metadata": {"n": 1}}\n'
REFERENCES = b'{"query_id": "q1", "answer": "It is.", "facts": ["x", {"text": "y"}]}\n'
CALLS = (
    b'{"query_id":"q1","status":"ok","at":0.2,"latency_ms":1.5,"attempts":1,"doc_ids":["d"],'
    b'"returned":1}\n{"query_id":"q1","status":"withdrawn","at":0,"latency_ms":0,"attempts":0}\n'
)


@given(answer=almost(*ANSWERS), mapping=st.one_of(st.none(), almost_text(*MAPPINGS)))
def test_answers(answer: bytes, mapping: str | None) -> None:
    try:
        reader = AnswerReader(parse_mapping([mapping]) if mapping is not None else {}, {"d1", "d2"})
        found = reader.read(Received.from_text(answer))
    except OURS:
        return
    assert all(isinstance(each, str) for each in found.doc_ids)
    assert all(math.isfinite(each) for each in found.scores)
    orjson.dumps([found.doc_ids, found.answer, found.citations])


@given(results=st.lists(almost(*A2A_RESULTS), min_size=1, max_size=3))
def test_results_of_a2a(results: list[bytes]) -> None:
    reply = A2AReply()
    try:
        for each in results:
            try:
                value = orjson.loads(each)
            except orjson.JSONDecodeError:
                continue
            reply.feed(value)
        found = read_reply(reply.sources(), AnswerReader({}))
    except OURS:
        return
    orjson.dumps([found.doc_ids, found.answer])


@given(body=almost(*RESPONSES))
def test_responses_of_the_contract(body: bytes) -> None:
    with contextlib.suppress(*OURS):
        parse_response(parse_response_object(body)).to_wire()


@given(stream=almost(*STREAMS), cuts=st.lists(st.integers(0, 300), max_size=5))
def test_an_event_stream_means_the_same_however_it_is_cut(stream: bytes, cuts: list[int]) -> None:
    whole, pieces = EventReader(10_000), EventReader(10_000)
    try:
        expected = whole.feed(stream)
    except EventTooLarge:
        return
    found = []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), None], strict=True):
        found += pieces.feed(stream[start:end])
    assert found == expected
    assert pieces.close() == whole.close()
    assert sorted(pieces.problems) == sorted(whole.problems)


@given(text=almost_text(*TARGETS))
def test_targets(text: str) -> None:
    redact_target(text)
    try:
        target = parse_target(text)
    except OURS as error:
        str(error).encode("utf-8", "backslashreplace")
        return
    assert target.kind


@given(text=almost_text("https://user:secret@host/mcp", *TARGETS))
@example(text="http://[")
def test_no_address_is_too_odd_to_be_redacted(text: str) -> None:
    shown = redact_url(text)
    if text.startswith("https://user:secret@"):
        assert not shown.removeprefix("https://").startswith("user:secret")


@given(text=almost_text(*GATES))
@example(text="ndcg@5>=1e999")
def test_gates(text: str) -> None:
    for each in split_gates(text):
        try:
            gate = parse_gate(each, top_k=10)
        except OURS:
            continue
        assert math.isfinite(gate.bound)
        assert gate.passes(0.5) in (True, False)


@given(text=almost_text("120", "Wed, 21 Oct 2026 07:28:00 GMT", "1.5"))
def test_retry_after(text: str) -> None:
    seconds = parse_retry_after(text)
    assert seconds is None or (math.isfinite(seconds) and seconds >= 0)


@given(content=almost(*QRELS))
def test_judgments(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "qrels.tsv")
        path.write_bytes(content)
        try:
            found = read_qrels(path)
        except OURS:
            return
        grades = [grade for each in found.values() for grade in each.values()]
        assert all(isinstance(grade, int) for grade in grades)


@given(content=almost(*RUNS))
def test_rankings(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "run.txt")
        path.write_bytes(content)
        try:
            found = read_run(path)
        except OURS:
            return
        assert all(isinstance(doc, str) for each in found.values() for doc in each)


@given(content=almost(REPORT))
def test_reports_of_others(content: bytes) -> None:
    try:
        value = json.loads(content)  # as the commands read them: with NaN
    except (ValueError, RecursionError):
        return
    with contextlib.suppress(*OURS):
        read_report(value)


@given(
    corpus=almost(CORPUS),
    queries=almost(QUERIES),
    qrels=almost(*QRELS),
    references=st.one_of(st.none(), almost(REFERENCES)),
)
@settings(max_examples=examples(60))
def test_beir(corpus: bytes, queries: bytes, qrels: bytes, references: bytes | None) -> None:
    with TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "qrels").mkdir()
        (home / "corpus.jsonl").write_bytes(corpus)
        (home / "queries.jsonl").write_bytes(queries)
        (home / "qrels/test.tsv").write_bytes(qrels)
        if references is not None:
            (home / "answers.jsonl").write_bytes(references)
        try:
            dataset = load_dataset(str(home))
        except OURS:
            return
        assert dataset.fingerprint
        assert all(each.id in dataset.queries for each in dataset.queries_in("test"))


@given(content=almost(*QUESTIONS), suffix=st.sampled_from([".csv", ".tsv", ".jsonl", ".json"]))
def test_tables_of_questions(content: bytes, suffix: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, f"questions{suffix}")
        path.write_bytes(content)
        checked = check_dataset(path)
        try:
            dataset = load_dataset(path)
        except OURS:
            assert checked.error_count
            return
        assert not checked.error_count
        assert dataset.fingerprint
        assert dataset.queries.keys() == dataset.judgments_in("test").keys()


@given(content=almost(CALLS))
def test_the_log_of_calls(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "calls.jsonl")
        path.write_bytes(content)
        try:
            before = CallLog(path)
        except OURS:
            return
        assert math.isfinite(before.elapsed)
        with CallWriter(path):
            pass
        after = CallLog(path)
        assert list(after.read([Query("q1", "")])) == list(before.read([Query("q1", "")]))


TRACES = tuple(
    Path(__file__).parents[1].joinpath("data/traces", name).read_bytes()
    for name in ("langchain.json", "llama_index.json")
)
CRITERIA = (b"---\nname: tone\nscale: 1-5\n---\nIs it friendly?\n", b"Is it short?\r\n")
SUITES = (
    b'metric = "ndcg@10"\n[targets]\nbm25 = "builtin:bm25"\n[datasets]\nnotes = "notes"\n'
    b"[options]\ntop_k = 10\n[settings.one]\nseed = 1\n",
)


@given(content=almost(*TRACES))
@settings(max_examples=examples(30))
def test_traces(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "traces.json")
        path.write_bytes(content)
        with contextlib.suppress(*OURS):
            for row in read_log(path):
                assert isinstance(row, AssayError) or isinstance(row.fields, dict)
            for _, _, steps in trace_steps(read_spans(path)):
                assert all(step.tool for step in steps)


@given(content=almost(*CRITERIA))
def test_criteria(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "tone.md")
        path.write_bytes(content)
        with contextlib.suppress(*OURS):
            (criterion,) = read_criteria(path)
            assert len(criterion.levels) >= 2


@given(content=almost(*SUITES))
def test_suites(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "suite.toml")
        path.write_bytes(content)
        with contextlib.suppress(*OURS):
            assert read_suite(path).cells


def test_the_mutator_changes_and_keeps() -> None:
    """Were it to return the corpus alone, or never, the tests above would test little."""
    seen: set[bytes] = set()

    @given(content=almost(b'{"a": [1, 2]}'))
    @settings(max_examples=200, database=None)
    def collect(content: bytes) -> None:
        seen.add(content)

    collect()
    assert b'{"a": [1, 2]}' in seen
    assert len(seen) > 100
    valid = [each for each in seen if each.startswith(b"{") and each.endswith(b"}")]
    assert len(valid) > 10
