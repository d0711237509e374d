import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from assay.errors import AgentFailure, FailureKind, UsageError
from assay.targets.answer_reader import read_answer
from assay.targets.protocol import AgentAnswer, AgentInfo, context_taker
from assay.targets.python_call import PythonAgent, as_agent, load_object
from assay.targets.threads import DaemonThreads


async def ask(function: Any) -> Any:
    agent = PythonAgent(function, name="f")
    await agent.open()
    try:
        return await agent.ask("query", 2)
    finally:
        await agent.close()


async def test_sync_async_and_callable_objects_are_asked_alike() -> None:
    async def later(_query: str, top_k: int) -> list[str]:
        await asyncio.sleep(0)
        return ["a", "b"][:top_k]

    class Finder:
        async def __call__(self, query: str, top_k: int) -> list[str]:
            return await later(query, top_k)

    def now(_query: str, top_k: int) -> list[str]:
        return ["a", "b"][:top_k]

    def hands_over(query: str, top_k: int) -> Any:
        return later(query, top_k)

    for function in (now, later, Finder(), hands_over):
        assert (await ask(function)).doc_ids == ("a", "b")


async def test_sync_functions_run_beside_the_loop_and_beside_each_other() -> None:
    together = threading.Barrier(3, timeout=10)

    def meets(_query: str, _top_k: int) -> list[str]:
        together.wait()
        return []

    agent = PythonAgent(meets, name="f")
    await asyncio.gather(*(agent.ask("q", 1) for _ in range(3)))
    await agent.close()


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (ConnectionResetError("gone"), FailureKind.CONNECTION, True),
        (TimeoutError("slow"), FailureKind.TIMEOUT, False),
        (KeyError("x"), FailureKind.AGENT_ERROR, False),
        (StopIteration(), FailureKind.AGENT_ERROR, False),
        (SystemExit(3), FailureKind.AGENT_ERROR, False),
    ],
)
async def test_what_a_function_raises_is_classified(
    error: BaseException, kind: FailureKind, retryable: bool
) -> None:
    def raises(_query: str, _top_k: int) -> list[str]:
        raise error

    with pytest.raises(AgentFailure) as caught:
        await ask(raises)
    assert (caught.value.kind, caught.value.retryable) == (kind, retryable)


