"""Agents in Python: functions `f(query, top_k)`, sync or async, retrievers, and other objects.

Retrievers of LangChain and LlamaIndex are recognized by their methods, their documents and nodes
by their attributes; neither library is imported.
"""

import asyncio
import importlib
import inspect
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from assay.errors import AgentFailure, FailureKind, UsageError, did_you_mean
from assay.files import find_project_file
from assay.llm.passages import Passage
from assay.net.gather import DaemonThreads
from assay.net.redact import redact_known
from assay.targets.answer_reader import known_form, read_answer
from assay.targets.protocol import CURRENT_SEARCH, Agent, AgentAnswer, AgentInfo, SearchAddress
from assay.targets.target_kinds import OpenContext, Target

_MAX_MESSAGE = 200
_RETRIEVER_METHODS = ("retrieve", "invoke")
_NOT_THEIRS = (str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"), "<frozen ")
_ID_KEYS = ("id", "doc_id", "document_id", "source", "file_name")
_ID_ATTRIBUTES = ("id", "ref_doc_id", "node_id")


class PythonAgent:
    """A function `f(query, top_k)` or an object with such a method `ask`; either may be async.

    A function with a parameter `context`, or an object with `answer_from`, can also answer from
    given passages; one with a parameter `search` gets the search of `--search`. An object may have
    `open`, `close` and `info`. Of a retriever, `retrieve(query)` or `invoke(query)` is called.
    `known` are the ids of the data set, by which the ids of its documents are recognized.
    """

    def __init__(
        self,
        target: Any,
        *,
        name: str,
        track: str = "undeclared",
        known: Container[str] = (),
    ) -> None:
        self._object: Any = target if _has_ask(target) else None
        is_called = callable(target) or self._object is not None
        self._retrieve = None if is_called else _retrieval_method(target)
        self._function: Callable[..., Any] = (
            self._retrieve or getattr(self._object, "ask", None) or target
        )
        self._known = known
        self._default_info = AgentInfo(name, "python", track)
        parameters = {} if self._retrieve else _parameters(self._function)
        self.takes_context = "context" in parameters
        if self._object is not None:
            self.takes_context = bool(getattr(target, "takes_context", False))
        self._search_parameter = parameters.get("search")
        self._threads = DaemonThreads()

    @property
    def info(self) -> AgentInfo:
        """What the object says of itself, if it does."""
        found = getattr(self._object, "info", None)
        return found if isinstance(found, AgentInfo) else self._default_info

    async def open(self) -> None:
        if hasattr(self._object, "open"):
            await _result(self._object.open())

    async def close(self) -> None:
        self._threads.close()
        try:
            if hasattr(self._object, "close"):
                await _result(self._object.close())
        except Exception as error:  # the run is done
            name = type(self._object).__name__
            warnings.warn(f"closing the agent {name} failed: {_describe(error)}", stacklevel=2)

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        """Call the function, with `search` if it takes that."""
        if self._retrieve is None:
            return self._read(await self._value_of(self._with_search(self._function), query, top_k))
        found = await self._value_of(self._retrieve, query)
        return self._read(ids_of(found, self._known)[:top_k] if _is_list(found) else found)

    async def answer_from(self, query: str, passages: Sequence[Passage]) -> AgentAnswer:
        """Call it with `context`, a list of `{"id", "title", "text"}`, in place of a search."""
        if self._object is not None:
            return self._read(await self._value_of(self._object.answer_from, query, passages))
        context = [asdict(each) for each in passages]
        function = self._with_search(partial(self._function, context=context))
        return self._read(await self._value_of(function, query, max(1, len(passages))))

    def _with_search(self, function: Callable[..., Any]) -> Callable[..., Any]:
        parameter, address = self._search_parameter, CURRENT_SEARCH.get()
        if parameter is not None and address is not None:
            search = address.call if _is_async(function) else _blocking(address)
            return partial(function, search=search)
        if parameter is not None and parameter.default is parameter.empty:
            message = "the function takes 'search': add --search TARGET, or give it a default"
            raise AgentFailure(FailureKind.AGENT_ERROR, message)
        return function

    async def _value_of(self, function: Callable[..., Any], *values: Any) -> Any:
        try:
            if _is_async(function):
                return await function(*values)
            return await _result(await self._threads.run(function, *values))
        except AgentFailure:
            raise
        except (Exception, SystemExit) as error:
            kinds = {TimeoutError: FailureKind.TIMEOUT, ConnectionError: FailureKind.CONNECTION}
            kind = next((kinds[each] for each in kinds if isinstance(error, each)), None)
            raise AgentFailure(kind or FailureKind.AGENT_ERROR, _describe(error)) from error

    def _read(self, value: Any) -> AgentAnswer:
        if isinstance(value, AgentAnswer):
            return read_answer(asdict(value))
        if isinstance(value, Mapping):
            lists = {k: value[k] for k in ("doc_ids", "citations") if _is_list(value.get(k))}
            plain = {name: ids_of(items, self._known) for name, items in lists.items()}
            return read_answer({**value, **plain})
        return read_answer(ids_of(value, self._known) if _is_list(value) else value)


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
    """An agent from a function `f(query, top_k)`, an object with a method `ask(query, top_k)`, or a
    retriever of LangChain or LlamaIndex.
    """
    own_name = python_name(target)  # raises for what cannot be a target
    return PythonAgent(target, name=name or own_name, track=track, known=known)


def python_agent(target: Target, context: OpenContext) -> Agent:
    """The agent of `python:module:object`."""
    found, known = load_object(target.address), context.dataset.known_ids
    try:
        return as_agent(found, name=str(target), track=context.track, known=known)
    except UsageError as error:
        raise UsageError(f"{target.address}: {error}") from None


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
    return callable(value) or _has_ask(value) or _retrieval_method(value) is not None


def _has_ask(target: object) -> bool:
    """Whether to call its `ask`; a callable object is called itself unless it is an `Agent`."""
    if not callable(getattr(target, "ask", None)):
        return False
    return not callable(target) or all(hasattr(target, each) for each in ("info", "open", "close"))


def _retrieval_method(found: object) -> Callable[[str], Any] | None:
    # A class or a module may have a function of that name, and is no retriever.
    if isinstance(found, type) or inspect.isroutine(found) or inspect.ismodule(found):
        return None
    methods = (getattr(found, name, None) for name in _RETRIEVER_METHODS)
    return next((method for method in methods if callable(method)), None)


def load_object(spec: str) -> object:
    """Import `module:object` from the working folder, that of assay.toml, or the environment."""
    module_name, _, attribute = spec.partition(":")
    if not module_name or not attribute:
        raise UsageError(
            f"target 'python:{spec}' does not name a function; write python:module:function"
        )
    # A console script has neither folder in its path, unlike `python -m`.
    folder = str(Path.cwd())
    project = find_project_file()
    for place in (str(project.parent) if project else folder, folder):
        if place not in sys.path:
            sys.path.insert(0, place)
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a script may exit when it is imported
        raise UsageError(f"cannot import {module_name!r}: {_describe(error)}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            usable = [name for name in dir(found) if _is_target(getattr(found, name, None))]
            hint = did_you_mean(part, usable)
            raise UsageError(f"module {module_name!r} has no {attribute!r}{hint}")
        found = getattr(found, part)
    return found


def _describe(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    # What Assay's search tool or json.loads refuses is to be fixed at the line that called it.
    theirs = [each for each in frames if not each.filename.startswith(_NOT_THEIRS)]
    text = f"{type(error).__name__}: {redact_known(str(error))}"[:_MAX_MESSAGE]
    places = [f" ({Path(each.filename).name}:{each.lineno})" for each in theirs[-1:]]
    return text.encode("utf-8", "replace").decode() + "".join(places)


def ids_of(items: Sequence[Any], known: Container[str]) -> list[Any]:
    """The id of each document, node, hit, `(id, score)` pair and number; other items as they are.

    Further chunks of a document that is listed are left out. Of several candidates for an id, the
    one among `known`, the ids of the data set, is taken.
    """
    ids: list[Any] = []
    for item in items:
        found = _id_of(item, known)
        inner = item[0] if _is_list(item) and len(item) == 2 else item
        # A plain id that is repeated is the agent's mistake, a library's document is a chunk.
        if isinstance(inner, str | Integral) or found not in ids:
            ids.append(found)
    return ids


def _id_of(item: Any, known: Container[str]) -> Any:
    if isinstance(item, str | bool) or item is None:
        return item
    if isinstance(item, Integral):
        return str(int(item))
    if _is_list(item):
        is_pair = len(item) == 2 and isinstance(item[1], Real) and not isinstance(item[1], bool)
        first = _id_of(item[0], known) if is_pair else item
        return first if isinstance(first, str) else item
    holder = getattr(item, "node", item)  # a node of LlamaIndex with its score
    metadata = item if isinstance(item, Mapping) else getattr(holder, "metadata", None)
    found = [metadata.get(key) for key in _ID_KEYS] if isinstance(metadata, Mapping) else []
    found += [getattr(holder, name, None) for name in _ID_ATTRIBUTES]
    texts = [str(each) for each in found if each and isinstance(each, str | Integral)]
    # A loader's metadata has the path of a file: kb/KB-1.md is the document KB-1.
    forms = [*(text for text in texts if text in known), *(known_form(x, known) for x in texts)]
    return next(filter(None, forms), next(iter(texts), item))


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
