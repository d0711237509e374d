"""Agents in Python: functions `f(query, top_k)`, sync or async, retrievers, and other objects.

Retrievers and chains of LangChain and LlamaIndex are recognized by their methods, their documents
and nodes by their attributes; neither library is imported.
"""

import asyncio
import importlib
import inspect
import sys
import traceback
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Protocol

from assay.errors import AgentFailure, FailureKind, UsageError, did_you_mean
from assay.files import find_project_file
from assay.llm.passages import Passage
from assay.net.redact import redact_known
from assay.targets.answer_reader import ANSWER_KEYS, DOCUMENT_KEYS, read_answer
from assay.targets.detection import known_form
from assay.targets.protocol import CURRENT_SEARCH, Agent, AgentAnswer, AgentInfo, SearchAddress
from assay.targets.target_kinds import OpenContext, Target
from assay.targets.threads import DaemonThreads

_MESSAGE_LIMIT = 200
_RETRIEVER_METHODS = ("retrieve", "invoke", "query")
_ID_KEYS = ("id", "doc_id", "document_id", "_id", "docid", "source", "file_name")
_ID_ATTRIBUTES = ("id", "ref_doc_id", "node_id", "id_", "doc_id")


class InvokableRetriever(Protocol):
    """A retriever or chain of LangChain."""

    def invoke(self, query: str, /) -> Any:
        """The documents for a query."""
        ...


class NodeRetriever(Protocol):
    """A retriever of LlamaIndex."""

    def retrieve(self, query: str, /) -> Any:
        """The nodes for a query."""
        ...


class PythonAgent:
    """A function `f(query, top_k)` or an object with such a method `ask`; either may be async.

    Whatever it raises is a failed call: one bad call must not end the run. A function with a
    parameter `context`, or an object with `answer_from`, can also answer from given passages. One
    with a parameter `search` gets the search of `--search`. An object may have `open`, `close` and
    `info`. By `known`, the ids of the data set, the id of a retriever's document is recognized.
    """

    def __init__(
        self,
        target: Any,
        *,
        name: str,
        track: str = "undeclared",
        known: Container[str] = (),
    ) -> None:
        self._object: Any = target if _is_asked(target) else None
        self._function = target.ask if self._object is not None else target
        self._known = known
        self._default_info = AgentInfo(name, "python", track)
        parameters = _parameters(self._function)
        self.takes_context = (
            bool(getattr(target, "takes_context", False))
            if self._object is not None
            else "context" in parameters
        )
        self._search_parameter = parameters.get("search")
        self._threads = DaemonThreads()

    @property
    def info(self) -> AgentInfo:
        """What the object says of itself, if it does."""
        found: AgentInfo = getattr(self._object, "info", self._default_info)
        return found

    @staticmethod
    def from_target(target: Target, context: OpenContext) -> Agent:
        """The agent of `python:module:object`, which is imported now."""
        found, known = load_object(target.address), context.dataset.known_ids
        try:
            return as_agent(found, name=str(target), track=context.track, known=known)
        except UsageError as error:
            raise UsageError(f"{target.address}: {error}") from None

    async def open(self) -> None:
        """Open the object, whose `info` is known then."""
        if hasattr(self._object, "open"):
            await _result(self._object.open())
        if not isinstance(self.info, AgentInfo):
            raise UsageError(
                f"info of {type(self._object).__name__} must be an "
                f"assay.targets.protocol.AgentInfo, got {type(self.info).__name__}; or leave it out"
            )

    async def close(self) -> None:
        """Close the object, and end the threads."""
        self._threads.close()
        if not hasattr(self._object, "close"):
            return
        try:
            await _result(self._object.close())
        except Exception as error:  # the run is done
            name = type(self._object).__name__
            warnings.warn(f"closing the agent {name} failed: {_describe(error)}", stacklevel=2)

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        """Call the function, with `search` if it takes that."""
        return await self._call(self._with_search(self._function), query, top_k)

    async def answer_from(self, query: str, passages: Sequence[Passage]) -> AgentAnswer:
        """Call it with `context`, a list of `{"id", "title", "text"}`, in place of a search."""
        if self._object is not None:
            return await self._call(self._object.answer_from, query, passages)
        context = [asdict(each) for each in passages]
        function = self._with_search(partial(self._function, context=context))
        return await self._call(function, query, max(1, len(passages)))

    def _with_search(self, function: Callable[..., Any]) -> Callable[..., Any]:
        parameter = self._search_parameter
        address = CURRENT_SEARCH.get()
        if parameter is None:
            return function
        if address is not None:
            search = address.call if _is_async(function) else _blocking(address)
            return partial(function, search=search)
        if parameter.default is parameter.empty:
            message = "the function takes 'search': add --search TARGET, or give it a default"
            raise AgentFailure(FailureKind.AGENT_ERROR, message)
        return function

    async def _call(self, function: Callable[..., Any], *values: Any) -> AgentAnswer:
        try:
            if _is_async(function):
                answer = await function(*values)
            else:
                answer = await _result(await self._threads.run(function, *values))
        except AgentFailure:
            raise
        except (Exception, SystemExit) as error:
            kinds = {TimeoutError: FailureKind.TIMEOUT, ConnectionError: FailureKind.CONNECTION}
            kind = next((kinds[each] for each in kinds if isinstance(error, each)), None)
            raise AgentFailure(kind or FailureKind.AGENT_ERROR, _describe(error)) from error
        if isinstance(answer, AgentAnswer):
            return read_answer(asdict(answer))
        return read_answer(to_plain_answer(answer, self._known))


