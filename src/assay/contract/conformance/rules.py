"""The rules of the agent contract as data: what is demanded, where, and a test of it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from assay.contract.conformance import rule_tests as tests
from assay.contract.conformance.probes import AgentObservation, Exchange
from assay.contract.envelope import ErrorCode

CONTRACT_DOCUMENT = "Agent HTTP contract"
OUR_DOCUMENT = "docs/contract.md"


class RuleLevel(StrEnum):
    """Whose rule it is, the strictest first: the value is what reports and `--level` show."""

    MUST = "must"
    """The contract demands it."""
    SHOULD = "should"
    """The contract recommends it."""
    OURS = "ours"
    """The contract is silent; Assay's agents and its callers keep it."""

    def fails_at(self, threshold: "RuleLevel") -> bool:
        """Whether a broken rule of this level is a failure if `threshold` is the weakest."""
        order = list(RuleLevel)
        return order.index(self) <= order.index(threshold)


MUST, SHOULD, OURS = RuleLevel

Test = Callable[[Exchange, AgentObservation], str | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Parameters:
        name: its id, in reports and for `--skip`.
        level: whose rule it is.
        section: where it is written: of the contract, or of our page for a rule of ours.
        says: what is demanded.
        fix: what to change in an agent that breaks it.
        on: the responses that it is about, a key of `SELECTORS`.
        test: returns the problem with one response, or None.
    """

    name: str
    level: RuleLevel
    section: str
    says: str
    fix: str
    on: str
    test: Test

    @property
    def reference(self) -> str:
        """The document and the section in it."""
        document = OUR_DOCUMENT if self.level is OURS else CONTRACT_DOCUMENT
        return f"{document}, {self.section}"


# --- the rules ------------------------------------------------------------------------------------

_SHAPE = "request_id, ok: false, outputs: {}, warnings and error"
_TYPES = "docs/schemas/AgentRunResponse.json"

RULES: tuple[Rule, ...] = (
    Rule(
        "health",
        OURS,
        "Endpoints",
        "GET /health reports ok and the service name.",
        fix='Serve GET /health with {"status": "ok", "service": name} once the process is up.',
        on="health",
        test=tests.health_ok,
    ),
    Rule(
        "health-ready",
        OURS,
        "Endpoints",
        "GET /health/ready reports ready.",
        fix='Answer 200 {"status": "ready"} when the agent can work, 503 "degraded" before.',
        on="readiness",
        test=tests.ready_ok,
    ),
    Rule(
        "sync-status",
        MUST,
        "Overview + endpoints",
        "A valid sync request is answered with HTTP 2xx, within 15 s.",
        fix="Serve POST /agents/run/sync; offer a task that takes longer as a stream.",
        on="sync",
        test=tests.run_answered,
    ),
    Rule(
        "sync-json",
        MUST,
        "Sync response shape",
        "A sync response is a JSON object, by its content type as well.",
        fix="Send one complete JSON object with Content-Type: application/json.",
        on="sync",
        test=tests.json_body,
    ),
    Rule(
        "sync-request-id",
        MUST,
        "Sync response shape",
        "request_id echoes that of the request.",
        fix="Copy request_id from the request into the response.",
        on="sync result",
        test=partial(tests.id_echoed, "request_id"),
    ),
    Rule(
        "sync-outputs",
        MUST,
        "Sync response shape",
        "outputs is present and an object, even if empty.",
        fix="Send outputs as an object, {} if there is nothing to say.",
        on="sync result",
        test=tests.outputs_present,
    ),
    Rule(
        "sync-success",
        MUST,
        "Sync response shape",
        'A successful run reports it: status "ok" or "success", or ok true.',
        fix='Send status: "ok".',
        on="sync result",
        test=tests.success_reported,
    ),
    Rule(
        "sync-canonical",
        SHOULD,
        "Sync response shape",
        "A sync response has the canonical status, not only ok.",
        fix='Send status: "ok" as well.',
        on="sync result",
        test=tests.status_present,
    ),
    Rule(
        "sync-recommended",
        SHOULD,
        "Sync response shape",
        "artifacts, provenance, usage and warnings are there.",
        fix="Send them, empty if there is nothing to say.",
        on="sync result",
        test=tests.recommended_present,
    ),
    Rule(
        "stream-status",
        MUST,
        "Overview + endpoints",
        "A valid stream request is answered with HTTP 2xx and events.",
        fix="Serve POST /agents/run/stream and answer a run with HTTP 200 and its events.",
        on="stream",
        test=tests.run_answered,
    ),
    Rule(
        "stream-content-type",
        MUST,
        "SSE format",
        "A stream is text/event-stream.",
        fix="Send Content-Type: text/event-stream.",
        on="stream",
        test=tests.event_stream,
    ),
    Rule(
        "stream-framing",
        MUST,
        "SSE format",
        "Each event has event: and data: lines and ends with an empty line, in UTF-8.",
        fix="Write an event: line, data: lines and an empty line for each event.",
        on="events",
        test=tests.framing,
    ),
    Rule(
        "stream-json",
        MUST,
        "SSE format",
        "The data of each event is one JSON value.",
        fix="Write the data of each event with a JSON library.",
        on="events",
        test=tests.data_json,
    ),
    Rule(
        "stream-type",
        OURS,
        "The stream",
        "data repeats the event name as type.",
        fix='Add "type" with the name of the event to its data.',
        on="events",
        test=tests.type_repeated,
    ),
    Rule(
        "stream-started",
        SHOULD,
        "Required fields by event type",
        "A started event carries the request_id and the task_type.",
        fix="Copy both from the request into the data of started.",
        on="events",
        test=tests.started_ids,
    ),
    Rule(
        "stream-time",
        OURS,
        "The stream",
        "The first event comes within 10 s, no silence is over 15 s, and nothing is cut off.",
        fix="Flush started at once, and send a comment line (: heartbeat) while nothing happens.",
        on="events",
        test=tests.stream_timely,
    ),
    Rule(
        "stream-closes",
        MUST,
        "Stream invariant",
        "The stream ends with its terminal event.",
        fix="Close the response after the terminal event.",
        on="events",
        test=tests.stream_closed,
    ),
    Rule(
        "terminal-one",
        MUST,
        "Stream invariant",
        "Exactly one event is terminal (final, complete or done), and it is a JSON object.",
        fix="End each stream with one event named final, with the complete response as its data.",
        on="events",
        test=tests.one_terminal,
    ),
    Rule(
        "terminal-last",
        MUST,
        "Stream invariant",
        "The terminal event is the last one.",
        fix="Send nothing after the terminal event.",
        on="events",
        test=tests.terminal_last,
    ),
    Rule(
        "terminal-request-id",
        MUST,
        "Required fields by event type",
        "The terminal event echoes request_id.",
        fix="Copy request_id from the request into the terminal event.",
        on="terminal event",
        test=partial(tests.id_echoed, "request_id"),
    ),
    Rule(
        "terminal-task-type",
        MUST,
        "Required fields by event type",
        "The terminal event echoes task_type.",
        fix="Copy task_type from the request into the terminal event.",
        on="terminal event",
        test=partial(tests.id_echoed, "task_type"),
    ),
    Rule(
        "terminal-status",
        MUST,
        "Required fields by event type",
        "The terminal event has a status.",
        fix='Send status: "ok" in the terminal event.',
        on="terminal event",
        test=tests.status_present,
    ),
    Rule(
        "terminal-success",
        MUST,
        "Required fields by event type",
        "The terminal event of a successful run reports success.",
        fix='Send status: "ok" in the terminal event of a run that succeeded.',
        on="terminal event",
        test=tests.success_reported,
    ),
    Rule(
        "terminal-outputs",
        MUST,
        "Required fields by event type",
        "The terminal event has outputs or data, so that the result can be stored.",
        fix="Send outputs as an object in the terminal event.",
        on="terminal event",
        test=tests.outputs_present,
    ),
    Rule(
        "response-fields",
        OURS,
        "The response",
        "Optional fields have the types of AgentRunResponse.",
        fix=f"Give the named fields the types of {_TYPES}.",
        on="results and failures",
        test=tests.field_types,
    ),
    Rule(
        "response-no-null",
        OURS,
        "The response",
        "A field without a value is absent, never null.",
        fix="Leave the named fields out.",
        on="results and failures",
        test=tests.no_null,
    ),
    Rule(
        "response-indicators",
        OURS,
        "The response",
        "status, ok and success say the same.",
        fix="Derive ok and success from status.",
        on="results",
        test=tests.indicators_agree,
    ),
    Rule(
        "response-no-error",
        OURS,
        "The response",
        "A successful response has no error.",
        fix="Leave error out if the run succeeded; say what went wrong on the way in warnings.",
        on="results",
        test=tests.no_error_on_success,
    ),
    Rule(
        "required-fields",
        MUST,
        "Request schema",
        "A request without a request_id or task_type is not run.",
        fix="Validate the request before the run, and refuse it with HTTP 422.",
        on="missing field",
        test=tests.not_run,
    ),
    Rule(
        "malformed-request",
        OURS,
        "Errors",
        "A malformed request is refused with a contract-shaped 400 or 422.",
        fix=f"Replace the framework's own answer by one with {_SHAPE}.",
        on="malformed request",
        test=tests.request_refused,
    ),
    Rule(
        "unknown-task",
        MUST,
        "Overview + endpoints",
        "A task_type that is refused is refused with a contract-shaped 4xx.",
        fix=f"Answer HTTP 400 with {_SHAPE}.",
        on="refused task",
        test=tests.task_refused,
    ),
    Rule(
        "unknown-task-refused",
        OURS,
        "Errors",
        "A task_type that the agent does not do is refused.",
        fix="Compare task_type with the tasks of the agent before the run.",
        on="unknown task",
        test=tests.not_accepted,
    ),
    Rule(
        "sync-failed-run",
        MUST,
        "Sync response shape",
        "A failed run responds in the same shape, and says that it failed.",
        fix=f'Catch what the task raises and answer status: "error" with {_SHAPE}.',
        on="failed sync run",
        test=tests.failure_shape,
    ),
    Rule(
        "stream-failed-run",
        MUST,
        "Stream invariant",
        "A failed run still ends in exactly one terminal event that reports the failure.",
        fix='Send final with status: "error", ok: false and outputs: {} when the task raises.',
        on="failed stream",
        test=tests.failed_stream,
    ),
    Rule(
        "error-object",
        OURS,
        "Errors",
        "A failure has an error with a code and a message, and no outputs.",
        fix="Send error: {code, message} without text of the inputs, and outputs: {}.",
        on="failures",
        test=tests.error_object,
    ),
    Rule(
        "error-code",
        OURS,
        "Errors",
        "error.code is the contract's code for what went wrong.",
        fix=f"Use one of {', '.join(ErrorCode)}.",
        on="failures",
        test=tests.error_code,
    ),
    Rule(
        "no-echo",
        MUST,
        "PHI-safe logging rules",
        "No error response repeats text of the inputs.",
        fix="Name the field and what is wrong with it, never its value, as str(error) does.",
        on="errors",
        test=tests.no_echo,
    ),
    Rule(
        "budget-time",
        OURS,
        "The request",
        "A run ends when budgets.timeout_ms is used up.",
        fix="Cancel the work after timeout_ms and answer BUDGET_EXCEEDED or status degraded.",
        on="short time budget",
        test=tests.time_budget,
    ),
    Rule(
        "budget-tokens",
        OURS,
        "The request",
        "A request with budgets is run, with no more tokens than budgets.max_output_tokens.",
        fix="Pass the budget to the model as its limit, or answer BUDGET_EXCEEDED.",
        on="token budget",
        test=tests.token_budget,
    ),
)


def rules_table() -> str:
    """The table of docs/contract.md, which `make docs` writes."""
    rows = [
        f"| `{rule.name}` | {rule.level} | {rule.section} | {rule.says} | {rule.fix} |"
        for rule in RULES
    ]
    return "\n".join(["| rule | level | section | says | fix |", "|---|---|---|---|---|", *rows])