async def test_the_message_says_what_was_raised_and_where() -> None:
    def divides(_query: str, _top_k: int) -> list[str]:
        return [str(1 / 0)]

    with pytest.raises(AgentFailure, match=r"ZeroDivisionError: .* \(test_python_call\.py:\d+\)"):
        await ask(divides)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("abc", "the answer is a str, not a list"),
        (3, "the answer is a int, not a list"),
        (["a", 1.5], "position 1: a document id is a float"),
        (["a", True], "position 1: a document id is a bool"),
        (["a", ""], "position 1: a document id is empty"),
        (["x" * 5000], "longer than 4,096 characters"),
        ({"ids": ["a"]}, "a dictionary without 'doc_ids'; return a list of document ids"),
        ({"a": 0.7}, "a dictionary without 'doc_ids'; return a list of document ids"),
        ([("a", 0.7)], "position 0: a document id is a tuple"),
        ({"doc_ids": ["a"], "citations": "a"}, "'citations' is a str"),
    ],
)
def test_another_shape_is_named(value: object, message: str) -> None:
    with pytest.raises(AgentFailure, match=message) as caught:
        read_answer(value)
    assert caught.value.kind is FailureKind.INVALID_ANSWER


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import nothing_like_this", "imports 'nothing_like_this', which is not installed"),
        ("1 / 0", "importing 'subject' failed: ZeroDivisionError"),
        ("raise SystemExit(5)", "importing 'subject' failed: SystemExit"),
        ("def f(:", "importing 'subject' failed: SyntaxError"),
    ],
)
def test_a_module_that_does_not_import_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    (tmp_path / "subject.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match=message):
        load_object("subject:f")


def test_a_function_that_is_misspelled_is_suggested() -> None:
    with pytest.raises(UsageError, match=r"module 'json' has no 'laods'\. Did you mean 'loads'"):
        load_object("json:laods")


async def test_a_thread_that_hangs_is_replaced() -> None:
    threads = DaemonThreads()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await threads.run(time.sleep, 3)
    assert await asyncio.wait_for(threads.run(lambda: 7), 2) == 7
    threads.close()


class Own:
    """An object of a user: each method does what it is given."""

    info: Any = AgentInfo("mine", "own")

    def __init__(self, **methods: Any) -> None:
        self._methods = methods

    async def open(self) -> None:
        self._methods.get("open", lambda: None)()

    async def ask(self, query: str, top_k: int) -> Any:
        return self._methods.get("ask", lambda: AgentAnswer(("a",)))()

    async def close(self) -> None:
        self._methods.get("close", lambda: None)()


def raising(error: BaseException) -> Any:
    def method() -> None:
        raise error

    return method


async def test_an_object_may_answer_as_a_function_may() -> None:
    for value in (["a"], {"doc_ids": ["a"]}, AgentAnswer(("a",))):
        answer = await PythonAgent(Own(ask=lambda value=value: value), name="own").ask("query", 2)
        assert answer == AgentAnswer(("a",))
    wrong: tuple[Any, ...] = (None, 5, AgentAnswer((5.5,)))  # type: ignore[arg-type]
    for other in wrong:
        with pytest.raises(AgentFailure) as caught:
            await PythonAgent(Own(ask=lambda value=other: value), name="own").ask("query", 2)
        assert caught.value.kind is FailureKind.INVALID_ANSWER


async def test_methods_of_an_object_may_be_plain_functions() -> None:
    class Plain:
        info = AgentInfo("plain", "own")
        takes_context = True

        def open(self) -> None:
            self.is_open = True

        def ask(self, query: str, top_k: int) -> list[str]:
            return ["a"] if self.is_open else []

        def answer_from(self, query: str, passages: Any) -> dict[str, Any]:
            return {"doc_ids": [], "answer": "given"}

        def close(self) -> None:
            self.is_open = False

    agent = PythonAgent(Plain(), name="own")
    await agent.open()
    assert (await agent.ask("query", 2)).doc_ids == ("a",)
    await agent.close()
    taker = context_taker(agent)
    assert taker is not None
    assert (await taker.answer_from("query", [])).answer == "given"
    assert context_taker(PythonAgent(Own(), name="own")) is None


async def test_an_object_needs_only_a_method_that_answers() -> None:
    class Bare:
        def ask(self, query: str, top_k: int) -> list[str]:
            return [threading.current_thread().name]

    agent = as_agent(Bare(), track="zero-shot")
    await agent.open()
    (thread,) = (await agent.ask("query", 2)).doc_ids
    assert thread != threading.current_thread().name  # or it would hold up all other calls
    assert agent.info.name.endswith(".Bare")
    assert agent.info.track == "zero-shot"
    await agent.close()


def test_an_object_that_cannot_be_asked_so_is_refused() -> None:
    class OneParameter:
        def ask(self, query: str) -> list[str]:
            return []

    with pytest.raises(UsageError, match=r"f\(query, top_k\), and ask\(query: str\)"):
        as_agent(OneParameter())


async def test_an_object_that_cannot_be_closed_is_a_warning() -> None:
    with pytest.warns(UserWarning, match="closing the agent Own failed: RuntimeError: stuck"):
        await PythonAgent(Own(close=raising(RuntimeError("stuck"))), name="own").close()


async def test_an_object_that_does_not_say_what_it_is_is_refused() -> None:
    own = Own()
    own.info = {"name": "mine"}
    with pytest.raises(UsageError, match=r"info of Own must be an .*AgentInfo, got dict"):
        await PythonAgent(own, name="own").open()
