"""Targets (`builtin:bm25`, `a2a:URL`, ...): the table of their kinds, parsing, and opening.

open_target("rest:http://localhost:8000/search?q={query}", OpenContext(dataset))
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import RATE_LIMITED, FailureKind, UsageError, closest, did_you_mean
from assay.llm.provider_kinds import split_provider
from assay.net.outbound import (
    VARIABLE,
    OutboundPolicy,
    OutboundRefused,
    policy_of_process,
    split_address,
)
from assay.net.redact import full_text, mask_secrets, reveal
from assay.progress import Progress, silent
from assay.search import MODES

if TYPE_CHECKING:
    from assay.data.dataset import Dataset
    from assay.search.bm25 import Bm25Settings
    from assay.search.embedding import EmbedderSettings
    from assay.targets.protocol import Agent

DEFAULT_TARGET = "purple:hybrid"
# With answers, in process: --counterfactuals asks again with other documents, which A2A cannot.
DEFAULT_ANSWERING_TARGET = "builtin:hybrid"

# `http:URL=TASK` or `http:NAME=TASK`; an address needs no prefix, since it has a scheme.
CONTRACT_TARGET = re.compile(
    r"(?:(?P<url>https?://[^=#?]+)|http:(?P<agent>[^=#?]+))=(?P<task>[^=#/?]+)(?P<way>#stream)?",
    re.IGNORECASE,
)

_BARE_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_CREDENTIALS = re.compile(r"https?://[^/?#\s]*@", re.IGNORECASE)
_WHOLE = r"(?P<address>.*)"
# The last `#` counts, and only before a tool's name.
_BEFORE_TOOL = r"(?P<address>.*?)(?:(?<=.)#(?P<fragment>[A-Za-z0-9_.:/-]{1,128}))?"
_AFTER_METHOD = r"(?:(?P<fragment>[A-Za-z]{3,10}) +(?=\S*://))?(?P<address>.*)"
_ANSWER_FORM = ("mapping",)
_RETRIEVER = ("embedder", "bm25")

# What to do about a failed call, by its HTTP status, else by its kind.
_REMEDIES: Mapping[str | int, str] = {
    FailureKind.TIMEOUT: "make the agent faster, or raise --timeout",
    FailureKind.CONNECTION: "check that the agent is running and that no proxy is in the way",
    FailureKind.PROTOCOL: "fix the agent's responses; the protocol's own library would help",
    FailureKind.INVALID_ANSWER: 'answer with one data part {"doc_ids": ["id", ...]}',
    FailureKind.AGENT_ERROR: "the agent itself failed: look into its log",
    401: "set AGENT_TOKEN to a token that the agent accepts",
    404: "nothing is at this path: check the URL",
    RATE_LIMITED: "the agent is at its limit: lower --concurrency, or raise the limit",
    503: "the agent is loading or overloaded: wait, raise --warm-up, or lower --concurrency",
}

_MCP_REMEDIES = {401: "set MCP_SERVER_TOKEN to a token that the server accepts"}
_FUNCTION_REMEDIES = {
    FailureKind.TIMEOUT: "make the function faster, or raise --timeout",
    FailureKind.CONNECTION: "check that the service which the function calls is running",
    FailureKind.INVALID_ANSWER: "return a list of document ids, best first, or "
    '{"doc_ids": [...], "answer": "..."}',
    FailureKind.AGENT_ERROR: "fix the function at the line in the message",
}
_REQUEST_REMEDIES: Mapping[str | int, str] = {
    401: "send a token that the service accepts: --header 'Authorization: Bearer $TOKEN'",
    FailureKind.PROTOCOL: "compare the URL, --request and --header with what the service expects",
    FailureKind.INVALID_ANSWER: "name the ids with --map ids=EXPR, or write a function: "
    "docs/targets.md, 'Other services'",
}


@dataclass(frozen=True, slots=True)
class Target:
    """A target, parsed once.

    `address` is what its kind opens (a URL, a command, `module:function`, a mode), `fragment` what
    follows the `#` or, of `rest:`, the method, `text` what was written.
    """

    kind: str
    address: str
    fragment: str = ""
    text: str = ""

    def __str__(self) -> str:
        """The normal form, which parses to the same target."""
        if self.kind == "rest":
            return f"rest:{f'{self.fragment} ' if self.fragment else ''}{self.address}"
        prefix = "" if self.kind == "url" else f"{self.kind}:"
        return f"{prefix}{self.address}" + (f"#{self.fragment}" if self.fragment else "")


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """`--request` (JSON or `@FILE`), `--header` (`Name: value` each) and `--preset NAME:INDEX`."""

    body: str = ""
    headers: tuple[str, ...] = ()
    preset: str = ""
    index: str = ""


@dataclass(frozen=True)
class OpenContext:
    """What a target may need to be opened: `OpenContext(dataset, mapping={"ids": "hits[].id"})`."""

    dataset: "Dataset"
    track: str = "undeclared"
    mapping: Mapping[str, str] | None = None
    answers: bool = False
    note_mapping: Path | None = None
    progress: Progress = silent
    policy: OutboundPolicy = field(default_factory=policy_of_process)
    bm25: "Bm25Settings | None" = None
    embedder: "EmbedderSettings | None" = None
    request: RequestSettings = RequestSettings()


@dataclass(frozen=True)
class TargetKind:
    """One kind of target.

    `agent` is the `module:name` of what makes the agent from the target and the context; of a
    plug-in, from the address and the context. With `runs_code`, evaluating it runs code that the
    target names, or starts a process. `reaches` returns the network addresses that it contacts,
    `reads` the local files and variables that the target names. `split` has one group `address` and
    may have one `fragment`. `settings` are the options of a run that only some kinds use.
    """

    name: str
    syntax: str
    description: str
    agent: str
    is_plugin: bool = False
    runs_code: bool = False
    reaches: Callable[[Target], tuple[str, ...]] = lambda target: (target.address,)
    reads: Callable[[Target], tuple[str, ...]] = lambda _target: ()
    examples: tuple[str, ...] = ()
    split: str = r"(?P<address>[^#]*)#?(?P<fragment>.*)"
    searches_dataset: bool = False
    speaks_mcp: bool = False
    settings: tuple[str, ...] = ()
    remedies: Mapping[Any, str] = field(default_factory=dict)

    def open(self, target: Target, context: OpenContext) -> "Agent":
        """The agent, not yet connected. Raises `UsageError` for a target that cannot be one."""
        module, _, name = self.agent.partition(":")
        make = getattr(import_module(module), name)
        agent: Agent = make(target.address if self.is_plugin else target, context)
        return agent


def remedy_for(failure: str, status: int | None = None, kind: TargetKind | None = None) -> str:
    """What to do about a call that failed: by its HTTP status, else by the kind of the failure."""
    remedies = {**_REMEDIES, **(kind.remedies if kind else {})}
    return remedies.get(401 if status == 403 else status or 0) or remedies[failure]


def find_kind(name: str) -> TargetKind | None:
    """The kind with this prefix, also one that an installed package adds.

    That is an entry point of the group `assay.targets`: its name is the prefix, its value `agent`.
    """
    if name not in TARGET_KINDS:
        for point in entry_points(group="assay.targets", name=name):
            TARGET_KINDS[name] = TargetKind(
                name=name,
                syntax=f"{name}:ADDRESS",
                description=f"{point.value}, an installed plug-in",
                agent=point.value,
                is_plugin=True,
                runs_code=True,
                reaches=lambda _target: (),
                split=_WHOLE,
            )
    return TARGET_KINDS.get(name)


def require_mode(mode: str) -> None:
    """Raises `UsageError` if `builtin:MODE` is not a target."""
    if mode not in MODES:
        known = [f"builtin:{each}" for each in MODES]
        hint = did_you_mean(f"builtin:{mode}", known)
        raise UsageError(f"there is no target 'builtin:{mode}'; use {', '.join(known)}{hint}")


def builtin_track(mode: str, declared: str) -> str:
    """How Assay's own retriever learned: its settings may have been chosen on judgments, which
    only the user knows. `tuned` always learns from them."""
    return "trained" if mode == "tuned" or declared == "trained" else "zero-shot"


def unused_in_mode(target: Target) -> tuple[str, ...]:
    """The settings of Assay's own retriever that this mode of it has no use for."""
    unused = {"bm25": ("embedder",), "dense": ("bm25",)}
    return unused.get(target.address, ()) if TARGET_KINDS[target.kind].searches_dataset else ()


