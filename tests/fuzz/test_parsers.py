"""Whatever an agent, a file or a user writes: a parser returns a value or raises one of our errors.

The same examples in every run; `make fuzz` draws thousands of new ones.
"""

import asyncio
import contextlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fuzz.mutation import almost, almost_text, examples
from tests.labels.test_model_grades import Says

from assay.answers.calibration import read_calibrations, read_labels
from assay.answers.criteria import read_criteria
from assay.answers.judge import parse_words
from assay.contract.client import parse_response, parse_response_object
from assay.data import load_dataset
from assay.data.dataset import Document, Query
from assay.data.load import check_dataset
from assay.data.qrels import read_qrels, read_run
from assay.data.traces import read_log, read_spans, trace_steps
from assay.errors import AgentFailure, AssayError
from assay.evaluation.answers.nuggets import SUPPORT
from assay.evaluation.bench import read_suite
from assay.evaluation.gates import parse_gate
from assay.labels.pool import read_pool
from assay.labels.reference_writing import ModelExtractor
from assay.labels.references import read_references, reference_to_json
from assay.metrics.audit import read_report
from assay.net.redact import redact_url
from assay.net.sse import EventReader, EventTooLarge
from assay.run.calls import CallLog, CallWriter
from assay.targets.a2a import A2AReply, read_reply
from assay.targets.answer_reader import AnswerReader, Received, parse_mapping
from assay.targets.target_kinds import parse_target, redact_target

OURS = (AssayError, AgentFailure)

# --- files ----------------------------------------------------------------------------------------

QRELS = (b"q1 0 d1 2\nq1 0 d2 1\nq2 0 d1 0\n", b"query-id\tcorpus-id\tscore\nq1\td1\t2\n")
RUNS = (
    b"q1 Q0 d1 1 9.5 tag\nq1 Q0 d2 2 9.4 tag\n",
    b'{"q1": ["d1", "d2"], "q2": {"d3": 0.5}}',
    b'[{"query_id": "q1", "retrieved_docs": ["d1"]}]',
)
QUESTIONS = (
    b'query_id,query,doc_ids,grades,answer,lang\n1,how?,d1;d2,2;1,so,de\n2,why?,"d3,d4",,,en\n',
    b"query\tdoc_id\tgrade\nhow?\td1\t2\nhow?\td2\t0\n",
    b'{"query": "how?", "doc_ids": ["d1", 2], "tags": ["a"]}\n{"query": "w", "ids": {"d": 1}}\n',
    b'[{"query": "how?", "doc_ids": "d1|d2", "grade": 1.0}]',
)
CALLS = (
    b'{"query_id":"q1","status":"ok","at":0.2,"latency_ms":1.5,"attempts":1,"doc_ids":["d"],'
    b'"returned":1}\n{"query_id":"q1","status":"withdrawn","at":0,"latency_ms":0,"attempts":0}\n'
)
TRACES = tuple(
    Path(__file__).parents[1].joinpath("data/traces", name).read_bytes()
    for name in ("langchain.json", "llama_index.json")
)
CRITERIA = (b"---\nname: tone\nscale: 1-5\n---\nIs it friendly?\n", b"Is it short?\r\n")
SUITE = (
    b'metric = "ndcg@10"\n[targets]\nbm25 = "builtin:bm25"\n[datasets]\nnotes = "notes"\n'
    b"[options]\ntop_k = 10\n[settings.one]\nseed = 1\n"
)
NUGGETS = (
    b'{"query_id": "q1", "query": "w", "nuggets": [{"id": "q1.1", "text": "Tea is hot", '
    b'"importance": "vital", "by": "model", "documents": ["d"], "hash": "00"}], "provenance": {}}\n'
    b'{"qid": 7, "nuggets": [{"text": "a", "importance": "okay"}, {"text": "b", "importance": '
    b'"VITAL"}]}\n'
)
LABELS = b'{"question": "w", "answer": "a", "nugget": "Tea is hot", "label": "partial"}\n'
CALIBRATIONS = (
    b'{"kind": "correctness", "judge": "m", "votes": 2, "prompts": ["p"], "labelled": 3, '
    b'"agreement": 0.5, "kappa": null, "questions": {"ab": 3}, "created": "", "assay": ""}\n'
)
POOL = b"query_id,query,doc_id,passage,label\nq1,tea,d1,green,1\nq1,tea,d2,black,\n"


def judgments(path: Path) -> None:
    grades = [grade for each in read_qrels(path).values() for grade in each.values()]
    assert all(isinstance(grade, int) for grade in grades)


def rankings(path: Path) -> None:
    assert all(isinstance(doc, str) for ranking in read_run(path).values() for doc in ranking)


