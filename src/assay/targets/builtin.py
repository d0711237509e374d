"""Assay's own retriever: `builtin:MODE` in process, `purple:MODE` behind the purple agent over A2A.

With `builtin:MODE#PROVIDER`, a model writes answers from what is found; else answers are quotes.
"""

import asyncio
import os
import re
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import (
    AgentFailure,
    AssayError,
    FailureKind,
    ProviderError,
    ProviderFailure,
    SearchUnavailable,
    TargetError,
    UsageError,
)
from assay.extras import require_extras
from assay.files import open_file, read_tail
from assay.llm.passages import EXTRACTIVE, Passage
from assay.net.gather import DaemonThreads
from assay.net.outbound import UNRESTRICTED
from assay.net.redact import OWN_SECRETS
from assay.privacy import is_private
from assay.targets.protocol import AgentAnswer, AgentInfo
from assay.targets.target_kinds import OpenContext, Target, builtin_track, require_mode

if TYPE_CHECKING:
    from assay.llm.answerer import ExtractiveAnswerer, ModelAnswerer
    from assay.targets.a2a import A2AAgent

_Search = Callable[[str, int], list[tuple[str, float]]]
_ANSWER_TOKENS = 500
_START_SECONDS = 60.0
_STOP_SECONDS = 3.0
_POLL_SECONDS = 0.1
_LOG_TAIL = 2000

# Settings for a user's own servers must not affect the purple agent.
_DROPPED = (*OWN_SECRETS, "AGENT_TOKEN", "MCP_SERVER_URL", "ASSAY_CARD_URL")
# It has the settings that it is given here, whatever assay.toml says.
_SERVE = "from assay.cli.app import app; app(default_map={'serve': {'purple': {}}})"


class BuiltinAgent:
    """`builtin:MODE[#PROVIDER]`, in process."""

    def __init__(self, target: Target, context: OpenContext) -> None:
        from assay.search.bm25 import Bm25Settings

        mode = self._mode = target.address
        require_mode(mode)
        if target.fragment and not context.answers:
            raise UsageError(
                f"target '{target}' names a model, which is used only for answers; add --answers, "
                "or leave out the part after #"
            )
        self._context = context
        self._answerer: ExtractiveAnswerer | ModelAnswerer | None = None
        self._bm25 = context.bm25 or Bm25Settings.from_environment()
        facts = [f"BM25 {self._bm25}"] * (mode != "dense" and self._bm25 != Bm25Settings())
        if context.answers:  # a run without answers imports no answerer, and no model
            from assay.llm.answerer import open_answerer

            self._answerer = open_answerer(target.fragment or EXTRACTIVE)
            prompts = ", ".join(self._answerer.prompts.values())
            facts.append(f"answers: {self._answerer.name}" + (prompts and f", prompts {prompts}"))
        track = builtin_track(mode, context.track)
        self.info = AgentInfo(str(target), "builtin", track, "; ".join(facts))
        self._threads = DaemonThreads()
        self._search: _Search | None = None
        self._close: Callable[[], None] = lambda: None

    async def open(self) -> None:
        try:
            self._search = await self._threads.run(self._load_retriever)
        except SearchUnavailable as error:
            raise TargetError(str(error)) from error

    async def close(self) -> None:
        self._close()
        self._threads.close()
        if self._answerer is not None:
            await self._answerer.close()

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        assert self._search is not None, "call open() before ask()"
        from assay.search.sealed_folder import DamagedIndexError

        try:
            found = await self._threads.run(self._search, query, top_k)
        except AssayError as error:
            # An index that is gone says nothing about a query: an outage, as of any agent.
            is_gone = isinstance(error, SearchUnavailable | DamagedIndexError)
            kind = FailureKind.CONNECTION if is_gone else FailureKind.AGENT_ERROR
            raise AgentFailure(kind, str(error)) from error
        doc_ids = tuple(doc_id for doc_id, _ in found)
        if self._answerer is None:
            return AgentAnswer(doc_ids=doc_ids, scores=tuple(score for _, score in found))
        documents = [self._context.dataset.documents[doc_id] for doc_id in doc_ids]
        passages = [Passage(each.id, each.title, each.text) for each in documents]
        return await self.answer_from(query, passages)

    @property
    def takes_context(self) -> bool:
        return self._answerer is not None

    async def answer_from(self, query: str, passages: Sequence[Passage]) -> AgentAnswer:
        """Answer from these passages; a model that gets none answers from memory."""
        assert self._answerer is not None, "check takes_context first"
        from assay.llm.answerer import ModelAnswerer
        from assay.llm.prompt import EMPTY_REPLY

        try:
            if isinstance(self._answerer, ModelAnswerer) and not passages:
                answer = await self._answerer.answer_from_memory(query, _ANSWER_TOKENS)
            else:
                answer = await self._answerer.answer(query, passages, _ANSWER_TOKENS)
        except ProviderError as error:
            # A model that nobody serves is an outage: the run stops, and can be resumed.
            unreachable = error.kind is ProviderFailure.CONNECTION
            kind = FailureKind.CONNECTION if unreachable else FailureKind.AGENT_ERROR
            raise AgentFailure(kind, str(error)) from error
        if EMPTY_REPLY in answer.warnings:
            raise AgentFailure(FailureKind.AGENT_ERROR, EMPTY_REPLY)
        return AgentAnswer(
            doc_ids=tuple(passage.id for passage in passages),
            answer=answer.text,
            citations=tuple(passages[place - 1].id for place in answer.citations),
        )

    def _load_retriever(self) -> _Search:
        if self._mode == "tuned":  # this extra brings [search] too: one command, not two in turn
            require_extras("builtin:tuned", "lightgbm", "scipy", "threadpoolctl")
        from assay.search.embedding import open_embedder
        from assay.search.index import open_retriever
        from assay.search.retriever import check_request

        mode = check_request("any", 1, self._mode)
        embedder = None if mode == "bm25" else open_embedder(self._context.embedder)
        retriever = open_retriever(
            self._context.dataset,
            mode,
            embedder=embedder,
            bm25=self._bm25,
            progress=self._context.progress,
        )
        self._close = retriever.close
        words = replace(self._bm25, language=retriever.bm25.language)
        described = {"mode": mode, "bm25": str(words)}
        described |= {"embedder": embedder.name} if embedder else {}
        self.info = replace(self.info, retriever=described)
        if mode == "tuned":
            details = "; ".join(filter(None, ["learned from train", self.info.details]))
            self.info = replace(self.info, details=details, learned_from=("train",))

        def search(query: str, top_k: int) -> list[tuple[str, float]]:
            return [(hit.doc_id, hit.score) for hit in retriever.search(query, top_k, mode=mode)]

        return search


