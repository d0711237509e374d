"""The fixtures. They are synchronous and have session scope, so that any project can use them: with
pytest-asyncio, with anyio, or from tests that call `asyncio.run`.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from assay.llm.provider_kinds import PROVIDER_VARIABLE
from assay.pytest_plugin import (
    GROUND_TRUTH,
    OLLAMA_VARIABLE,
    RagCase,
    RagTestData,
    Settings,
    load_test_data,
    session_dataset,
    user_errors,
)

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from anyio.from_thread import BlockingPortal

    from assay.llm.providers.opening import CachedProvider
    from assay.net.json import JsonObject
    from assay.nextcloud.client import NotesClient
    from assay.pytest_plugin.sampling_client import SamplingClient
    from assay.targets import Agent
    from assay.targets.chunks import ChunkResolver
    from assay.targets.protocol import AgentAnswer

Thing = TypeVar("Thing")
RecordAnswer = Callable[..., None]


class SessionLoop:
    """An event loop in its own thread, for connections that outlive a test."""

    def __init__(self, portal: "BlockingPortal") -> None:
        self._portal = portal
        self._thread = portal.call(get_ident)
        self.run = portal.call  # a coroutine function from a fixture, waited for

    async def ask(
        self, function: Callable[..., Coroutine[Any, Any, Thing]], *args: Any, **more: Any
    ) -> Thing:
        """Await a coroutine function from a test; canceling the test cancels the call."""
        if get_ident() == self._thread:  # called from this loop already
            return await function(*args, **more)
        there = self._portal.start_task_soon(partial(function, *args, **more))
        return await asyncio.wrap_future(there)

    def entered(
        self, manager: "AbstractAsyncContextManager[Thing]"
    ) -> "AbstractContextManager[Thing]":
        """Enter and exit an async context manager in one task, as MCP's client requires."""
        return self._portal.wrap_async_context_manager(manager)


class LoopProxy:
    """What a test gets of a thing of the session: its coroutine methods run on the session's loop.

    With a `resolver`, the chunks in an agent's answer become documents, as in `assay eval`.
    """

    def __init__(
        self, loop: SessionLoop, thing: Any, resolver: "ChunkResolver | None" = None
    ) -> None:
        self._loop = loop
        self._thing = thing
        self._resolver = resolver

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._thing, name)
        if not inspect.iscoroutinefunction(found):
            return found
        if name == "ask" and self._resolver is not None:
            return self._ask
        return partial(self._loop.ask, found)

    async def _ask(self, query: str, top_k: int) -> "AgentAnswer":
        assert self._resolver is not None
        return self._resolver.resolve(await self._loop.ask(self._thing.ask, query, top_k))

    def __repr__(self) -> str:
        return repr(self._thing)


@pytest.fixture(scope="session")
def assay_settings(pytestconfig: pytest.Config) -> Settings:
    """The options of the session."""
    with user_errors():
        return Settings.of(pytestconfig)


@pytest.fixture(scope="session")
def assay_loop() -> Iterator[SessionLoop]:
    """The event loop of the session."""
    from anyio.from_thread import start_blocking_portal

    with start_blocking_portal() as portal:
        try:
            yield SessionLoop(portal)
        finally:
            # A fixture that was interrupted while it opened leaves tasks that nothing waits for.
            portal.call(portal.stop, True)


@pytest.fixture(scope="session")
def ground_truth_data(pytestconfig: pytest.Config, assay_settings: Settings) -> list["JsonObject"]:
    """The records of ground_truth.json: query_id, query_text, ground_truth_answer, ..."""
    path = assay_settings.ground_truth
    if path is None:
        pytest.skip(
            "no reference answers found: pass a file with --assay-ground-truth, or create "
            f"{GROUND_TRUTH} with: assay ground-truth"
        )
    from assay.labels.references import load_references, reference_to_json

    with user_errors():  # with the texts that the file leaves out
        found = load_references(path, session_dataset(pytestconfig))
        return [reference_to_json(each) for each in found.values()]


@pytest.fixture(scope="session")
def nfcorpus_test_data(
    pytestconfig: pytest.Config, assay_settings: Settings, request: pytest.FixtureRequest
) -> RagTestData:
    """The selected queries, each with its expected documents and, if there is one, its
    reference answer; `dataset` holds everything.
    """
    records: list[JsonObject] = []
    if assay_settings.ground_truth is not None:
        records = request.getfixturevalue("ground_truth_data")
    with user_errors():
        return load_test_data(pytestconfig, records)


@pytest.fixture
def rag_case(request: pytest.FixtureRequest, nfcorpus_test_data: RagTestData) -> RagCase:
    """One query of the test data: a test with this fixture runs once for each query."""
    return next(case for case in nfcorpus_test_data if case.query_id == request.param)


@pytest.fixture
def rag_record(request: pytest.FixtureRequest) -> RecordAnswer:
    """`rag_record(recall_at_10=0.4, judge="none")` puts figures and labels into the report."""
    from assay.pytest_plugin.report import record_figures

    return partial(record_figures, request.node)