def questions(path: Path) -> None:
    """The check finds an error exactly where loading fails."""
    checked = check_dataset(path)
    try:
        dataset = load_dataset(path)
    except OURS:
        assert checked.error_count
        raise
    assert not checked.error_count
    assert dataset.fingerprint
    assert dataset.queries.keys() == dataset.judgments_in("test").keys()


def calls(path: Path) -> None:
    before = CallLog(path)
    assert math.isfinite(before.elapsed)
    with CallWriter(path):
        pass
    after = CallLog(path)
    assert list(after.read([Query("q1", "")])) == list(before.read([Query("q1", "")]))


def traces(path: Path) -> None:
    for row in read_log(path):
        assert isinstance(row, AssayError) or isinstance(row.fields, dict)
    for _, _, steps in trace_steps(read_spans(path)):
        assert all(step.tool for step in steps)


def criteria(path: Path) -> None:
    (criterion,) = read_criteria(path)
    assert len(criterion.levels) >= 2


def references(path: Path) -> None:
    """What was read is written so that it is read back."""
    found = read_references(path)
    if isinstance(found, list):
        lines = "\n".join(json.dumps(reference_to_json(each)) for each in found)
        path.write_bytes(lines.encode("utf-8", "surrogatepass"))
        with contextlib.suppress(*OURS):
            assert read_references(path) == found


FILES: dict[str, tuple[Callable[[Path], object], tuple[bytes, ...]]] = {
    "qrels.tsv": (judgments, QRELS),
    "run.txt": (rankings, RUNS),
    "questions.csv": (questions, QUESTIONS),
    "questions.tsv": (questions, QUESTIONS),
    "questions.jsonl": (questions, QUESTIONS),
    "questions.json": (questions, QUESTIONS),
    "calls.jsonl": (calls, (CALLS,)),
    "traces.json": (traces, TRACES),
    "tone.md": (criteria, CRITERIA),
    "suite.toml": (lambda path: read_suite(path).cells, (SUITE,)),
    "nuggets.jsonl": (references, (NUGGETS,)),
    "labels.jsonl": (lambda path: read_labels(path, SUPPORT, "nugget"), (LABELS, CALIBRATIONS)),
    "calibrations.jsonl": (read_calibrations, (LABELS, CALIBRATIONS)),
    "pool.csv": (read_pool, (POOL,)),
}


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
@settings(max_examples=examples(60))
def test_a_file_is_read_or_named(name: str, data: st.DataObject) -> None:
    check_file(name, data.draw(almost(*FILES[name][1])))


def check_file(name: str, content: bytes) -> None:
    """Also called by scripts/fuzz_parsers.py."""
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        try:
            FILES[name][0](path)
        except OURS as error:
            assert name in str(error)  # noqa: PT017 (only if there is one)


CORPUS = b'{"_id": "d1", "title": "T", "text": "x"}\n{"_id": "d2", "text": "y", "metadata": {}}\n'
QUERIES = b'{"_id": "q1", "text": "what"}\n{"_id": "q2", "text": "why", "metadata": {"n": 1}}\n'
REFERENCES = b'{"query_id": "q1", "answer": "It is.", "facts": ["x", {"text": "y"}]}\n'


@given(
    corpus=almost(CORPUS),
    queries=almost(QUERIES),
    qrels=almost(*QRELS),
    answers=st.one_of(st.none(), almost(REFERENCES)),
)
@settings(max_examples=examples(60))
def test_beir(corpus: bytes, queries: bytes, qrels: bytes, answers: bytes | None) -> None:
    with TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "qrels").mkdir()
        (home / "corpus.jsonl").write_bytes(corpus)
        (home / "queries.jsonl").write_bytes(queries)
        (home / "qrels/test.tsv").write_bytes(qrels)
        if answers is not None:
            (home / "answers.jsonl").write_bytes(answers)
        with contextlib.suppress(*OURS):
            dataset = load_dataset(home)
            assert dataset.fingerprint
            assert all(each.id in dataset.queries for each in dataset.queries_in("test"))


# --- what agents send -----------------------------------------------------------------------------

