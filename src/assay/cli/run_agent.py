"""`assay run-agent`: sends one request to an agent and shows the response."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.check import parse_inputs
from assay.cli.console import print_json, say
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.contract.client import AgentClient, AgentEvent
    from assay.contract.envelope import AgentRunRequest, AgentRunResponse


def run_agent(
    agent: Annotated[
        str,
        typer.Argument(metavar="NAME_OR_URL", help="A URL, or a name in AGENT_ENDPOINTS_JSON."),
    ],
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task type, e.g. RAG_RETRIEVE.")],
    inputs: Annotated[
        str,
        typer.Option(metavar="JSON", envvar="ASSAY_RUN_INPUTS", help="Inputs of the task."),
    ] = "{}",
    stream: Annotated[
        bool, typer.Option("--stream", help="Stream the run and show its progress.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the full response as JSON.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.001,
            envvar="ASSAY_RUN_TIMEOUT",
            help="Timeout of the run; also sent to the agent as its time budget.",
        ),
    ] = None,
    request_id: Annotated[
        str | None,
        typer.Option(help="Request id; the same id returns the same result. Default: a new one."),
    ] = None,
    mode: Annotated[str, typer.Option(help="DEMO or LIVE.")] = "DEMO",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the response to a file.")
    ] = None,
) -> None:
    """Send one request to an agent and print its result.

    AGENT_TOKEN, if set, is sent as a bearer token. Exits 0 when the run succeeded, 1 when
    it failed or broke the contract, 3 when the agent could not be reached or did not respond
    in time.
    """
    import asyncio

    request = _request(task, inputs, timeout, request_id, mode)
    response = asyncio.run(_dispatch(agent, request, stream=stream, timeout=timeout))
    if out is not None:
        _save(out, response)
    if json:
        print_json(response.to_wire())
    else:
        _print(response)
    raise typer.Exit(0 if response.ok else 1)


def _request(
    task: str, inputs: str, timeout: float | None, request_id: str | None, mode: str
) -> "AgentRunRequest":
    import uuid

    from pydantic import ValidationError

    from assay.contract.envelope import AgentRunRequest, field_problems

    fields = {
        "request_id": request_id or f"assay-{uuid.uuid4().hex}",
        "task_type": task,
        "inputs": parse_inputs(inputs),
        "mode": mode,
        "budgets": {} if timeout is None else {"timeout_ms": round(timeout * 1000)},
    }
    try:
        return AgentRunRequest.model_validate(fields)
    except ValidationError as error:
        problem = field_problems(error, AgentRunRequest)[0]
    raise UsageError(f"{problem['field']} {problem['problem']}")


async def _dispatch(
    agent: str, request: "AgentRunRequest", *, stream: bool, timeout: float | None
) -> "AgentRunResponse":
    from assay.contract.client import AgentClient, ClientLimits, read_endpoints, resolve_agent
    from assay.net.client import TOKEN_VARIABLE, token_for
    from assay.net.outbound import UNRESTRICTED

    # A little more than the agent has, so that its own report of an exceeded budget arrives.
    limits = ClientLimits()
    if timeout is not None:
        limits = ClientLimits(sync_s=timeout + 2, stream_s=timeout + 2)
    base = resolve_agent(agent, read_endpoints())
    auth = token_for(base, UNRESTRICTED, TOKEN_VARIABLE)
    async with AgentClient(limits=limits, auth=auth) as client:
        if stream:
            return await _follow(client, base, request)
        return await client.run_sync(base, request)


async def _follow(
    client: "AgentClient", agent: str, request: "AgentRunRequest"
) -> "AgentRunResponse":
    from contextlib import aclosing

    async with aclosing(client.run_stream(agent, request)) as events:
        async for event in events:
            if event.response is not None:
                return event.response
            say(_progress_line(event))
    raise AssertionError("a stream ends in a response or an error")


def _progress_line(event: "AgentEvent") -> str:
    shown = {
        name: value
        for name, value in event.data.items()
        if name not in ("type", "request_id", "task_type", "step")
        and isinstance(value, int | float | str)
    }
    words = [event.name, str(event.data.get("step", ""))]
    words += [f"{name}={value}" for name, value in shown.items()]
    return _one_line(" ".join(word for word in words if word))


def _one_line(text: str) -> str:
    """The agent's message on one line, so that it cannot imitate our own output."""
    return " ".join(text.split())


def _save(path: Path, response: "AgentRunResponse") -> None:
    import orjson

    try:
        path.write_bytes(orjson.dumps(response.to_wire()) + b"\n")
    except OSError as error:
        raise UsageError(f"--out: cannot write {str(path)!r}: {error.strerror}") from None


def _print(response: "AgentRunResponse") -> None:
    say(f"{response.status}  request_id={response.request_id}")
    for warning in response.warnings:
        say(_one_line(f"warning: {warning}"))
    if response.error is not None:
        say(_one_line(f"error: {response.error.code}: {response.error.message}"))
    if response.ok:
        print_json(response.to_wire()["outputs"])
