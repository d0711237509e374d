"""The shape of a response, as `assay check` judges it: each rule on the smallest bodies."""

from typing import Any

import pytest

from assay.contract.conformance.report import CheckVerdict
from assay.contract.conformance.response_shape import (
    echoed,
    failed_shape,
    has_outputs,
    indicates_success,
    indicators_agree,
    successful,
    type_problems,
    without_null,
)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"request_id": "r"}, None),
        ({}, "is missing"),
        ({"request_id": 7}, "not a non-empty string"),
        ({"request_id": ""}, "not a non-empty string"),
        ({"request_id": "R"}, "not the one that was sent, 'r'"),
    ],
)
def test_what_is_echoed(body: dict[str, Any], why: str | None) -> None:
    found = echoed(body, "request_id", "r")
    assert (found.verdict is CheckVerdict.PASS) is (why is None)
    assert why is None or why in found.detail


@pytest.mark.parametrize(
    ("body", "here", "in_stream"),
    [
        ({"status": "ok"}, True, True),
        ({"status": "success"}, True, True),
        ({"ok": True}, True, True),
        ({"success": True}, False, True),
        ({"ok": False}, False, False),
        ({"ok": 1}, False, False),
        ({"status": "done"}, False, False),
        ({}, False, False),
    ],
)
def test_what_says_success(body: dict[str, Any], here: bool, in_stream: bool) -> None:
    assert indicates_success(body, in_stream=False) is here
    assert indicates_success(body, in_stream=True) is in_stream
    assert (successful(body, in_stream=True).verdict is CheckVerdict.PASS) is in_stream


def test_a_run_that_failed_is_told_apart_from_one_that_says_nothing() -> None:
    reported = successful({"ok": False}, in_stream=False)
    assert reported.detail == "the agent reports that the run failed"
    assert "--inputs" in reported.remedy
    silent = {False: "status or ok does not say", True: "status, ok or success does not say"}
    for in_stream, words in silent.items():
        assert words in successful({}, in_stream=in_stream).detail


@pytest.mark.parametrize(
    ("body", "agree"),
    [
        ({"ok": True, "success": True, "status": "ok"}, True),
        ({"ok": False, "status": "error"}, True),
        ({"ok": True, "success": False}, False),
        ({"ok": True, "status": "error"}, False),
        ({"ok": False, "status": "success"}, False),
        ({"ok": False, "status": "unknown"}, True),
    ],
)
def test_indicators_must_agree(body: dict[str, Any], agree: bool) -> None:
    assert (indicators_agree(body).verdict is CheckVerdict.PASS) is agree


@pytest.mark.parametrize(
    ("body", "strict", "lenient"),
    [
        ({"outputs": {}}, True, True),
        ({"data": {}}, False, True),
        ({"outputs": []}, False, False),
        ({}, False, False),
    ],
)
def test_outputs_are_an_object(body: dict[str, Any], strict: bool, lenient: bool) -> None:
    assert (has_outputs(body, or_data=False).verdict is CheckVerdict.PASS) is strict
    assert (has_outputs(body, or_data=True).verdict is CheckVerdict.PASS) is lenient
    assert has_outputs({}, or_data=True).detail.startswith("outputs or data is")
    assert has_outputs({}, or_data=False).detail.startswith("outputs is")


def test_optional_fields_have_their_types_and_others_are_judged_apart() -> None:
    assert type_problems({"request_id": 7, "status": [], "outputs": "x", "warnings": []}) == []
    (problem,) = type_problems({"warnings": "none"})
    assert problem.startswith("warnings ")


def test_data_stands_for_outputs_in_a_stream_alone() -> None:
    failed = {"ok": False, "data": {}, "request_id": "r"}
    assert failed_shape(failed, "r", in_stream=True) == []
    assert failed_shape(failed, "r", in_stream=False) == ["outputs is missing or not an object"]


def test_null_is_found_in_the_envelope_and_not_in_what_belongs_to_the_task() -> None:
    body = {"usage": {"tokens": None}, "warnings": [None, {"a": None}], "outputs": {"x": None}}
    assert without_null([body]).detail == "null in usage.tokens, warnings[].a"
    assert without_null([{"outputs": {"x": None}}]).verdict is CheckVerdict.PASS


@pytest.mark.parametrize(
    ("body", "problems"),
    [
        ({"ok": False, "outputs": {}, "request_id": "r"}, []),
        ({"status": "error", "outputs": {}, "request_id": "r"}, []),
        ({"status": "ok", "outputs": {}, "request_id": "r"}, ["it reports success"]),
        ({"outputs": {}, "request_id": "r"}, ['no failure indicator (ok false, status "error")']),
        ({"ok": False, "request_id": "r"}, ["outputs is missing or not an object"]),
        ({"ok": False, "outputs": {}}, ["request_id is not echoed"]),
    ],
)
def test_what_a_failure_has_to_say(body: dict[str, Any], problems: list[str]) -> None:
    assert failed_shape(body, "r", in_stream=False) == problems
    assert failed_shape({**body, "request_id": 1}, "", in_stream=False) == [
        each for each in problems if "echoed" not in each
    ]
