"""The models: defaults and aliases, nothing null, and errors that repeat nothing."""

from typing import Any

import orjson
import pytest
from pydantic import BaseModel, ValidationError

from assay.contract.envelope import (
    AgentRunRequest,
    GroundingChunk,
    GroundingPack,
    TaskError,
    error_response,
    read_inputs,
    succeeded,
    validate_fields,
)

CANARY = "canary-5f1c"
VALID = {"request_id": "r1", "task_type": "T"}


def request(**fields: Any) -> AgentRunRequest:
    return AgentRunRequest.model_validate({**VALID, **fields})


def test_null_and_unknown_fields_in_a_request_mean_nothing() -> None:
    read = request(mode=None, inputs=None, budgets={"timeout_ms": None}, added_next_year=1)
    assert read == request()


@pytest.mark.parametrize(
    "bad", ["", "\u00a0 \t", "a\nb", "x" * 257, "\x85", "\u200b", "a\u202eb", "\ufeffa", 5]
)
def test_an_id_that_could_break_a_log_line_is_refused(bad: Any) -> None:
    with pytest.raises(ValidationError):
        request(request_id=bad)


def test_a_response_never_holds_null() -> None:
    grounding = GroundingPack(chunks=[GroundingChunk(chunk_id="c1")])
    outputs = {"a": None, "b": [{"c": None, "d": 1}]}
    wire = succeeded(request(), outputs, grounding=grounding).to_wire()
    assert b"null" not in orjson.dumps(wire)
    assert wire["outputs"] == {"b": [{"d": 1}]}
    assert "error" not in wire
    assert wire["grounding"]["chunks"] == [{"chunk_id": "c1", "text": "", "metadata": {}}]


def test_a_number_that_json_cannot_say_is_an_error_and_not_a_null() -> None:
    with pytest.raises(ValueError, match="NaN"):
        succeeded(request(), {"scores": [float("inf")]}).to_wire()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"request_id": "r1"}, "task_type"),
        ({**VALID, "inputs": CANARY}, "inputs"),
        ({**VALID, "budgets": {"timeout_ms": CANARY}}, "budgets.timeout_ms"),
        ({**VALID, "budgets": {"max_tokens": 0}}, "budgets.max_tokens"),
        ([CANARY], "body"),
    ],
)
def test_a_validation_error_names_the_field_and_never_the_value(body: Any, field: str) -> None:
    with pytest.raises(TaskError) as caught:
        validate_fields(AgentRunRequest, body)
    answer = error_response(caught.value, request_id="r1").to_wire()
    assert [each["field"] for each in answer["error"]["details"]["fields"]] == [field]
    assert field in answer["error"]["message"]
    assert answer["error"]["code"] == "VALIDATION_ERROR"
    assert CANARY not in repr(answer)
    assert CANARY not in str(caught.value)


class PaperInputs(BaseModel):
    papers: dict[str, list[str]]


def test_a_key_of_the_caller_is_not_named() -> None:
    with pytest.raises(TaskError, match=r"^inputs\.papers\.\* should be a list$"):
        read_inputs(PaperInputs, request(inputs={"papers": {CANARY: 1}}))
