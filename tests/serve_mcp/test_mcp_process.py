"""The command as users start it: over stdio and over HTTP, with nothing of a query in its logs."""

import json
import os
import signal
import sys
from pathlib import Path

import httpx
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.session import ClientRequestContext
from mcp_types import CreateMessageRequestParams, CreateMessageResult, TextContent
from tests.serve.serving import started

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


@pytest.mark.slow
async def test_logs_and_progress_hold_nothing_of_queries_or_documents(
    corpus: Path, tmp_path: Path, http: httpx.AsyncClient
) -> None:
    steps: list[str] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append(str(message))

    query = f"coffee {CANARY}"
    options = ("--port", "0", "--mode", "bm25", "--dataset", str(corpus))
    with started("mcp", *options, folder=tmp_path) as (process, url):
        for mode in ("legacy", "2026-07-28"):
            async with Client(f"{url}/mcp", mode=mode, sampling_callback=sampled) as client:
                for tool in ("search_nfcorpus", "nc_semantic_search_answer"):
                    done = await client.call_tool(tool, {"query": query}, progress_callback=note)
                    assert not done.is_error
                refused = await client.call_tool("search_nfcorpus", {"query": CANARY * 2000})
                assert refused.is_error
                for broken in (
                    client.call_tool(CANARY, {}),
                    client.read_resource(f"doc://{CANARY}"),
                    client.get_prompt(CANARY, {}),
                ):
                    with pytest.raises(Exception, match=r"no such|unknown document|no prompts"):
                        await broken
        await http.post(f"{url}/search_nfcorpus?q={CANARY}", json={"query": query})
        await http.post(f"{url}/search_nfcorpus", json={"query": [CANARY]})
        await http.post(f"{url}/mcp", content=f'{{"{CANARY}":')
        await http.post(f"{url}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": CANARY})
        await http.get(f"{url}/{CANARY}", headers={"Host": CANARY, "Origin": f"http://{CANARY}"})
        process.terminate()
        # uvicorn ends cleanly and then hands the signal on, as a shell expects.
        assert process.wait(20) in (0, -signal.SIGTERM)
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) > 20
    assert [line for line in lines if CANARY in line] == []
    assert [line for line in lines if '"level":"debug"' in line] == []
    assert set(steps) == {"searching", "answering", "done"}