def no_effect(flag: str, setting: str, kind: TargetKind) -> str:
    """That a kind of target does not use a setting, and which do."""
    users = [each.name for each in TARGET_KINDS.values() if setting in each.settings]
    names = ", ".join(f"{name}:" for name in users if name != "url")
    own = ", which has its own search" if setting in _RETRIEVER else ""
    return f"{flag} has no effect on a {kind.name}: target{own}; leave it out, or use {names}"


def parse_target(text: str) -> Target:
    """Read what a user wrote. Prefixes and URL schemes are accepted in any case.

    Raises `UsageError`, with a list of the kinds and the likeliest one, for anything else.
    """
    written = full_text(text).strip()
    prefix, colon, rest = written.partition(":")
    kind = find_kind(prefix.lower()) if colon else None
    if _BARE_ADDRESS.match(written):
        # A place for the query makes an address a request.
        name = "rest" if "{query}" in written else "url"
        kind = TARGET_KINDS["http" if CONTRACT_TARGET.fullmatch(written) else name]
        rest = written
    elif kind is None or kind.name == "url":
        shown = redact_target(text.strip())
        message = f"unknown target {shown!r}; a target has one of these forms: {targets_help()}"
        near = closest(prefix.lower(), [name for name in TARGET_KINDS if name != "url"])
        meant = f"{near}:{rest}" if near and rest else ""
        if written in MODES:
            meant = f"builtin:{written}"
        if Path(written).suffix in (".csv", ".tsv", ".jsonl", ".parquet"):
            message += f". {shown!r} is a table: pass it as --dataset"
        raise UsageError(f"{message}. Did you mean {redact_target(meant)!r}?" if meant else message)
    found = re.fullmatch(kind.split, rest, re.DOTALL)
    assert found is not None  # the address may be anything
    parts = found.groupdict("")
    address = parts["address"]
    if scheme := _BARE_ADDRESS.match(address):
        address = scheme[0].lower() + address[scheme.end() :]
    return Target(kind.name, address, parts.get("fragment", ""), text)


