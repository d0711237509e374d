"""The command over stdio, as clients start it, with nothing of a query in its log."""

import json
import os
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.session import ClientRequestContext
from mcp_types import CreateMessageRequestParams, CreateMessageResult, TextContent

ERAS = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
CANARY = "canary-7f3a"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A BEIR folder of two documents; the first has a word that must never be logged."""
    folder = tmp_path / "tiny"
    (folder / "qrels").mkdir(parents=True)
    documents = [
        {"_id": "d1", "title": "Coffee", "text": f"Coffee widens the arteries, {CANARY}."},
        {"_id": "d2", "title": "Tea", "text": "Tea is made of leaves."},
    ]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(each) + "\n" for each in documents))
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "coffee"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    return folder


async def sampled(
    context: ClientRequestContext, params: CreateMessageRequestParams
) -> CreateMessageResult:
    text = TextContent(type="text", text="It widens them [1].")
    return CreateMessageResult(role="assistant", content=text, model="a-model")


@ERAS
async def test_stdio_serves_either_era(corpus: Path, tmp_path: Path, mode: str) -> None:
    arguments = [
        "-m",
        "assay",
        "serve",
        "mcp",
        "--stdio",
        "--mode",
        "bm25",
        "--dataset",
        str(corpus),
    ]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    with (tmp_path / "stderr").open("w+") as stderr:
        transport = stdio_client(parameters, errlog=stderr)
        async with Client(transport, mode=mode, sampling_callback=sampled) as client:
            found = await client.call_tool("search_nfcorpus", {"query": f"coffee {CANARY}"})
            answer = await client.call_tool("nc_semantic_search_answer", {"query": "coffee"})
            assert (await client.read_resource("doc://d2")).contents
    assert "d1" in str(found.structured_content)
    assert isinstance(answer.structured_content, dict)
    assert answer.structured_content["search_method"] == "bm25+sampling"
    assert answer.structured_content["generated_answer"] == "It widens them [1]."
    assert CANARY not in (tmp_path / "stderr").read_text()
