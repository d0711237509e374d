"""The shape of a response, as `assay check` judges it: each rule on the smallest bodies."""

from typing import Any

import pytest

from assay.contract.conformance.exchange import Exchange, SentRequest
from assay.contract.conformance.probes import AgentObservation, CheckLimits
from assay.contract.conformance.report import CheckVerdict
from assay.contract.conformance.sync_checks import (
    SYNC_CHECKS,
    echoed,
    failed_shape,
    has_outputs,
    has_status,
    indicates_success,
    indicators_agree,
    refused_run,
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


@pytest.mark.parametrize(
    ("body", "there"),
    [({"status": "done"}, True), ({"status": ""}, False), ({"status": 1}, False), ({}, False)],
)
def test_a_status_is_a_text_that_is_not_empty(body: dict[str, Any], there: bool) -> None:
    assert (has_status(body).verdict is CheckVerdict.PASS) is there


def exchange(status: int | None = 200, body: bytes = b"{}", **more: Any) -> Exchange:
    sent = SentRequest("POST", "http://agent/agents/run/sync")
    given = {"media_type": "application/json", **more}
    return Exchange("r", sent, status, chunks=((0.0, body),), **given)


@pytest.mark.parametrize(
    ("statuses", "remedy"),
    [
        ((429, 502, 503, 504), "is busy or not up"),
        ((500, 505), "crashed on a valid request"),
        ((400, 422), "pass others with --inputs"),
        ((300, 307, 399), "Check the address that it redirects to"),
        ((404, 405, 410, 501), "There is no agent at this path"),
    ],
)
def test_a_status_of_a_refused_run_has_its_remedy(statuses: tuple[int, ...], remedy: str) -> None:
    for status in statuses:
        assert remedy in refused_run(exchange(status), "/agents/run/sync").remedy


@pytest.mark.parametrize("status", [None, 299, 402, 409, 423, 428, 430, 499])
def test_other_statuses_of_a_refused_run_have_none(status: int | None) -> None:
    assert refused_run(exchange(status), "/agents/run/sync").remedy == ""


def test_a_web_page_in_place_of_the_agent_is_named() -> None:
    page = refused_run(exchange(200, b"<html>"), "/agents/run/sync")
    assert page.detail == "POST /agents/run/sync answered HTTP 200 with a web page"
    missing = refused_run(exchange(404), "/agents/run/sync")
    assert missing.detail == "POST /agents/run/sync answered HTTP 404"


PAGE = b"<!doctype html>"
GOOD = b'{"request_id": "r", "task_type": "T", "status": "ok", "outputs": {}}'
PASSED, FAILED, NOTHING = CheckVerdict.PASS, CheckVerdict.FAIL, CheckVerdict.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("run", "verdicts"),
    [
        (exchange(200, GOOD), (PASSED, PASSED, PASSED, PASSED, PASSED)),
        (exchange(200, PAGE), (FAILED, PASSED, NOTHING, NOTHING, NOTHING)),
        (exchange(500, GOOD), (FAILED, PASSED, NOTHING, NOTHING, NOTHING)),
        (exchange(200, b"[]"), (PASSED, PASSED, PASSED, FAILED, NOTHING)),
        (exchange(None, b"", failure="reset"), (FAILED, NOTHING, NOTHING, NOTHING, NOTHING)),
        (
            exchange(None, b"", failure="late", timed_out=True),
            (NOTHING, FAILED, NOTHING, NOTHING, NOTHING),
        ),
        (
            exchange(200, b"{", failure="late", timed_out=True),
            (PASSED, FAILED, PASSED, NOTHING, NOTHING),
        ),
        (exchange(200, b"{", failure="cut"), (PASSED, NOTHING, PASSED, FAILED, NOTHING)),
        (
            exchange(200, GOOD, media_type="application/problem+json"),
            (PASSED, PASSED, PASSED, PASSED, PASSED),
        ),
        (exchange(200, GOOD, media_type="text/plain"), (PASSED, PASSED, FAILED, PASSED, PASSED)),
    ],
)
def test_what_is_said_of_a_response_that_is_late_broken_or_no_json(
    run: Exchange, verdicts: tuple[CheckVerdict, ...]
) -> None:
    names = ("sync-status", "sync-time", "sync-content-type", "sync-json", "sync-task-type")
    assert judged(run, *names) == verdicts


def judged(
    run: Exchange,
    *names: str,
    repeated: Exchange | None = None,
    reused: Exchange | None = None,
) -> tuple[CheckVerdict, ...]:
    seen = AgentObservation(
        *("T", "canary", "key", CheckLimits(), run, run),
        run={"sync": run},
        repeated=repeated,
        reused=reused,
    )
    checks = {check.name: check for check in SYNC_CHECKS}
    return tuple(checks[name].judge(seen).verdict for name in names)


def test_optional_fields_are_judged_where_they_are() -> None:
    names = ("sync-task-type", "sync-recommended")
    assert judged(exchange(200, b"{}"), *names) == (NOTHING, FAILED)
    other = b'{"task_type": "t", "artifacts": [], "provenance": {}, "usage": {}, "warnings": []}'
    assert judged(exchange(200, other), *names) == (FAILED, PASSED)


def test_a_repeated_request_has_the_same_response_and_a_used_id_is_refused() -> None:
    good, other = exchange(200, GOOD), exchange(200, b"{}")

    def said(repeated: Exchange | None, reused: Exchange | None) -> tuple[CheckVerdict, ...]:
        names = ("repeat-same-answer", "reused-id-refused")
        return judged(good, *names, repeated=repeated, reused=reused)

    assert said(None, None) == (NOTHING, NOTHING)
    assert said(good, exchange(409)) == (PASSED, PASSED)
    assert said(other, exchange(410)) == (FAILED, FAILED)
    assert said(exchange(500, GOOD), other) == (FAILED, FAILED)
    assert judged(exchange(200, b"[]"), "repeat-same-answer", repeated=good) == (NOTHING,)
