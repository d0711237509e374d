"""The published schemas are those of the models."""

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from assay.contract.openapi import agent_operations, openapi_document, schema_files

FOLDER = Path(__file__).parents[2] / "docs" / "schemas"


def test_the_files_are_fresh() -> None:
    stored = {path.name: path.read_bytes() for path in FOLDER.glob("*.json")}
    assert stored == schema_files(), "run: python -m assay.contract.openapi docs/schemas"


@pytest.mark.parametrize("name", sorted(schema_files()))
def test_no_schema_offers_null(name: str) -> None:
    assert b"null" not in schema_files()[name]


def test_a_response_promises_what_is_always_sent() -> None:
    schema = orjson.loads(schema_files()["AgentRunResponse.json"])
    assert {"status", "request_id", "outputs", "ok"} <= set(schema["required"])
    assert not {"grounding", "error", "task_type"} & set(schema["required"])


def test_the_command_writes_the_files(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "assay.contract.openapi", str(tmp_path / "new")]
    subprocess.run(command, check=True)
    written = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    assert written == schema_files()


def test_the_command_without_a_folder_says_how_it_is_used() -> None:
    command = [sys.executable, "-m", "assay.contract.openapi"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage:")


def test_the_openapi_document_says_that_null_stands_for_an_absent_field() -> None:
    """Found by `make fuzz`: it was accepted, and the document did not say so."""
    document = openapi_document("agent", agent_operations("RAG_RETRIEVE"))
    fields = document["components"]["schemas"]["AgentRunRequest"]["properties"]
    null = {"type": "null"}
    nullable = {name for name, shape in fields.items() if null in shape.get("anyOf", ())}
    assert fields.keys() - nullable == {"request_id", "task_type"}
    budgets = document["components"]["schemas"]["Budgets"]["properties"]
    assert all(null in shape["anyOf"] for shape in budgets.values())
