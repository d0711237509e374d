"""Targets `purple:MODE[#PROVIDER]`: Assay's purple agent in a process of its own, over real A2A.

The process ends with ours: it stops when the pipe to its stdin closes, which the operating system
does even where we are killed.
"""

import asyncio
import os
import re
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from pathlib import Path

from assay.data.beir import write_beir
from assay.data.dataset import Dataset
from assay.errors import TargetError, UsageError
from assay.extras import require_extras
from assay.files import open_file, read_tail
from assay.llm.passages import EXTRACTIVE
from assay.llm.provider_kinds import PROVIDER_VARIABLE
from assay.net.client import open_client
from assay.net.outbound import UNRESTRICTED
from assay.net.redact import OWN_SECRETS
from assay.privacy import is_private
from assay.progress import Progress, silent
from assay.targets.a2a import A2AAgent
from assay.targets.http_agent import ReadyState, ask_readiness, ready_url
from assay.targets.protocol import AgentAnswer, AgentInfo
from assay.targets.target_kinds import OpenContext, Target, builtin_track

_START_S = 60.0
_STOP_S = 3.0
_POLL_S = 0.1
_LOG_TAIL = 2000

# Settings for a user's own servers must not affect this one.
_DROPPED = (
    *OWN_SECRETS,
    "AGENT_TOKEN",
    "MCP_SERVER_URL",
    "ASSAY_CARD_URL",
    "ASSAY_ANSWERS",
)

# An agent of ours has the settings that it is given here, whatever assay.toml says.
_SERVE = "from assay.cli.app import app; app(default_map={'serve': {'purple': {}}})"


class PurpleProcess:
    """The purple agent, started when it is opened.

    `answers` is the model that answers from what is found, named as for `--judge`, or `extractive`
    for quotes; empty for documents alone. `variables` of the environment choose its embedder and
    its BM25 settings. `progress` is called while its index is loaded.
    """

    def __init__(
        self,
        mode: str,
        dataset: Dataset,
        *,
        track: str = "undeclared",
        answers: str = "",
        variables: Mapping[str, str] | None = None,
        progress: Progress = silent,
    ) -> None:
        named = f"#{answers}" if answers not in ("", EXTRACTIVE) else ""
        self.info = AgentInfo(
            name=f"purple:{mode}{named}", protocol="a2a", track=builtin_track(mode, track)
        )
        self._answers = answers
        self._mode = mode
        self._dataset = dataset
        self._progress = progress
        self._variables = dict(variables or {})
        if answers:
            self._variables[PROVIDER_VARIABLE] = answers
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: Process | None = None
        self._agent: A2AAgent | None = None

    @classmethod
    def from_target(cls, target: Target, context: OpenContext) -> "PurpleProcess":
        """`purple:MODE`, or `purple:MODE#PROVIDER` for a model that answers."""
        if target.fragment and not context.answers:
            raise UsageError(
                f"target '{target}' names a model, which is used only for answers; "
                "add --answers, or leave out the part after #"
            )
        require_extras("the purple agent", "a2a", "onnxruntime", "starlette", "uvicorn")
        chosen = [each for each in (context.embedder, context.bm25) if each is not None]
        variables = {name: text for each in chosen for name, text in each.as_environment().items()}
        return cls(
            target.address or "hybrid",
            context.dataset,
            track=context.track,
            answers=(target.fragment or EXTRACTIVE) if context.answers else "",
            variables=variables,
            progress=context.progress,
        )

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None, "call open() first"
        return self._process.pid

    async def open(self) -> None:
        """Start the process and wait until its index is loaded. Raises `TargetError`."""
        if is_private():
            raise UsageError(
                "purple: targets write the documents to a temporary folder, which a private run "
                "must not: use builtin:bm25, or a2a:URL with an agent that is running"
            )
        self._progress("starting the purple agent", 0, None)
        self._folder = tempfile.TemporaryDirectory(prefix="assay-purple-")
        url = await self._start(Path(self._folder.name))
        await self._wait_until_ready(url)
        self._folder.cleanup()  # it holds the documents in memory now; nothing stays behind
        self._agent = A2AAgent(url)
        await self._agent.open()
        details = self._agent.info.details
        details += f"; answers: {self._answers}" if self._answers else ""
        self.info = AgentInfo(self.info.name, self.info.protocol, self.info.track, details)

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        """Ask the process over A2A."""
        assert self._agent is not None, "call open() before ask()"
        return await self._agent.ask(query, top_k)

    async def close(self) -> None:
        """Stop the process and remove its folder."""
        if self._agent is not None:
            await self._agent.close()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()  # which tells it to stop
            try:
                async with asyncio.timeout(_STOP_S):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        if self._folder is not None:
            self._folder.cleanup()

    async def _start(self, folder: Path) -> str:
        """Start it and return the address that it listens on."""
        data = folder / "data" / re.sub(r"[^\w-]+", "-", self._dataset.name)
        await asyncio.to_thread(write_beir, self._dataset, data)
        command = [sys.executable, "-P", "-c", _SERVE, "serve", "purple"]
        command += ["--stop-with-stdin", "--mode", self._mode, "--dataset", str(data)]
        command += ["--host", "127.0.0.1", "--port", "0"]
        command += ["--answers"] if self._answers else []
        environment = {name: each for name, each in os.environ.items() if name not in _DROPPED}
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                env=environment | self._variables,
                start_new_session=True,  # Ctrl-C is for us; we end the agent when we are done
            )
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(_START_S):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise self._failed(f"did not start within {_START_S:g} s") from None
        if not line:
            raise self._failed("exited before it listened")
        return line.decode().strip()

    async def _wait_until_ready(self, url: str) -> None:
        """As long as it takes: the first time, an index is built."""
        assert self._process is not None
        async with open_client(UNRESTRICTED) as http:
            while self._process.returncode is None:
                now = await ask_readiness(http, ready_url(url))
                if now.state is ReadyState.READY:
                    return
                if now.state is ReadyState.FAILED:
                    raise self._failed(f"could not load its index: {now.why}")
                if now.progress is not None:
                    self._progress(*now.progress)
                await asyncio.sleep(_POLL_S)
        raise self._failed("exited while loading its index")

    @property
    def _log(self) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / "log.jsonl"

    def _failed(self, what: str) -> TargetError:
        with open_file(self._log) as file:
            log = read_tail(file, _LOG_TAIL).strip()
        return TargetError(f"the purple agent {what}; its log ends with:\n{log or '(empty)'}")
