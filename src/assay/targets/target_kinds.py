"""The table of target kinds.

A target kind is one entry in `TARGET_KINDS`. The help text, the error listing, `assay doctor`, the
rules of the web pages, shell completion and probing are derived from the table. The module that
talks to the agent is imported when a target of its kind is opened, and not before.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from assay.errors import UsageError, did_you_mean
from assay.llm.provider_kinds import split_provider
from assay.progress import Progress, silent
from assay.search.modes import MODES
from assay.targets.remedies import CHAT, FUNCTION, MCP, REQUEST, USUAL, Remedies

if TYPE_CHECKING:
    from pathlib import Path

    from assay.data.dataset import Dataset
    from assay.net.outbound import OutboundPolicy
    from assay.search.bm25 import Bm25Settings
    from assay.search.embedding import EmbedderSettings
    from assay.targets.protocol import Agent

CONTRACT_TARGET = re.compile(
    r"(?:(?P<url>https?://[^=#?]+)|http:(?P<agent>[^=#?]+))=(?P<task>[^=#/?]+)(?P<way>#stream)?",
    re.IGNORECASE,
)
"""`http:URL=TASK` or `http:NAME=TASK`; an address needs no prefix, since it has a scheme."""

_TOOL = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_ANSWER_FORM = ("mapping",)
_RETRIEVER = ("embedder", "bm25")
_METHOD = re.compile(r"([A-Za-z]{3,10}) +(?=\S*://)")


@dataclass(frozen=True, slots=True)
class Target:
    """A target, parsed once.

    `kind` is the name of its entry in `TARGET_KINDS`, `address` what the kind opens (a URL, a
    command, `module:function`, a mode), `fragment` what follows the `#` or, of `rest:`, the method,
    `text` what was written.
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
    """What the user says about the HTTP requests of a `rest:` or `openai:` target.

    `body` is JSON or `@FILE`, `headers` are `Name: value` each, with `$NAME` for variables of the
    environment; `preset` is a search engine and `index` what it searches.
    """

    body: str = ""
    headers: tuple[str, ...] = ()
    preset: str = ""
    index: str = ""


@dataclass(frozen=True)
class OpenContext:
    """What a target may need to be opened.

    Parameters:
        dataset: the documents that built-in agents search, and whose ids answers should hold.
        track: how the agent may have learned, as its user declares it; see `builtin_track`.
        mapping: where answers have their ids and texts (`--map`, parsed).
        answers: whether the agent answers as well, which built-in agents need to know.
        note_mapping: which note of a Nextcloud stands for which document.
        progress: called while something is loaded.
        policy: which addresses may be called; None for all of them.
        request: the HTTP request of a `rest:` or `openai:` target.
        bm25: parameters of BM25 for built-in agents; None for those of the environment.
        embedder: which embedder built-in agents use; None for that of the environment.
    """

    dataset: "Dataset"
    track: str = "undeclared"
    mapping: Mapping[str, str] | None = None
    answers: bool = False
    note_mapping: "Path | None" = None
    progress: Progress = silent
    policy: "OutboundPolicy | None" = None
    bm25: "Bm25Settings | None" = None
    embedder: "EmbedderSettings | None" = None
    request: RequestSettings = RequestSettings()


def _nothing(_target: Target) -> tuple[str, ...]:
    return ()


def _own_address(target: Target) -> tuple[str, ...]:
    return (target.address,)


def _split_fragment(rest: str) -> tuple[str, str]:
    address, _, fragment = rest.partition("#")
    return address, fragment


