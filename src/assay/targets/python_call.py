"""Agents in Python: functions `f(query, top_k)`, sync or async, and objects of the caller's."""

import asyncio
import importlib
import inspect
import sys
import traceback
import warnings
from collections.abc import Callable, Container, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from assay.errors import AgentFailure, FailureKind, UsageError, did_you_mean
from assay.files import find_project_file
from assay.llm.passages import Passage
from assay.net.redact import redact_known
from assay.targets.answer_fields import read_answer
from assay.targets.protocol import CURRENT_SEARCH, Agent, AgentAnswer, AgentInfo, SearchAddress
from assay.targets.retrievers import as_search_function, retrieval_method, to_plain_answer
from assay.targets.target_kinds import OpenContext, Target
from assay.targets.threads import DaemonThreads

_MESSAGE_LIMIT = 200


class PythonAgent:
    """A function `f(query, top_k)` or an object with such a method `ask`; either may be async.

    Whatever it raises is a failed call: one bad call must not end the run. A function with a
    parameter `context`, or an object with `answer_from`, can also answer from given passages. One
    with a parameter `search` gets the search of `--search`. An object may have `open`, `close` and
    `info`.

    Parameters:
        target: the function or object.
        name: how a run calls it.
        track: how it may have learned.
        known: the ids of the data set, by which the id of a retriever's document is recognized.
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
        _require_parameters(self._function)
        self._known = known
        self._default_info = AgentInfo(name, "python", track)
        signature = _signature(self._function)
        self.takes_context = (
            bool(getattr(target, "takes_context", False))
            if self._object is not None
            else signature is not None and "context" in signature.parameters
        )
        self._search_parameter = signature.parameters.get("search") if signature else None
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
            raise _failure_from(error) from error
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


def _require_parameters(function: Callable[..., Any]) -> None:
    """Raise `UsageError` for a function that cannot be called with a query and a number."""
    signature = _signature(function)
    if signature is None:
        return
    given = {"search": None} if "search" in signature.parameters else {}
    try:
        signature.bind("query", 5, **given)
    except TypeError as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise UsageError(
            f"Assay calls f(query, top_k), and {name}{signature} cannot be called so: {error}; "
            "pass a function of two parameters"
        ) from None


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """None for some built-in functions."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def as_agent(
    target: object, *, name: str = "", track: str = "undeclared", known: Container[str] = ()
) -> Agent:
    """An agent from a Python object.

    Parameters:
        target: an object with a method `ask(query, top_k)`, a function `f(query, top_k)`, or a
            retriever of LangChain or LlamaIndex.
        name: how a run calls it; by default `python:module:name`.
        track: how it may have learned.
        known: the ids of the data set, by which the id of a retriever's document is recognized.
    """
    own_name = python_name(target)  # raises for what is no target
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
    return callable(value) or _is_asked(value) or retrieval_method(value) is not None


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
    except ModuleNotFoundError as error:
        raise UsageError(_not_found(module_name, error, folder)) from error
    except (Exception, SystemExit) as error:
        raise UsageError(f"importing {module_name!r} failed: {_describe(error)}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            usable = [name for name in dir(found) if _is_target(getattr(found, name, None))]
            hint = did_you_mean(part, usable)
            raise UsageError(f"module {module_name!r} has no {attribute!r}{hint}")
        found = getattr(found, part)
    return found


def _failure_from(error: BaseException) -> AgentFailure:
    if isinstance(error, TimeoutError):
        return AgentFailure(FailureKind.TIMEOUT, _describe(error))
    if isinstance(error, ConnectionError):
        return AgentFailure(FailureKind.CONNECTION, _describe(error))
    return AgentFailure(FailureKind.AGENT_ERROR, _describe(error))


def _describe(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    said = redact_known(str(error))
    text = f"{type(error).__name__}: {said}"[:_MESSAGE_LIMIT].encode("utf-8", "replace").decode()
    if not frames:
        return text
    return f"{text} ({Path(frames[-1].filename).name}:{frames[-1].lineno})"


def _not_found(module: str, error: ModuleNotFoundError, folder: str) -> str:
    if error.name and module.split(".")[0] != error.name.split(".")[0]:
        return f"{module!r} imports {error.name!r}, which is not installed"
    return f"no module {module!r} in {folder} or in the installed packages"