def open_target(target: str | Target, context: OpenContext) -> "Agent":
    """The agent that a target names, not yet connected."""
    parsed = parse_target(reveal(target)) if isinstance(target, str) else target
    if _CREDENTIALS.search(str(parsed)):
        raise UsageError(
            "a target URL must not contain a user name or password: they would appear "
            "in the run's name and report"
        )
    check_permitted(parsed, context.policy)
    return TARGET_KINDS[parsed.kind].open(parsed, context)


def check_permitted(target: Target, policy: OutboundPolicy) -> None:
    """Raise `UsageError` for targets that only the user of this machine may evaluate: those that
    run code, start a process, read a file, or contact a host that `policy` does not name.
    """
    if not policy.public_only:
        return
    kind = TARGET_KINDS[target.kind]
    shown = redact_target(target.text or str(target))
    if kind.runs_code or kind.reads(target):
        raise UsageError(
            f"target {shown!r} would run code, start a process or read a file on this "
            "server, which is allowed only on 127.0.0.1"
        )
    for address in kind.reaches(target):
        host, port = split_address(address)
        try:
            policy.check_url(address)
        except OutboundRefused as error:
            raise UsageError(str(error)) from None
        if not policy.names(host, port):
            raise UsageError(
                f"{host!r} is not an allowed host of this server; its operator "
                f"can add it with --allow-hosts or {VARIABLE}"
            )


def redact_target(text: str) -> str:
    """A target as it may be shown: without passwords, keys in a URL, and secrets in a command."""
    return str(mask_secrets(text))


def targets_help() -> str:
    """The kinds of targets in one line, for help texts and messages."""
    return ", ".join(kind.syntax for kind in TARGET_KINDS.values())


def _variables(target: Target) -> tuple[str, ...]:
    return tuple(re.findall(r"\$\{(\w+)\}", target.address))


def _contract_address(target: Target) -> tuple[str, ...]:
    from assay.contract.client import read_endpoints, resolve_agent

    return (resolve_agent(target.address.rpartition("=")[0], read_endpoints()),)


def provider_addresses(spec: str) -> tuple[str, ...]:
    """Addresses in the name of a language model, as in `openai:MODEL@URL`."""
    kind, rest = split_provider(spec)
    address = rest.partition("@")[2]
    if kind is None or kind.in_process or not address:
        return ()
    return (address if "://" in address else f"http://{address}",)


def provider_files(spec: str) -> tuple[str, ...]:
    """Files in the name of a language model, as in `gguf:FILE`."""
    kind, rest = split_provider(spec)
    return (rest,) if kind is not None and kind.in_process and rest else ()


