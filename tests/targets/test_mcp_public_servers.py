"""Public MCP servers and old versions of the library: measured, or refused with what is missing."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.data import Dataset, Document, Query
from assay.evaluation.evaluation import Evaluation
from assay.run.config import RunConfig
from assay.targets import open_target
from assay.targets.answer_reader import parse_mapping
from assay.targets.mcp_connection import McpSession, StdioServer
from assay.targets.target_kinds import OpenContext

FOLDER = os.environ.get("ASSAY_MCP_SERVERS")
HERE = Path(__file__).parent
WORDS = ("calcium", "coffee", "turmeric", "sunlight", "walnuts")
DATA = Dataset(
    "five",
    documents={f"MED-{n}": Document(f"MED-{n}", "", word) for n, word in enumerate(WORDS)},
    queries={f"q{n}": Query(f"q{n}", word) for n, word in enumerate(WORDS)},
    judgments={"test": {f"q{n}": {f"MED-{n}": 1} for n in range(len(WORDS))}},
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        FOLDER is None,
        reason="ASSAY_MCP_SERVERS is not set: the folder that scripts/get-mcp-servers.sh fills",
    ),
]


def python(folder: str, script: str, *arguments: str, **variables: str) -> str:
    settings = {"PYTHONPATH": f"{FOLDER}/{folder}", **variables}
    words = [f"{name}={value}" for name, value in settings.items()]
    return " ".join(["env", *words, sys.executable, str(HERE / script), *arguments])


def node(server: str, *arguments: str) -> str:
    path = f"{FOLDER}/npm/node_modules/@modelcontextprotocol/{server}/dist/index.js"
    return " ".join(["node", path, *arguments])


async def call(command: str, *calls: tuple[str, dict[str, Any]]) -> None:
    session = McpSession(StdioServer(command))
    for tool, arguments in calls:
        result = await session.call(tool, arguments)
        assert not result.is_error, result
    await session.close()


async def evaluate(command: str, mapping: Sequence[str], tmp_path: Path) -> tuple[float, str]:
    config = RunConfig(target=f"mcp-stdio:{command}", dataset="five", mapping=tuple(mapping))
    agent = open_target(config.target, OpenContext(DATA, mapping=parse_mapping(mapping)))
    run = await Evaluation.plan(config, DATA).start(agent, tmp_path / "runs")
    assert run.report.summary.successful_queries == len(WORDS)
    return run.metrics["ndcg@5"], agent.info.details


@pytest.mark.parametrize(
    ("version", "tool"), [("1.2", "search_docs"), ("1.5", "find_ids"), ("1.8", "search_docs")]
)
async def test_servers_of_old_versions_are_measured(version: str, tool: str) -> None:
    command = python(f"mcp-{version}", "mcp_old_server.py")
    agent = open_target(f"mcp-stdio:{command}#{tool}", OpenContext(DATA))
    try:
        await agent.open()
        assert (await agent.ask("coffee", 2)).doc_ids == ("MED-1", "MED-0")
        assert "MCP 2024-11-05" in agent.info.details
    finally:
        await agent.close()


async def test_memory_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_FILE_PATH", str(tmp_path / "memory.jsonl"))
    entities = [
        {"name": f"MED-{n}", "entityType": "note", "observations": [f"about {word}"]}
        for n, word in enumerate(WORDS)
    ]
    command = node("server-memory")
    await call(command, ("create_entities", {"entities": entities}))
    ndcg, details = await evaluate(command, (), tmp_path)
    assert (ndcg, "tool 'search_nodes', query as 'query', no top_k" in details) == (1.0, True)