class PurpleProcess:
    """`purple:MODE`: the purple agent in another process, started by `open`.

    It ends with ours, when the pipe to its stdin closes: the operating system does that also if we
    are killed. `variables` of the environment choose its embedder and BM25 settings.
    """

    def __init__(self, target: Target, context: OpenContext) -> None:
        if target.fragment or context.answers:
            raise UsageError("purple: targets only retrieve; with --answers, use builtin:hybrid")
        require_extras("the purple agent", "a2a", "onnxruntime", "starlette", "uvicorn")
        self._mode = target.address or "hybrid"
        self._context = context
        chosen = [each for each in (context.embedder, context.bm25) if each is not None]
        self.variables = {k: v for each in chosen for k, v in each.as_environment().items()}
        track = builtin_track(self._mode, context.track)
        self.info = AgentInfo(f"purple:{self._mode}", protocol="a2a", track=track)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: Process | None = None
        self._agent: A2AAgent | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "call open() first"
        return self._process.pid

    async def open(self) -> None:
        """Start the process and wait until its index is loaded. Raises `TargetError`."""
        if is_private():
            raise UsageError(
                "purple: targets write the documents to a temporary folder, which a private run "
                "must not: use builtin:bm25, or a2a:URL with an agent that is running"
            )
        self._context.progress("starting the purple agent", 0, None)
        self._folder = tempfile.TemporaryDirectory(prefix="assay-purple-")
        url = await self._start(Path(self._folder.name))
        await self._wait_until_ready(url)
        self._folder.cleanup()  # it holds the documents in memory now; nothing stays behind
        from assay.targets.a2a import A2AAgent

        # Whatever this process may call, its own child is part of it.
        context = replace(self._context, policy=UNRESTRICTED, mapping=None)
        self._agent = A2AAgent(Target("a2a", url), context)
        await self._agent.open()
        self.info = replace(self.info, details=self._agent.info.details)

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        assert self._agent is not None, "call open() before ask()"
        return await self._agent.ask(query, top_k)

    async def close(self) -> None:
        if self._agent is not None:
            await self._agent.close()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()  # which tells it to stop
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        if self._folder is not None:
            self._folder.cleanup()

    async def _start(self, folder: Path) -> str:
        """Start it and return the address that it listens on."""
        from assay.data.beir import write_beir

        data = folder / "data" / re.sub(r"[^\w-]+", "-", self._context.dataset.name)
        await asyncio.to_thread(write_beir, self._context.dataset, data)
        # -P: a json.py in the working folder must not be imported for the library's.
        command = [sys.executable, "-P", "-c", _SERVE, "serve", "purple"]
        command += ["--stop-with-stdin", "--mode", self._mode, "--dataset", str(data)]
        command += ["--host", "127.0.0.1", "--port", "0"]
        environment = {name: each for name, each in os.environ.items() if name not in _DROPPED}
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                env=environment | self.variables,
                start_new_session=True,  # Ctrl-C is for us; we end the agent when we are done
            )
        assert self._process.stdout is not None
        line = b""  # stays empty if the process ends, or says nothing in time
        with suppress(TimeoutError):
            async with asyncio.timeout(_START_SECONDS):
                line = await self._process.stdout.readline()
        if not line:
            raise self._failed(f"did not listen within {_START_SECONDS:g} s")
        return line.decode().strip()

    async def _wait_until_ready(self, url: str) -> None:
        """As long as it takes: the first time, an index is built."""
        from assay.net.client import open_client
        from assay.targets.http_agent import ReadyState, ask_readiness, ready_url

        assert self._process is not None
        async with open_client(UNRESTRICTED) as http:
            while self._process.returncode is None:
                now = await ask_readiness(http, ready_url(url))
                if now.state is ReadyState.READY:
                    return
                if now.state is ReadyState.FAILED:
                    raise self._failed(f"could not load its index: {now.why}")
                if now.progress is not None:
                    self._context.progress(*now.progress)
                await asyncio.sleep(_POLL_SECONDS)
        raise self._failed("exited while loading its index")

    @property
    def _log(self) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / "log.jsonl"

    def _failed(self, what: str) -> TargetError:
        with open_file(self._log) as file:
            log = read_tail(file, _LOG_TAIL).strip()
        return TargetError(f"the purple agent {what}; its log ends with:\n{log or '(empty)'}")