def _is_async(function: Callable[..., Any]) -> bool:
    inner = function.func if isinstance(function, partial) else function
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
        getattr(inner, "__call__", None)  # noqa: B004 - an object with an async __call__
    )


def _blocking(address: SearchAddress) -> Callable[..., list[dict[str, Any]]]:
    """The search for a function that runs in a thread: it waits for the loop of the run."""
    loop = asyncio.get_running_loop()

    def search(query: str, top_k: int = 5) -> list[dict[str, Any]]:
        async def call() -> list[dict[str, Any]]:
            return await address.call(query, top_k=top_k)

        return asyncio.run_coroutine_threadsafe(call(), loop).result()

    return search


async def _result(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Its parameters; none for some built-in functions.

    Raises `UsageError` for a function that cannot be called with a query and a number.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return {}
    given = {"search": None} if "search" in signature.parameters else {}
    try:
        signature.bind("query", 5, **given)
    except TypeError as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise UsageError(
            f"Assay calls f(query, top_k), and {name}{signature} cannot be called so: {error}; "
            "pass a function of two parameters"
        ) from None
    return signature.parameters


def as_agent(
    target: object, *, name: str = "", track: str = "undeclared", known: Container[str] = ()
) -> Agent:
    """An agent from an object with a method `ask(query, top_k)`, a function `f(query, top_k)`, or a
    retriever of LangChain or LlamaIndex.
    """
    own_name = python_name(target)  # raises for what cannot be a target
    name = name or own_name
    if not callable(target) and not _is_asked(target):
        target = as_search_function(target, known)
    return PythonAgent(target, name=name, track=track, known=known)


def python_name(target: object) -> str:
    """What a run calls a Python object: where its function or class is.

    Raises `UsageError` for an object that cannot be a target.
    """
    if isinstance(target, type):
        raise UsageError(f"{target.__name__} is a class; pass an instance of it")
    if not _is_target(target):
        kind = type(target).__name__
        hint = "; an earlier run is compared with by compare_to=" if kind.startswith("Run") else ""
        raise UsageError(
            "a target is a string such as 'builtin:bm25', a function f(query, top_k) or an object "
            f"with a method ask(query, top_k), got {kind}{hint}"
        )
    name = getattr(target, "__qualname__", type(target).__qualname__)
    return f"python:{getattr(target, '__module__', '?')}:{name}"


def _is_target(value: object) -> bool:
    return callable(value) or _is_asked(value) or _retrieval_method(value) is not None


def _is_asked(target: object) -> bool:
    """Whether to call its `ask`; a callable object is called itself unless it is an `Agent`."""
    if not callable(getattr(target, "ask", None)):
        return False
    return not callable(target) or all(hasattr(target, each) for each in ("info", "open", "close"))


def load_object(spec: str) -> object:
    """Import `module:object` from the working folder, that of assay.toml, or the environment."""
    module_name, _, attribute = spec.partition(":")
    if not module_name or not attribute:
        raise UsageError(
            f"target 'python:{spec}' does not name a function; write python:module:function"
        )
    folder = str(Path.cwd())
    project = find_project_file()
    for place in (str(project.parent) if project else folder, folder):
        if place not in sys.path:
            sys.path.insert(0, place)
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        what = f"importing {module_name!r} failed: {_describe(error)}"
        if isinstance(error, ModuleNotFoundError):
            what = f"no module {module_name!r} in {folder} or in the installed packages"
            if error.name and module_name.split(".")[0] != error.name.split(".")[0]:
                what = f"{module_name!r} imports {error.name!r}, which is not installed"
        raise UsageError(what) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            usable = [name for name in dir(found) if _is_target(getattr(found, name, None))]
            hint = did_you_mean(part, usable)
            raise UsageError(f"module {module_name!r} has no {attribute!r}{hint}")
        found = getattr(found, part)
    return found


def _describe(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    said = redact_known(str(error))
    text = f"{type(error).__name__}: {said}"[:_MESSAGE_LIMIT].encode("utf-8", "replace").decode()
    if not frames:
        return text
    return f"{text} ({Path(frames[-1].filename).name}:{frames[-1].lineno})"


def _retrieval_method(found: object) -> Callable[[str], Any] | None:
    """The method that searches: `retrieve(query)` or `invoke(query)`; None for other objects."""
    if isinstance(found, type) or inspect.isroutine(found) or inspect.ismodule(found):
        return None
    methods = (getattr(found, name, None) for name in _RETRIEVER_METHODS)
    return next((method for method in methods if callable(method)), None)


def as_search_function(
    found: object, known: Container[str] = ()
) -> Callable[[str, int], Any] | None:
    """`f(query, top_k)` for a retriever or a chain; None for other objects.

    How many documents come is set where the object is made; more than `top_k` are cut.
    """
    method = _retrieval_method(found)
    if method is None:
        return None

    def search(query: str, top_k: int) -> Any:
        value = method(query)
        return later(value, top_k) if inspect.isawaitable(value) else cut(value, top_k)

    async def later(value: Any, top_k: int) -> Any:
        return cut(await value, top_k)

    def cut(value: Any, top_k: int) -> Any:
        if isinstance(value, str):
            return {"doc_ids": [], "answer": value}  # a chain that only answers
        plain = to_plain_answer(value, known)
        return plain[:top_k] if isinstance(plain, list) else plain

    return search


def to_plain_answer(value: Any, known: Container[str] = ()) -> Any:
    """Documents, nodes, `(id, score)` pairs and numbers as ids; anything else stays as it is.

    Of several candidates for an id, the one among `known`, the ids of the data set, is taken.
    """
    nodes = getattr(value, "source_nodes", None)
    if isinstance(nodes, list):  # a response of LlamaIndex
        plain = {"doc_ids": _ids_of(nodes, known), "answer": str(value)}
        return plain | _contexts(nodes, known)
    if not isinstance(value, Mapping):
        return _ids_of(value, known) if _is_list(value) else value
    scored = bool(value) and all(map(_is_number, value.values()))
    if scored and (not known or any(str(key) in known for key in value)):  # else counts by name
        return [str(key) for key in sorted(value, key=lambda key: -float(value[key]))]
    return _plain_mapping(value, known)


def _ids_of(items: Sequence[Any], known: Container[str]) -> list[Any]:
    """The id of each item; further chunks of a document that is listed are left out."""
    ids: list[Any] = []
    for item in items:
        # A plain id that is repeated is the agent's mistake, a library's document is a chunk.
        if isinstance(item, str):
            ids.append(item)
            continue
        found = _id_of(item, known)
        inner = item[0] if _is_list(item) and len(item) == 2 else item
        is_chunk = _text_of(inner) is not None or hasattr(inner, "metadata")
        if not (is_chunk and isinstance(found, str) and found in ids):
            ids.append(found)
    return ids


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _plain_mapping(value: Mapping[Any, Any], known: Container[str]) -> Mapping[Any, Any]:
    plain = dict(value)
    if "doc_ids" not in plain:
        documents = next((plain[name] for name in DOCUMENT_KEYS if _is_list(plain.get(name))), None)
        if documents is not None:
            plain["doc_ids"] = documents
            plain = _contexts(documents, known) | plain
            plain["answer"] = next((plain[name] for name in ANSWER_KEYS if name in plain), None)
    for name in ("doc_ids", "citations"):
        if _is_list(plain.get(name)):
            plain[name] = _ids_of(plain[name], known)
    return plain


def _contexts(documents: Sequence[Any], known: Container[str]) -> dict[str, Any]:
    """What the model was shown, if every document or node has its text."""
    texts = [_text_of(item) for item in documents]
    if not texts or None in texts:
        return {}
    pairs = zip(documents, texts, strict=True)
    return {"contexts": [{"id": _id_of(item, known), "text": text} for item, text in pairs]}


def _text_of(item: Any) -> str | None:
    holder = getattr(item, "node", item)
    texts = (getattr(holder, name, None) for name in ("page_content", "text"))
    return next((text for text in texts if isinstance(text, str)), None)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _id_of(item: Any, known: Container[str]) -> Any:
    """The id of a document, node, pair or number; the item itself if none is found."""
    if isinstance(item, str | bool | Mapping) or item is None:
        return item
    if isinstance(item, Integral):
        return str(int(item))
    if _is_list(item):
        first = _id_of(item[0], known) if len(item) == 2 and _is_number(item[1]) else item
        return first if isinstance(first, str) else item
    holder = getattr(item, "node", item)  # a node of LlamaIndex with its score
    metadata = getattr(holder, "metadata", None)
    found = [metadata.get(key) for key in _ID_KEYS] if isinstance(metadata, Mapping) else []
    found += [getattr(holder, name, None) for name in _ID_ATTRIBUTES]
    candidates = [text for text in map(_text, found) if text is not None]
    exact = [text for text in candidates if text in known]
    # A loader's metadata has the path of a file: kb/KB-1.md is the document KB-1.
    named = (known_form(text, known) for text in candidates)
    return next(iter(exact), None) or next(filter(None, named), next(iter(candidates), item))


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, Integral):
        return str(int(value))
    return value if isinstance(value, str) and value else None