@pytest.fixture(scope="session")
def rag_agent(
    request: pytest.FixtureRequest,
    assay_loop: SessionLoop,
    assay_settings: Settings,
    nfcorpus_test_data: RagTestData,
) -> Iterator["Agent"]:
    """The opened target: `await rag_agent.ask(query, top_k)` returns documents, and an answer if
    the target answers. For a Nextcloud, documents are uploaded first, and the fixture waits until
    they are indexed; it answers with `nextcloud:URL#answer`.
    """
    from assay.evaluation.plan import open_agent
    from assay.targets.chunks import ChunkResolver
    from assay.targets.target_kinds import parse_target

    dataset = nfcorpus_test_data.dataset
    with user_errors():
        is_nextcloud = parse_target(assay_settings.target).kind == "nextcloud"
        config = assay_settings.run_config(answers=not is_nextcloud)
    if is_nextcloud:
        mapping: dict[str, int] = request.getfixturevalue("note_mapping")
    with user_errors():
        agent = open_agent(config, dataset)
    try:  # an agent that fails in opening may have begun a session, or a process
        with user_errors():
            assay_loop.run(agent.open)
            if is_nextcloud:
                from assay.nextcloud.upload import sample_documents, wait_until_found

                sample = sample_documents(dataset.documents, mapping)
                assay_loop.run(wait_until_found, sample, agent.ask)
        resolver = ChunkResolver(config.chunk_separator, dataset.documents)
        yield LoopProxy(assay_loop, agent, resolver)
    finally:
        assay_loop.run(agent.close)


@pytest.fixture(scope="session")
def mcp_sampling_client(
    request: pytest.FixtureRequest, assay_loop: SessionLoop, assay_settings: Settings
) -> Iterator["SamplingClient"]:
    """An MCP session with the target, or with Assay's own server for a built-in target. It offers
    the configured model to the server, if there is one.
    """
    from assay.llm.providers.opening import open_provider
    from assay.pytest_plugin.sampling_client import SamplingClient, connected
    from assay.targets.target_kinds import TARGET_KINDS, parse_target, redact_target

    target = assay_settings.target
    with user_errors():
        kind = parse_target(target).kind
    if not TARGET_KINDS[kind].speaks_mcp:
        shown = redact_target(target)
        pytest.skip(
            f"--assay-target {shown!r} is not an MCP server; use mcp:URL or mcp-stdio:COMMAND"
        )
    if kind == "nextcloud":
        request.getfixturevalue("rag_agent")  # the documents are uploaded and found
    with user_errors():
        spec = assay_settings.model
        provider = open_provider(spec) if spec else None
        opened = assay_loop.entered(connected(target, assay_settings.dataset, provider))
        client = opened.__enter__()
    try:
        yield SamplingClient(client, assay_loop, provider.name if provider else None)
    finally:
        opened.__exit__(None, None, None)
        if provider:
            assay_loop.run(provider.close)


@pytest.fixture(scope="session")
def evaluation_llm(assay_loop: SessionLoop, assay_settings: Settings) -> Iterator["CachedProvider"]:
    """The model that judges, separate from the one that answers: `await evaluation_llm(prompt)`."""
    from assay.llm.providers.opening import open_provider

    if assay_settings.model is None:
        what = "no model" if assay_settings.provider is None else "'extractive' has no model"
        pytest.skip(
            f"{what} to judge with: set {PROVIDER_VARIABLE} or pass --assay-provider; "
            f"{OLLAMA_VARIABLE} alone means Ollama"
        )
    with user_errors():
        provider = open_provider(assay_settings.model)
    yield provider
    assay_loop.run(provider.close)


@dataclass(frozen=True, slots=True)
class SemanticHit:
    """One result of `nc_client.notes.semantic_search`."""

    document_id: str


class NextcloudClient:
    """The notes of a Nextcloud: the methods of `NotesClient`, and `notes.semantic_search`, which
    asks the target of the session; `agent` is None if nobody named one.
    """

    def __init__(self, client: Any, agent: "Agent | None") -> None:
        self._client = client
        self._agent = agent
        self.notes = self

    async def semantic_search(self, query: str, limit: int = 10) -> list[SemanticHit]:
        """The documents that the notes hold, best first."""
        if self._agent is None:
            pytest.skip(
                "no search to test: set ASSAY_TARGET or pass --assay-target, such as "
                "nextcloud:http://localhost:8000 of the Nextcloud MCP server"
            )
        answer = await self._agent.ask(query, limit)
        return [SemanticHit(doc_id) for doc_id in answer.doc_ids]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@pytest.fixture(scope="session")
def assay_notes(assay_loop: SessionLoop) -> Iterator["NotesClient"]:
    """A client of the Nextcloud that NEXTCLOUD_HOST, _USERNAME and _PASSWORD name."""
    from assay.nextcloud.client import Account, NotesClient, missing_variables

    if missing := missing_variables():
        pytest.skip(f"no Nextcloud to test with: {', '.join(missing)} not set")
    with user_errors():
        account = Account.from_environment()
    with assay_loop.entered(NotesClient(account)) as client:
        yield LoopProxy(assay_loop, client)  # type: ignore[misc]


@pytest.fixture(scope="session")
def nc_client(
    request: pytest.FixtureRequest, assay_settings: Settings, assay_notes: "NotesClient"
) -> NextcloudClient:
    """The Nextcloud of the environment: its notes, and the search of the session's target."""
    agent = request.getfixturevalue("rag_agent") if assay_settings.is_named else None
    return NextcloudClient(assay_notes, agent)


@pytest.fixture(scope="session")
def note_mapping(
    request: pytest.FixtureRequest, assay_loop: SessionLoop, nfcorpus_test_data: RagTestData
) -> dict[str, int]:
    """The note id of each document. Documents that are missing from `note_mapping.json` are
    uploaded first; the fixture fails unless all of them are.
    """
    from assay.data.note_mapping import note_mapping_path, read_note_mapping
    from assay.nextcloud.upload import upload_documents

    path, documents = note_mapping_path(), nfcorpus_test_data.dataset.documents
    with user_errors():
        known = read_note_mapping(path) if path.exists() else {}
    if not documents.keys() <= known.keys():
        notes: NotesClient = request.getfixturevalue("assay_notes")
        with user_errors():
            assay_loop.run(upload_documents, documents.values(), notes, path)
    with user_errors():
        return read_note_mapping(path)
