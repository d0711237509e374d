"""Logs of other tools as `assay score` reads them, or says how it would."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from tests.system.conftest import Assay

QUESTION, ANSWER = "How long does green tea steep?", "Green tea steeps for 3 minutes."
TEXT = "Steep green tea for 3 minutes."


def scored(assay: Assay, path: Path, *words: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The report of the answers, and the first row."""
    result = assay("score", path.name, "--json", "--out", "rows.jsonl", *words)
    assert result.returncode == 0, result.stderr
    row = json.loads((path.parent / "rows.jsonl").read_text().splitlines()[0])
    return json.loads(result.stdout)["answers"], row


def write_csv(path: Path, row: dict[str, Any]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(row)
        writer.writerow(
            each if isinstance(each, str) else json.dumps(each) for each in row.values()
        )


def test_retrieved_ids_without_content_are_kept(assay: Assay, tmp_path: Path) -> None:
    documents = json.dumps([{"id": "tea", "score": 0.9}, {"id": "ice", "score": 0.1}])
    values = {"input.value": QUESTION, "output.value": f"{ANSWER} [tea] [cake]"}
    spans = [
        {"traceId": "t", "spanId": "a", "attributes": _attributes(values)},
        {
            "traceId": "t",
            "spanId": "b",
            "parentSpanId": "a",
            "attributes": _attributes({"gen_ai.retrieval.documents": documents}),
        },
    ]
    path = tmp_path / "spans.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    report, row = scored(assay, path)
    assert [each.rpartition(":")[2] for each in row["retrieved_docs"]] == ["tea", "ice"]
    assert "faithfulness" not in report["metrics"]


def _attributes(values: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


def test_json_cells_of_langfuse_are_read(assay: Assay, tmp_path: Path) -> None:
    path = tmp_path / "traces.csv"
    documents = [{"id": "tea", "content": TEXT}]
    output = {"answer": ANSWER, "documents": documents}
    write_csv(path, {"id": "1", "input": {"question": QUESTION}, "output": output})
    report, row = scored(assay, path)
    assert row["answer"] == ANSWER
    assert report["metrics"]["faithfulness"] == 1.0


def test_columns_reach_into_json_cells(assay: Assay, tmp_path: Path) -> None:
    path = tmp_path / "traces.csv"
    steps = {"steps": [{"page": {"content": TEXT}}, {"page": {"content": "Coffee is hot."}}]}
    write_csv(path, {"id": "1", "prompt": {"text": QUESTION}, "said": ANSWER, "trace": steps})
    columns = "question=prompt.text,answer=said,contexts=trace.steps[].page.content"
    report, row = scored(assay, path, "--columns", columns)
    assert len(row["retrieved_docs"]) == 2
    assert report["metrics"]["faithfulness"] == 1.0
    wrong = assay("score", path.name, "--columns", columns.replace("steps[]", "step[]"))
    assert "has no 'step' of --columns 'trace.step[].page.content', only ['steps']" in wrong.stderr


@pytest.mark.parametrize(
    "content",
    [
        {
            "evalId": "e",
            "results": {
                "version": 3,
                "results": [
                    {
                        "vars": {"query": QUESTION, "context": TEXT},
                        "response": {"output": ANSWER, "cached": False},
                        "success": True,
                    }
                ],
            },
        },
        {
            "testCases": [
                {
                    "name": "case_0",
                    "input": QUESTION,
                    "actualOutput": ANSWER,
                    "expectedOutput": ANSWER,
                    "retrievalContext": [TEXT],
                }
            ],
            "metricsScores": [{"metric": "Faithfulness", "scores": [1.0]}],
        },
    ],
    ids=["promptfoo", "deepeval"],
)
def test_result_files_of_other_evaluators_are_read(
    assay: Assay, tmp_path: Path, content: dict[str, Any]
) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(content))
    report, row = scored(assay, path)
    assert row["answer"] == ANSWER
    assert report["metrics"]["faithfulness"] == 1.0


def test_an_unknown_layout_is_refused_with_a_mapping(assay: Assay, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"results": [{"ask": {"q": QUESTION}, "output": {"a": ANSWER}}]}))
    result = assay("score", path.name)
    assert result.returncode == 2
    assert "only 'ask.q', 'output.a'; " in result.stderr
    assert "--columns question=" in result.stderr
    assert scored(assay, path, "--columns", "question=ask.q,answer=output.a")[1]["answer"] == ANSWER


def _span(name: str, parent: str, values: dict[str, str], start: int) -> dict[str, Any]:
    head = {"traceId": "t", "spanId": name, "parentSpanId": parent, "startTimeUnixNano": str(start)}
    return {**head, "attributes": _attributes(values)}


def test_the_searches_of_a_trace_are_scored_against_a_data_set(
    assay: Assay, tmp_path: Path
) -> None:
    (tmp_path / "questions.csv").write_text(f"query,doc_ids\n{QUESTION},tea;pot\nWhere?,key\n")

    def search(name: str, query: str, ids: list[str], start: int) -> dict[str, Any]:
        values = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.arguments": json.dumps({"query": query}),
            "gen_ai.tool.call.result": json.dumps({"results": [{"id": each} for each in ids]}),
        }
        return _span(name, "a", values, start)

    root = _span("a", "", {"input.value": QUESTION, "output.value": ANSWER}, 1)
    other = {**_span("z", "", {"input.value": "What else?"}, 1), "traceId": "u"}
    searches = [search("c", "green tea", ["pot"], 3), search("b", "tea", ["ice", "tea"], 2)]
    spans = [*searches, root, other]
    path = tmp_path / "spans.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    result = assay("score", "spans.json", "--dataset", "questions.csv", "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["questions"], found["of"], found["unknown"]) == (1, 2, 1)
    figures = {name: figure["mean"] for name, figure in found["search"]["figures"].items()}
    assert (figures["calls"], figures["evidence_recall"]) == (2.0, 1.0)
    assert found["search"]["attribution"] == "reported"
    assert [point["mean"] for point in found["search"]["curve"]] == [0.5, 1.0]
    assert found["metrics"]["recall@10"] == 1.0
    shown = " ".join(assay("score", "spans.json", "--dataset", "questions.csv").stdout.split())
    assert "reported by the agent" in shown
    assert "1 of 2 questions" in shown
    none = assay("score", "spans.json", "--dataset", "notes")
    assert (none.returncode, "none of its 2 traces asks a question" in none.stderr) == (2, True)
