"""The fixtures. They are plain functions for the session, so that any project can use them: with
pytest-asyncio, with anyio, or from tests that call `asyncio.run`.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from assay.pytest_plugin.settings import (
    GROUND_TRUTH,
    OLLAMA_VARIABLE,
    PROVIDER_VARIABLE,
    Settings,
)
from assay.pytest_plugin.telling import told_in_words, without_passwords

if TYPE_CHECKING:
    from assay.agents import Agent
    from assay.pytest_plugin.cases import RagCase, RagTestData
    from assay.pytest_plugin.evaluation_llm import EvaluationLLM
    from assay.pytest_plugin.sampling_client import SamplingClient
    from assay.pytest_plugin.session_loop import SessionLoop

Record = Callable[..., None]


@pytest.fixture(scope="session")
def assay_settings(pytestconfig: pytest.Config) -> Settings:
    return Settings.of(pytestconfig)


@pytest.fixture(scope="session")
def assay_loop() -> Iterator["SessionLoop"]:
    from assay.pytest_plugin.session_loop import session_loop

    with session_loop() as loop:
        yield loop


@pytest.fixture(scope="session")
def ground_truth_data(
    pytestconfig: pytest.Config, assay_settings: Settings
) -> list[dict[str, Any]]:
    """The records of ground_truth.json: query_id, query_text, ground_truth_answer, ..."""
    from assay.pytest_plugin.cases import dataset_of, read_ground_truth

    path = assay_settings.ground_truth
    if path is None:
        pytest.skip(
            "there are no reference answers: name a file of them with --assay-ground-truth, or "
            f"make {GROUND_TRUTH} with: assay ground-truth"
        )
    with told_in_words():
        return read_ground_truth(path, dataset_of(pytestconfig))


@pytest.fixture(scope="session")
def nfcorpus_test_data(
    pytestconfig: pytest.Config, assay_settings: Settings, request: pytest.FixtureRequest
) -> "RagTestData":
    """The selected queries, each with its expected documents and, where there is one, its
    reference answer; `dataset` holds everything.
    """
    from assay.pytest_plugin.cases import load_test_data, reference_answers

    records: list[dict[str, Any]] = []
    if assay_settings.ground_truth is not None:
        records = request.getfixturevalue("ground_truth_data")
    with told_in_words():
        return load_test_data(pytestconfig, reference_answers(records))


@pytest.fixture
def rag_case(request: pytest.FixtureRequest, nfcorpus_test_data: "RagTestData") -> "RagCase":
    """One query of the test data: a test that asks for this runs once for each."""
    return nfcorpus_test_data.case(request.param)


@pytest.fixture
def rag_record(request: pytest.FixtureRequest) -> Record:
    """`rag_record(recall_at_10=0.4, judge="none")` puts figures and labels into the report."""
    from assay.pytest_plugin.reporting import record_figures

    def record(**figures: float | str | None) -> None:
        record_figures(request.node, figures)

    return record


@pytest.fixture(scope="session")
def rag_agent(
    request: pytest.FixtureRequest,
    assay_loop: "SessionLoop",
    assay_settings: Settings,
    nfcorpus_test_data: "RagTestData",
) -> Iterator["Agent"]:
    """The target, opened: `await rag_agent.ask(query, top_k)` gives documents, and an answer where
    it answers. Documents for a Nextcloud are uploaded first, and waited for.
    """
    from assay.agents import open_target
    from assay.pytest_plugin.nextcloud_notes import wait_for_notes

    target, dataset = assay_settings.target, nfcorpus_test_data.dataset
    if target.startswith("nextcloud:"):
        request.getfixturevalue("note_mapping")
    with told_in_words():
        agent = open_target(target, dataset, answers=True)
        assay_loop.run(agent.open)
    try:
        if target.startswith("nextcloud:"):
            with told_in_words():
                assay_loop.run(wait_for_notes, agent, dataset)
        yield assay_loop.lend(agent)
    finally:
        assay_loop.run(agent.close)


@pytest.fixture(scope="session")
def mcp_sampling_client(
    assay_loop: "SessionLoop", assay_settings: Settings
) -> Iterator["SamplingClient"]:
    """An MCP session with the target, or with Assay's own server where the target is built in. It
    offers the configured model to the server; without one it offers none.
    """
    from assay.answer.providers.opening import open_provider
    from assay.pytest_plugin.sampling_client import SamplingClient, connected, speaks_mcp

    target = assay_settings.target
    if not speaks_mcp(target):
        shown = without_passwords(target)
        pytest.skip(f"--assay-target {shown!r} is no MCP server; mcp:URL or mcp-stdio:COMMAND is")
    with told_in_words():
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
def evaluation_llm(
    assay_loop: "SessionLoop", assay_settings: Settings
) -> Iterator["EvaluationLLM"]:
    """The judge's model, apart from the one that answers: `await evaluation_llm(prompt)`."""
    from assay.answer.providers.opening import open_provider
    from assay.pytest_plugin.evaluation_llm import EvaluationLLM

    if assay_settings.model is None:
        what = "no model" if assay_settings.provider is None else "'extractive' has no model"
        pytest.skip(
            f"{what} to judge with: set {PROVIDER_VARIABLE} or give --assay-provider; "
            f"{OLLAMA_VARIABLE} alone means Ollama"
        )
    with told_in_words():
        provider = open_provider(assay_settings.model)
    yield EvaluationLLM(provider)
    assay_loop.run(provider.close)