@dataclass(frozen=True)
class TargetKind:
    """One kind of target.

    Parameters:
        name: its prefix.
        syntax: how it is written, for help texts.
        description: one line for people.
        agent: `module:Class`, whose `from_target(target, context)` makes the agent, or
            `module:function`, which makes it from the address and the context.
        runs_code: whether evaluating it runs code that the target names, or starts a process.
        reaches: every network address that evaluating the target contacts.
        reads: every local file that the target names.
        examples: values for completion and forms.
        split: the part after the prefix as (address, fragment).
        probe: `module:function` that looks for this kind at a bare address.
        searches_dataset: whether it answers from the documents of the data set that is open here.
        speaks_mcp: whether an MCP session with it can be opened.
        settings: those options of a run that only some kinds of targets use, and that it does.
        remedies: what to do about calls of it that failed.
    """

    name: str
    syntax: str
    description: str
    agent: str
    runs_code: bool = False
    reaches: Callable[[Target], tuple[str, ...]] = _own_address
    reads: Callable[[Target], tuple[str, ...]] = _nothing
    examples: tuple[str, ...] = ()
    split: Callable[[str], tuple[str, str]] = _split_fragment
    probe: str = ""
    searches_dataset: bool = False
    speaks_mcp: bool = False
    settings: tuple[str, ...] = ()
    remedies: Remedies = USUAL

    def open(self, target: Target, context: OpenContext) -> "Agent":
        """The agent, not yet connected. Raises `UsageError` for a target that cannot be one."""
        found = load(self.agent)
        made = getattr(found, "from_target", None)
        agent: Agent = made(target, context) if made else found(target.address, context)
        return agent

    @property
    def sends_nothing(self) -> bool:
        """Whether it answers in this process, from the data set: no one else gets what it gets."""
        return self.searches_dataset and not self.runs_code

    def is_local(self, target: Target) -> bool:
        """Whether it uses this machine in a way that only the machine's own user may."""
        return self.runs_code or bool(self.reads(target))


def find_kind(name: str) -> TargetKind | None:
    """The kind with this prefix, also one that an installed package adds.

    A package adds one by an entry point of the group `assay.targets`: its name is the prefix, its
    value a class or function as `TargetKind.agent` says.
    """
    if name not in TARGET_KINDS:
        for point in entry_points(group="assay.targets", name=name):
            TARGET_KINDS[name] = TargetKind(
                name=name,
                syntax=f"{name}:ADDRESS",
                description=f"{point.value}, an installed plug-in",
                agent=point.value,
                runs_code=True,
                reaches=_nothing,
                split=_whole,
            )
    return TARGET_KINDS.get(name)


def load(reference: str) -> Any:
    """Import and return the object `module:name`."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def require_mode(mode: str) -> None:
    """Raises `UsageError` where `builtin:MODE` is no target."""
    if mode not in MODES:
        known = [f"builtin:{each}" for each in MODES]
        hint = did_you_mean(f"builtin:{mode}", known)
        choice = f"choose one of {', '.join(known)}"
        raise UsageError(f"there is no target 'builtin:{mode}'; {choice}{hint}")


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


def _variables(target: Target) -> tuple[str, ...]:
    """What the address reads from this machine's environment."""
    return tuple(re.findall(r"\$\{(\w+)\}", target.address))


def _contract_address(target: Target) -> tuple[str, ...]:
    agent = target.address.rpartition("=")[0]
    if "://" in agent:
        return (agent,)
    from assay.contract.client import read_endpoints, resolve_agent

    return (resolve_agent(agent, read_endpoints()),)


def provider_addresses(spec: str) -> tuple[str, ...]:
    """Addresses in the name of a language model, as in `openai:MODEL@URL`.

    Without one, the model is asked where the settings of this machine say.
    """
    kind, rest = split_provider(spec)
    address = rest.partition("@")[2]
    if kind is None or kind.in_process or not address:
        return ()
    return (address if "://" in address else f"http://{address}",)


def provider_files(spec: str) -> tuple[str, ...]:
    """Files in the name of a language model, as in `gguf:FILE`."""
    kind, rest = split_provider(spec)
    return (rest,) if kind is not None and kind.in_process and rest else ()


def _whole(rest: str) -> tuple[str, str]:
    return rest, ""


def _split_method(rest: str) -> tuple[str, str]:
    """`PUT URL` as the URL and the method."""
    found = _METHOD.match(rest)
    return (rest[found.end() :], found[1]) if found else (rest, "")


