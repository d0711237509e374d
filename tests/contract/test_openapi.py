"""The published schemas are those of the models."""

import orjson
import pytest
from scripts.render_schemas import rendered, stale

from assay.contract.openapi import agent_operations, openapi_document

SCHEMAS = {name: content for name, content in rendered().items() if "/" not in name}


def test_the_files_are_fresh() -> None:
    assert stale() == [], "run: python scripts/render_schemas.py"


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_no_schema_offers_null(name: str) -> None:
    assert b"null" not in SCHEMAS[name]


def test_a_response_promises_what_is_always_sent() -> None:
    schema = orjson.loads(SCHEMAS["AgentRunResponse.json"])
    assert {"status", "request_id", "outputs", "ok"} <= set(schema["required"])
    assert not {"grounding", "error", "task_type"} & set(schema["required"])


def test_the_openapi_document_says_that_null_stands_for_an_absent_field() -> None:
    """Found by `make fuzz`: it was accepted, and the document did not say so."""
    document = openapi_document("agent", agent_operations("RAG_RETRIEVE"))
    fields = document["components"]["schemas"]["AgentRunRequest"]["properties"]
    null = {"type": "null"}
    nullable = {name for name, shape in fields.items() if null in shape.get("anyOf", ())}
    assert fields.keys() - nullable == {"request_id", "task_type"}
    budgets = document["components"]["schemas"]["Budgets"]["properties"]
    assert all(null in shape["anyOf"] for shape in budgets.values())
