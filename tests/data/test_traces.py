"""Traces as logged answers.

`traces/langchain.json` and `traces/llama_index.json` were exported by opentelemetry-sdk 1.45.2 from
small applications with openinference-instrumentation-langchain 0.1.80 (langchain-core 1.7.2) and
openinference-instrumentation-llama-index 4.6.1 (llama-index-core 0.14.25).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.data import traces
from assay.data.text_file import Record
from assay.data.traces import read_log, span_rows, spans_of, trace_steps
from assay.errors import DataError
from assay.steps import SearchStep

TRACES = Path(__file__).with_name("traces")
TEA = {"id": "tea", "text": "Steep green tea for 3 minutes."}
TOOL: dict[str, Any] = {"openinference__span__kind": "TOOL"}
RETRIEVER: dict[str, Any] = {"openinference__span__kind": "RETRIEVER"}


def attribute(key: str, value: Any) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def span(name: str, parent: str = "", *, start: int = 0, **attributes: Any) -> dict[str, Any]:
    listed = [attribute(key.replace("__", "."), value) for key, value in attributes.items()]
    return {
        "traceId": "t1",
        "spanId": name,
        "parentSpanId": parent,
        "attributes": listed,
        "startTimeUnixNano": str(start),
    }


def export(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def trace_rows(exports: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return span_rows(span for each in exports for span in spans_of(each))


def fields(path: Path) -> list[dict[str, Any]]:
    return [row.fields for row in read_log(path) if isinstance(row, Record)]


def test_langchain_is_read_as_its_instrumentation_writes_it() -> None:
    first, second = fields(TRACES / "langchain.json")
    assert first["question"] == "How long does green tea steep?"
    assert first["answer"] == "Green tea steeps for 3 minutes [1]."
    assert [each["id"] for each in first["contexts"]] == ["tea.md", "coffee.md"]
    assert first["contexts"][0]["text"] == TEA["text"]
    assert (second["question"], second["answer"]) == ("Where is the key?", "I do not know.")


def test_llama_index_is_read_as_its_instrumentation_writes_it() -> None:
    (row,) = fields(TRACES / "llama_index.json")
    assert row["question"] == "How long does green tea steep?"
    assert row["answer"].startswith("text text")
    assert row["contexts"] == [TEA, {"id": "coffee", "text": "Coffee needs 92 degrees."}]


def test_the_lines_of_a_collector_belong_together(tmp_path: Path) -> None:
    root = span("a", start=1, input__value="How long?", output__value="3 minutes.")
    found = span("b", "a", start=2, retrieval__documents__0__document__content="3 minutes")
    path = tmp_path / "spans.jsonl"
    path.write_text(f"{json.dumps(export(found))}\n{json.dumps(export(root))}\n")
    answered = {"id": "t1", "question": "How long?", "answer": "3 minutes."}
    assert fields(path) == [answered | {"contexts": [{"id": "", "text": "3 minutes"}]}]


def test_the_genai_conventions_are_read() -> None:
    def message(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "parts": [{"type": "text", "content": text}]}

    asked = json.dumps([message("system", "Be short."), message("user", "How long?")])
    said = json.dumps([message("assistant", "3 min.")])
    documents = json.dumps([{"id": "tea", "content": TEA["text"], "score": 0.9}])
    spans = [
        span("a", start=1),
        span("b", "a", start=2, gen_ai__retrieval__documents=documents),
        span("c", "a", start=3, gen_ai__input__messages=asked, gen_ai__output__messages=said),
    ]
    (row,) = trace_rows([export(*spans)])
    assert row == {"id": "t1", "question": "How long?", "answer": "3 min.", "contexts": [TEA]}


@pytest.mark.parametrize(
    ("spans", "rows"),
    [
        ([{"input__value": json.dumps({"question": "How long?"}), "output__value": "3"}], 1),
        ([{"input__value": json.dumps({"query_bundle": {"query_str": "How long?"}})}], 1),
        ([{"kind": "embed"}], 0),
    ],
)
def test_a_question_is_found_in_json_and_a_trace_without_one_has_no_row(
    spans: list[dict[str, Any]], rows: int
) -> None:
    found = list(trace_rows([export(*(span("a", **each) for each in spans)), {}]))
    assert [row["question"] for row in found] == ["How long?"] * rows


def test_damaged_spans_are_survived() -> None:
    circle = [span("a", "b", start=1, input__value="How long?"), span("b", "a", start=2)]
    lost = [span(name, input__value=name) | {"traceId": ""} for name in "ab"]
    late = span("c", input__value="q") | {"traceId": "t2", "startTimeUnixNano": "9" * 5000}
    exports = [export(*circle, *lost, late), {"resourceSpans": [3]}, {"resourceSpans": None}]
    assert [row["question"] for row in trace_rows(exports)] == ["How long?", "q"]


def test_more_traces_than_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = json.dumps(export(span("a", input__value="x" * 800)))
    path = tmp_path / "traces.jsonl"
    path.write_text(f"{line}\n" * 10)
    monkeypatch.setattr(traces, "_MAX_BYTES", 5500)
    with pytest.raises(DataError, match=r"traces\.jsonl:6: has more than .* of traces"):
        list(read_log(path))


def steps_of(*spans: dict[str, Any]) -> tuple[SearchStep, ...]:
    root = span("root", input__value="How long?", output__value="3", start=1)
    ((_, question, steps),) = trace_steps(spans_of(export(root, *spans)))
    assert question == "How long?"
    return steps


def test_steps_are_in_start_order_with_ids_alone() -> None:
    listed = json.dumps([{"id": "b", "score": 0.5}])
    late = {
        "gen_ai__operation__name": "retrieval",
        "gen_ai__retrieval__documents": listed,
        "gen_ai__retrieval__query__text": "steep time",
    }
    result = json.dumps({"results": [{"doc_id": "a", "score": 1}, {"doc_id": "c", "score": 0}]})
    early = {
        "gen_ai__operation__name": "execute_tool",
        "gen_ai__tool__name": "search",
        "gen_ai__tool__call__arguments": '{"query": "tea", "top_k": 2}',
        "gen_ai__tool__call__result": result,
    }
    first = span("x", "root", start=2_000_000, **early) | {"endTimeUnixNano": "5500000"}
    steps = steps_of(span("y", "root", start=9_000_000, **late) | {"name": "kb"}, first)
    assert steps == (
        SearchStep("search", "tea", ("a", "c"), (1.0, 0.0), 3.5),
        SearchStep("kb", "steep time", ("b",), (0.5,), None),
    )


@pytest.mark.parametrize(
    ("result", "ids"),
    [
        ({"content": [{"type": "text", "text": '{"results": [{"id": 7}]}'}]}, ("7",)),
        ({"structuredContent": {"doc_ids": ["a", "b", "a"]}}, ("a", "b")),
        ([{"chunk_id": "c1"}, {"chunk_id": "c2"}], ("c1", "c2")),
    ],
)
def test_ids_are_found_in_the_result_of_a_tool(result: Any, ids: tuple[str, ...]) -> None:
    call = {**TOOL, "tool__name": "search", "output__value": json.dumps(result)}
    (step,) = steps_of(span("x", "root", input__value="tea", **call))
    assert (step.tool, step.query, step.doc_ids) == ("search", "tea", ids)


def test_a_tool_that_does_not_search_is_no_step_but_a_retriever_that_finds_nothing_is() -> None:
    assert steps_of(span("x", "root", output__value='{"sum": 4}', **TOOL)) == ()
    (step,) = steps_of(span("x", "root", input__value="q", **RETRIEVER))
    assert (step.query, step.doc_ids) == ("q", ())


def test_of_a_tool_and_its_retriever_the_outermost_with_ids_is_the_step() -> None:
    found = {**RETRIEVER, "retrieval__documents__0__document__id": "raw"}
    inner = span("in", "out", start=3, **found)
    for outer, ids in (
        ({**TOOL, "output__value": '{"doc_ids": ["kept"]}'}, ("kept",)),
        ({**TOOL, "output__value": "Tea steeps for 3 minutes."}, ("raw",)),
        (RETRIEVER, ("raw",)),
    ):
        outermost = span("out", "root", start=2, **outer)
        assert [step.doc_ids for step in steps_of(outermost, inner)] == [ids]