def _split_tool(rest: str) -> tuple[str, str]:
    """`URL#tool` or `COMMAND#tool`; the last `#` counts, and only before a tool's name."""
    head, sign, tool = rest.rpartition("#")
    return (head, tool) if sign and head and _TOOL.fullmatch(tool) else (rest, "")


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
        agent="assay.targets.python_call:PythonAgent",
        runs_code=True,
        reaches=_nothing,
        examples=("python:my_search:find",),
        split=_whole,
        remedies=FUNCTION,
    ),
    TargetKind(
        name="purple",
        syntax="purple:hybrid[#PROVIDER]",
        description="the reference agent in a separate process, over A2A; #PROVIDER selects the "
        "model that writes answers",
        agent="assay.targets.purple_process:PurpleProcess",
        runs_code=True,
        reaches=lambda target: provider_addresses(target.fragment),
        reads=lambda target: provider_files(target.fragment),
        examples=("purple:hybrid",),
        searches_dataset=True,
        settings=_RETRIEVER,
    ),
    TargetKind(
        name="a2a",
        syntax="a2a:URL[#stream|#text]",
        description="an A2A agent, protocol 0.3 or 1.0; #text sends the query without JSON",
        agent="assay.targets.a2a.agent:A2AAgent",
        examples=("a2a:http://localhost:9010",),
        probe="assay.targets.probe:probe_a2a",
        settings=_ANSWER_FORM,
    ),
    TargetKind(
        name="mcp",
        syntax="mcp:URL[#tool]",
        description="an MCP server with a search tool",
        agent="assay.targets.mcp.agent:McpAgent",
        examples=("mcp:http://localhost:8000/mcp",),
        split=_split_tool,
        probe="assay.targets.probe:probe_mcp",
        speaks_mcp=True,
        settings=_ANSWER_FORM,
        remedies=MCP,
    ),
    TargetKind(
        name="mcp-stdio",
        syntax="mcp-stdio:COMMAND[#tool]",
        description="an MCP server started by a command, over stdio",
        agent="assay.targets.mcp.agent:McpAgent",
        runs_code=True,
        reaches=_nothing,
        examples=("mcp-stdio:uvx my-server",),
        split=_split_tool,
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
        remedies=MCP,
    ),
    TargetKind(
        name="http",
        syntax="http:URL=TASK[#stream]",
        description="an agent that implements the HTTP agent contract",
        agent="assay.targets.contract:ContractAgent",
        reaches=_contract_address,
        examples=("http:http://localhost:8000=RAG_RETRIEVE",),
        probe="assay.targets.probe:probe_contract",
    ),
    TargetKind(
        name="rest",
        syntax="rest:[METHOD ]URL",
        description="any search service over HTTP; {query} and {top_k} stand in the URL or body",
        agent="assay.targets.rest:RestAgent",
        reads=_variables,
        split=_split_method,
        examples=("rest:http://localhost:9200/docs/_search?q={query}&size={top_k}",),
        settings=(*_ANSWER_FORM, "request", "headers", "preset"),
        remedies=REQUEST,
    ),
    TargetKind(
        name="openai",
        syntax="openai:URL[#MODEL]",
        description="an application that speaks chat completions, such as a RAG service",
        agent="assay.targets.chat_completions:ChatAgent",
        reads=_variables,
        examples=("openai:http://localhost:8000/v1",),
        settings=(*_ANSWER_FORM, "request", "headers"),
        remedies=CHAT,
    ),
    TargetKind(
        name="url",
        syntax="http://... (probed)",
        description="a plain URL: the protocol is detected",
        agent="assay.targets.probe:ProbedAgent",
        examples=("http://localhost:9010",),
        split=_whole,
        settings=_ANSWER_FORM,
    ),
)

TARGET_KINDS: dict[str, TargetKind] = {kind.name: kind for kind in _KINDS}
"""Every kind by its name. Bare addresses are probed in this order."""
