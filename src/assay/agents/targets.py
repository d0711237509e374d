"""From what the user wrote (`builtin:bm25`, `python:module:function`, ...) to an agent."""

import re
from collections.abc import Mapping

from assay.agents.builtin import BuiltinAgent
from assay.agents.protocol import Agent
from assay.agents.python_call import PythonAgent, load_function
from assay.data.dataset import Dataset
from assay.errors import UsageError
from assay.progress import Progress, silent

BEST = "purple:hybrid"
KINDS = {
    "builtin": "builtin:bm25|dense|hybrid|tuned|tuned+dev[#PROVIDER]",
    "python": "python:module:function",
    "purple": "purple:hybrid",
    "a2a": "a2a:URL",
    "mcp": "mcp:URL[#tool]",
    "mcp-stdio": "mcp-stdio:COMMAND[#tool]",
    "nextcloud": "nextcloud:URL[#answer]",
    "http": "http:URL=TASK",
    "url": "http://... (probed)",
}


def open_target(
    target: str,
    dataset: Dataset,
    *,
    track: str = "undeclared",
    mapping: Mapping[str, str] | None = None,
    answers: bool = False,
    progress: Progress = silent,
) -> Agent:
    """`mapping` says what an MCP server's tool calls its fields (`--map`); `answers` whether the
    agent is to answer as well, which only the built-in ones need to be told.
    """
    _refuse_password(target)
    kind, _, rest = target.partition(":")
    if kind == "builtin":
        return BuiltinAgent(rest, dataset, answers=answers, progress=progress)
    if kind == "python":
        return PythonAgent(load_function(rest), name=target, track=track)
    if kind == "purple":
        from assay.agents.purple_process import PurpleProcess

        return PurpleProcess(rest or "hybrid", dataset, progress=progress)
    if kind == "a2a":
        return _a2a(rest, track)
    if kind in ("mcp", "mcp-stdio"):
        from assay.agents.mcp.target import McpAgent

        return McpAgent.at(target, mapping=mapping, known=dataset.documents, track=track)
    if kind == "nextcloud":
        from assay.agents.nextcloud import NextcloudAgent

        return NextcloudAgent.at(rest, answers=answers, known=dataset.documents, track=track)
    if kind in ("http", "https") and (agent := _contract(target, dataset, track)):
        return agent
    if kind in ("http", "https") and rest.startswith("//"):
        from assay.agents.probe import ProbedAgent

        return ProbedAgent(
            target,
            lambda found: open_target(
                found, dataset, track=track, mapping=mapping, answers=answers, progress=progress
            ),
        )
    known = ", ".join(KINDS.values())
    raise UsageError(f"cannot tell what target {target!r} is; a target looks like: {known}")


def _contract(target: str, dataset: Dataset, track: str) -> Agent | None:
    """`http:URL=TASK`; None for a bare address, which has no task."""
    from assay.agents.contract import ContractAgent, parse_contract_target

    parsed = parse_contract_target(target)
    if parsed is None:
        return None
    return ContractAgent(parsed, documents=dataset.documents.values(), track=track)


def _refuse_password(target: str) -> None:
    """A run is named after its target, and its files are shown around."""
    if re.search(r"https?://[^/?#\s]*@", target):
        raise UsageError(
            "a target's address must not hold a user name or password: they would end up in the "
            "run's name and report"
        )


def _a2a(rest: str, track: str) -> Agent:
    """`URL`, or `URL#stream` for an agent that is to stream its answers."""
    from assay.agents.a2a.target import A2AAgent

    url, _, way = rest.partition("#")
    if way not in ("", "stream"):
        raise UsageError(f"target 'a2a:...#{way}': after the address there may only be '#stream'")
    return A2AAgent(url, streaming=way == "stream", track=track)
