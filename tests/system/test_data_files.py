"""Files of questions, and logs of other tools: what is read, and what people are told about it."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from tests.system.conftest import Assay

AGENT = "def find(query, top_k):\n    return ['KB-12', 'KB-1', 'KB-2'][:top_k]\n"


def test_doubtful_ids_are_named_with_their_line(assay: Assay, tmp_path: Path) -> None:
    (tmp_path / "questions.csv").write_text("question,ids\nWhy?,KB-1\nHow?,K2 K3\nSure?,KB-3\n")
    (tmp_path / "agent.py").write_text(AGENT)
    warning = "ids that look like several (write ; between ids): 1, 'K2 K3' on line 3"
    checked = assay("data", "check", "questions.csv")
    assert warning in checked.stdout
    run = assay("eval", "python:agent:find", "--dataset", "questions.csv")
    assert warning in run.stderr


@pytest.mark.parametrize(
    "cell", ["KB-1;KB-2", "Vacation policy.md", "Chapter 2", "#12", "None of us"]
)
def test_usual_ids_raise_no_warning(assay: Assay, tmp_path: Path, cell: str) -> None:
    (tmp_path / "questions.csv").write_text(f"question,ids\nHow?,{cell}\n")
    assert assay("data", "check", "questions.csv", "--strict").returncode == 0


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("questions.xlsx", b"PK\x03\x04", "is a workbook, which is not read; save the sheet"),
        ("questions.csv", b"", "is empty; it needs a header and at least one row"),
        ("questions.csv", None, "questions.csv: no such file"),
    ],
)
@pytest.mark.parametrize("verb", [("data", "check"), ("eval", "builtin:bm25", "--dataset")])
def test_a_file_that_cannot_be_questions_is_named_for_what_it_is(
    assay: Assay, tmp_path: Path, name: str, content: bytes | None, said: str, verb: tuple[str, ...]
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    result = assay(*verb, name)
    assert result.returncode in (1, 2)
    assert said in result.stdout + result.stderr
    assert "BEIR" not in result.stdout + result.stderr


@pytest.mark.parametrize("words", [("eval", "app", "--json"), ("eval", "--json")])
def test_settings_of_a_folder_above(assay: Assay, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "questions.csv").write_text("question,ids\nHow?,KB-12\n")
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "assay.toml").write_text(
        'dataset = "questions.csv"\n[eval]\ntarget = "app"\nout = "results"\ntop_k = 2\n'
        '[target.app]\ntarget = "python:agent:find"\n'
    )
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    result = assay(*words, cwd=below)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["summary"]["mean_ndcg_at_2"] == 1.0
    assert len(list((tmp_path / "results").iterdir())) >= 1


QUESTION, ANSWER = "How long does green tea steep?", "Green tea steeps for 3 minutes."
TEXT = "Steep green tea for 3 minutes."


def scored(assay: Assay, path: Path, *words: str) -> tuple[dict[str, Any], dict[str, Any]]:
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


PROMPTFOO = {"vars": {"query": QUESTION, "context": TEXT}, "response": {"output": ANSWER}}
DEEPEVAL = {"input": QUESTION, "actualOutput": ANSWER, "retrievalContext": [TEXT], "name": "case_0"}
RESULTS: dict[str, dict[str, Any]] = {
    "promptfoo": {"evalId": "e", "results": {"version": 3, "results": [PROMPTFOO]}},
    "deepeval": {"testCases": [DEEPEVAL], "metricsScores": [{"metric": "Faithfulness"}]},
}


@pytest.mark.parametrize("tool", RESULTS)
def test_result_files_of_other_evaluators_are_read(assay: Assay, tmp_path: Path, tool: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(RESULTS[tool]))
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
    attributes = [{"key": key, "value": {"stringValue": text}} for key, text in values.items()]
    return {**head, "attributes": attributes}


def test_searches_of_a_trace_are_scored_against_a_data_set(assay: Assay, tmp_path: Path) -> None:
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
