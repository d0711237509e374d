"""Public MCP servers and old versions of the library: measured, or refused with what is missing."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.targets.every_kind import opened_target

from assay.data import Dataset, Document
from assay.targets.mcp_connection import McpSession, StdioServer
from assay.targets.target_kinds import OpenContext

FOLDER = os.environ.get("ASSAY_MCP_SERVERS")
WORDS = ("calcium", "coffee", "turmeric", "sunlight", "walnuts")
DATA = Dataset("five", {f"MED-{n}": Document(f"MED-{n}", "", "") for n in range(5)}, {}, {})

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        FOLDER is None,
        reason="ASSAY_MCP_SERVERS is not set: the folder that scripts/get-mcp-servers.sh fills",
    ),
]


@pytest.mark.parametrize("version", ["1.2", "1.5", "1.8"])
async def test_servers_of_old_versions_are_measured(version: str) -> None:
    script = Path(__file__).with_name("mcp_old_server.py")
    command = f"env PYTHONPATH={FOLDER}/mcp-{version} {sys.executable} {script}"
    async with opened_target(f"mcp-stdio:{command}#search_docs", OpenContext(DATA)) as agent:
        assert (await agent.ask("coffee", 2)).doc_ids == ("MED-1", "MED-0")
        assert "MCP 2024-11-05" in agent.info.details


async def test_memory_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_FILE_PATH", str(tmp_path / "memory.jsonl"))
    entities: list[dict[str, Any]] = [
        {"name": f"MED-{n}", "entityType": "note", "observations": [f"about {word}"]}
        for n, word in enumerate(WORDS)
    ]
    path = f"{FOLDER}/npm/node_modules/@modelcontextprotocol/server-memory/dist/index.js"
    session = McpSession(StdioServer(f"node {path}"))
    assert not (await session.call("create_entities", {"entities": entities})).is_error
    await session.close()
    async with opened_target(f"mcp-stdio:node {path}", OpenContext(DATA)) as agent:
        assert (await agent.ask("turmeric", 5)).doc_ids == ("MED-2",)
        assert "tool 'search_nodes', query as 'query', no top_k" in agent.info.details