ANSWERS = (
    b'{"doc_ids": ["d1", "d2"], "answer": "It is so [d1].", "citations": ["d1"]}',
    b'{"results": [{"doc_id": "d1", "score": 0.5, "title": "T", "text": "x"}, {"id": 2}]}',
    b'{"hits": {"hits": [{"_id": "d1", "_score": 1.5, "_source": {"title": "T"}}]}}',
    b'[{"id": "d1"}, {"id": "d2"}]',
    b'["d1", "d2"]',
    b'{"payload": {"items": [{"docno": "d1", "s": 1}]}, "answer": null}',
)
MAPPINGS = ("ids=payload.items[].docno", "ids=re:(d\\d+)", "scores=hits[].score,ids=hits[].id")
A2A_RESULTS = (
    b'{"kind": "task", "id": "t", "status": {"state": "completed"}, "artifacts": [{"name": '
    b'"retrieval_results", "parts": [{"kind": "data", "data": {"doc_ids": ["d1"]}}]}]}',
    b'{"task": {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": '
    b'[{"artifactId": "a", "parts": [{"text": "{\\"doc_ids\\": [\\"d1\\"]}"}]}]}}',
    b'{"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text"}]}',
    b'{"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_FAILED"}, "final": true}}',
    b'{"artifactUpdate": {"artifact": {"parts": [{"text": "d1"}]}, "append": true}}',
)
RESPONSES = (
    b'{"status": "ok", "request_id": "r", "outputs": {"chunks": [{"chunk_id": "a", "doc_id": "d1", '
    b'"text": "x", "score": 1}]}, "artifacts": ["a"], "provenance": {}, "usage": {"duration_ms": 1,'
    b' "input_tokens": 1, "output_tokens": 1}, "warnings": []}',
    b'{"status": "error", "request_id": "r", "ok": false, "outputs": {}, "error": {"code": "X"}}',
)
STREAMS = (
    b'event: started\ndata: {"type": "started"}\n\n: ping\n\nevent: final\ndata: {"ok": true}\n\n',
    b"\xef\xbb\xbfdata: one\r\ndata: two\r\n\r\nid: 7\rretry: 100\rdata:three\r\r",
)
REPORT = (
    b'{"summary": {"mean_ndcg_at_5": 0.5, "total_queries": 1}, "per_query_results": '
    b'[{"query_id": "q", "retrieved_docs": ["d"], "ndcg_at_5": 0.5, "latency_ms": 1.5}]}'
)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of JMESPath, for `a`
@given(answer=almost(*ANSWERS), mapping=st.one_of(st.none(), almost_text(*MAPPINGS)))
def test_answers(answer: bytes, mapping: str | None) -> None:
    with contextlib.suppress(*OURS):
        reader = AnswerReader(parse_mapping([mapping]) if mapping is not None else {}, {"d1", "d2"})
        found = reader.read(Received.from_text(answer))
        assert all(isinstance(each, str) for each in found.doc_ids)
        assert all(math.isfinite(each) for each in found.scores)
        orjson.dumps([found.doc_ids, found.answer, found.citations])


@given(results=st.lists(almost(*A2A_RESULTS), min_size=1, max_size=3))
def test_results_of_a2a(results: list[bytes]) -> None:
    reply = A2AReply()
    with contextlib.suppress(*OURS):
        for each in results:
            with contextlib.suppress(orjson.JSONDecodeError):
                reply.feed(orjson.loads(each))
        found = read_reply(reply.sources(), AnswerReader({}))
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


@given(content=almost(REPORT))
def test_reports_of_others(content: bytes) -> None:
    try:
        value = json.loads(content)  # as the commands read them: with NaN
    except (ValueError, RecursionError):
        return
    with contextlib.suppress(*OURS):
        read_report(value)


# --- what models reply ----------------------------------------------------------------------------


@given(reply=st.text(max_size=80), number=st.integers(1, 3))
@example(reply="[" * 200, number=1)
@example(reply='[{"support": 1}]', number=1)
def test_labels_of_a_judge(reply: str, number: int) -> None:
    found = parse_words(reply, ("SUPPORT", "NONE"), number)
    assert found is None or len(found) == number


@given(reply=almost(b'{"facts": [{"text": "Tea is hot", "document": 1, "quote": "Tea is hot"}]}'))
@example(reply=b'{"facts": [{"text": "Tea", "document": true, "quote": "Tea"}]}')
@example(reply=b'{"facts": [{"text": "Tea", "document": 1e400, "quote": "Tea"}]}')
def test_facts_that_a_model_drew(reply: bytes) -> None:
    document = Document("d", "", "Tea is hot. It cools.")
    says = Says(lambda _prompt: reply.decode("utf-8", "replace"))
    drawn = asyncio.run(ModelExtractor(says).write(Query("q", "Is tea hot?"), [document]))
    assert drawn.facts == []  # its labels are no labels


# --- what users type ------------------------------------------------------------------------------

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
    with contextlib.suppress(*OURS):
        gate = parse_gate(text, top_k=10)
        assert math.isfinite(gate.bound)
        assert gate.passes(0.5) in (True, False)
