"""The models: defaults and aliases, nothing null, and errors that repeat nothing."""

from typing import Any

import orjson
import pytest
from pydantic import BaseModel, ValidationError

from assay.contract.envelope import (
    AgentRunRequest,
    Budgets,
    ErrorCode,
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


def test_budgets_have_the_names_of_both_dialects() -> None:
    other = Budgets.model_validate({"max_tokens": 5, "max_time_ms": 7})
    assert other == Budgets.model_validate({"max_output_tokens": 5, "timeout_ms": 7})
    assert (other.max_output_tokens, other.timeout_ms) == (5, 7)


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


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_json_cannot_say_is_an_error_and_not_a_null(value: float) -> None:
    with pytest.raises(ValueError, match="NaN"):
        succeeded(request(), {"scores": [value]}).to_wire()


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
    query: str
    papers: dict[str, list[str]] = {}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"query": [CANARY]}, "inputs.query should be a string"),
        ({"query": "q", "papers": {CANARY: 1}}, "inputs.papers.* should be a list"),
    ],
)
def test_wrong_inputs_are_named_and_a_key_of_the_caller_is_not(inputs: Any, message: str) -> None:
    with pytest.raises(TaskError) as caught:
        read_inputs(PaperInputs, request(inputs=inputs))
    assert (caught.value.code, caught.value.message) == (ErrorCode.VALIDATION_ERROR, message)
