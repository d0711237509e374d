"""Strangers' MCP clients search through the recorder, each in a process of its own."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from tests.evaluation.searching_agents import DATASET

from assay.data.dataset import Query
from assay.evaluation.recorder import ADDRESS_VARIABLE, open_recorder
from assay.run.config import RunConfig

SERVERS = os.environ.get("ASSAY_MCP_SERVERS", "")
CLIENT = Path(__file__).with_name("mcp_search_client.py")

pytestmark = pytest.mark.skipif(not SERVERS, reason="set ASSAY_MCP_SERVERS: get-mcp-servers.sh")


async def found_by(kind: str, url: str, query: str) -> list[str]:
    # Each needs another version of the MCP library.
    environment = {**os.environ, "PYTHONPATH": str(Path(SERVERS, kind))}
    command = (sys.executable, str(CLIENT), kind, url, query)
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=PIPE)
    out, _ = await process.communicate()
    return list(json.loads(out))


@pytest.mark.parametrize("kind", ["fastmcp", "langchain", "mcp-1.8"])
async def test_a_foreign_client_is_recorded(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS_VARIABLE, "http://127.0.0.1:0")
    config = RunConfig(target="a2a:http://127.0.0.1:1", dataset="tiny", search="builtin:bm25")
    async with (
        open_recorder(config, DATASET, lambda _message: None) as recorder,
        recorder.question(Query("q1", "word1")) as one,
        recorder.question(Query("q2", "word2")) as two,
    ):
        urls = [f"{recorder.url}/q/{session.token}/mcp" for session in (one, two)]
        found = await asyncio.gather(
            found_by(kind, urls[0], "word1"), found_by(kind, urls[1], "word2")
        )
    assert list(found) == [["d1"], ["d2"]]
    assert [[step.query for step in each.steps] for each in (one, two)] == [["word1"], ["word2"]]