_KINDS = (
    TargetKind(
        name="builtin",
        syntax=f"builtin:{'|'.join(MODES)}[#PROVIDER]",
        description="Assay's own retriever, in process; #PROVIDER selects the model that writes "
        "answers",
        agent="assay.targets.builtin:BuiltinAgent",
        reaches=lambda target: provider_addresses(target.fragment),
        reads=lambda target: provider_files(target.fragment),
        examples=tuple(f"builtin:{mode}" for mode in MODES),
        searches_dataset=True,
        settings=_RETRIEVER,
        speaks_mcp=True,
    ),
    TargetKind(
        name="python",
        syntax="python:module:function",
        description="a function f(query, top_k) that returns document ids, an object with such a "
        "method ask, or a retriever",
        agent="assay.targets.python_call:python_agent",
        runs_code=True,
        reaches=lambda _target: (),
        examples=("python:my_search:find",),
        split=_WHOLE,
        remedies=_FUNCTION_REMEDIES,
    ),
    TargetKind(
        name="purple",
        syntax="purple:hybrid",
        description="the reference agent in a separate process, over A2A",
        agent="assay.targets.builtin:PurpleProcess",
        runs_code=True,
        reaches=lambda _target: (),
        examples=("purple:hybrid",),
        searches_dataset=True,
        settings=_RETRIEVER,
    ),
    TargetKind(
        name="a2a",
        syntax="a2a:URL[#stream|#text]",
        description="an A2A agent, protocol 0.3 or 1.0; #text sends the query without JSON",
        agent="assay.targets.a2a:A2AAgent",
        examples=("a2a:http://localhost:9010",),
        settings=_ANSWER_FORM,
    ),
    TargetKind(
        name="mcp",
        syntax="mcp:URL[#tool]",
        description="an MCP server with a search tool",
        agent="assay.targets.mcp:mcp_agent",
        examples=("mcp:http://localhost:8000/mcp",),
        split=_BEFORE_TOOL,
        speaks_mcp=True,
        settings=_ANSWER_FORM,
        remedies=_MCP_REMEDIES,
    ),
    TargetKind(
        name="mcp-stdio",
        syntax="mcp-stdio:COMMAND[#tool]",
        description="an MCP server started by a command, over stdio",
        agent="assay.targets.mcp:mcp_agent",
        runs_code=True,
        reaches=lambda _target: (),
        examples=("mcp-stdio:uvx my-server",),
        split=_BEFORE_TOOL,
        speaks_mcp=True,
        settings=_ANSWER_FORM,
    ),
    TargetKind(
        name="nextcloud",
        syntax="nextcloud:URL[#answer]",
        description="the search of a Nextcloud MCP server over uploaded notes",
        agent="assay.targets.nextcloud:NextcloudAgent",
        examples=("nextcloud:http://localhost:8000",),
        speaks_mcp=True,
        remedies=_MCP_REMEDIES,
    ),
    TargetKind(
        name="http",
        syntax="http:URL=TASK[#stream]",
        description="an agent that implements the HTTP agent contract",
        agent="assay.targets.contract:ContractAgent",
        reaches=_contract_address,
        examples=("http:http://localhost:8000=RAG_RETRIEVE",),
    ),
    TargetKind(
        name="rest",
        syntax="rest:[METHOD ]URL",
        description="any search service over HTTP; {query} and {top_k} stand in the URL or body",
        agent="assay.targets.rest:RestAgent",
        reads=_variables,
        split=_AFTER_METHOD,
        examples=("rest:http://localhost:9200/docs/_search?q={query}&size={top_k}",),
        settings=(*_ANSWER_FORM, "request", "headers", "preset"),
        remedies=_REQUEST_REMEDIES,
    ),
    TargetKind(
        name="openai",
        syntax="openai:URL[#MODEL]",
        description="an application that speaks chat completions, such as a RAG service",
        agent="assay.targets.chat_completions:ChatAgent",
        reads=_variables,
        examples=("openai:http://localhost:8000/v1",),
        settings=(*_ANSWER_FORM, "request", "headers"),
        remedies=_REQUEST_REMEDIES,
    ),
    TargetKind(
        name="url",
        syntax="http://... (probed)",
        description="a plain URL: the protocol is detected",
        agent="assay.targets.health_check:ProbedAgent",
        examples=("http://localhost:9010",),
        split=_WHOLE,
        settings=_ANSWER_FORM,
    ),
)

TARGET_KINDS: dict[str, TargetKind] = {kind.name: kind for kind in _KINDS}
