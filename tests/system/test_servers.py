"""What callers and operators of the servers see: from the command line and the wire."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import mcp
import pytest
from tests.serve.serving import request_0_3
from tests.system.conftest import Assay
from tests.system.running import serving

MCP = ("mcp", "--dataset", "notes", "--mode", "bm25")
QUERY = "mortgage fixed rate"


@pytest.mark.parametrize(("proxies", "last"), [({}, 429), ({"FORWARDED_ALLOW_IPS": "*"}, 401)])
def test_guesses_behind_one_proxy_are_counted_together_unless_it_is_named(
    tmp_path: Path, proxies: dict[str, str], last: int
) -> None:
    with serving(*MCP, folder=tmp_path, ASSAY_TOKEN="s", **proxies) as url:
        for n in range(30):
            headers = {"Authorization": "Bearer guess", "X-Forwarded-For": f"10.0.0.{n}"}
            answer = httpx.get(f"{url}/stats", headers=headers)
    assert answer.status_code == last


def test_a_server_serves_without_httptools(tmp_path: Path) -> None:
    """Plain uvicorn comes with other packages, without it."""
    (tmp_path / "httptools.py").write_text("raise ModuleNotFoundError(name='httptools')\n")
    python = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "assay", "serve", "ui", "--port", "0"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": python},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert httpx.get(f"{url}/health", timeout=60).status_code == 200
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors


def test_bm25_has_one_scale_on_every_surface(assay: Assay, tmp_path: Path) -> None:
    found = assay("search", QUERY, *MCP[1:], "--json")
    best = json.loads(found.stdout)["results"][0]
    with serving(*MCP, folder=tmp_path) as url:
        answer = httpx.post(f"{url}/search_nfcorpus", json={"query": QUERY, "top_k": 3}, timeout=60)
        above = asyncio.run(call(url, "nc_semantic_search", score_threshold=best["score"] + 0.01))
        below = asyncio.run(call(url, "nc_semantic_search", score_threshold=best["score"] - 0.01))
    hit = answer.json()["results"][0]
    assert (hit["doc_id"], hit["score"]) == (best["doc_id"], pytest.approx(best["score"]))
    assert (above["total_found"], below["total_found"]) == (0, 1)


async def call(url: str, tool: str, path: str = "/mcp", **arguments: object) -> dict[str, Any]:
    async with mcp.Client(url + path) as client:
        result = await client.call_tool(tool, {"query": QUERY, **arguments})
    return dict(result.structured_content or {})


@pytest.mark.parametrize("path", ["", "/", "/mcp"])
def test_mcp_is_served_where_the_specification_names_it(tmp_path: Path, path: str) -> None:
    with serving(*MCP, folder=tmp_path) as url:
        found = asyncio.run(call(url, "search_nfcorpus", path, top_k=2))
    assert len(found["results"]) == 2


def test_a_wrong_search_address_is_the_reason_of_every_answer(tmp_path: Path) -> None:
    """Common pitfall 5: "Ensure MCP server URL is correct"."""
    wrong = "http://127.0.0.1:9"
    with serving("purple", "--mcp-server-url", wrong, folder=tmp_path) as url:
        request = request_0_3({"query": "calcium", "top_k": 5})
        answer = httpx.post(url, json=request, timeout=60).json()
        ready = httpx.get(f"{url}/health/ready")
        logged = (tmp_path / "server.log").read_text()
    said = answer["result"]["status"]["message"]["parts"][0]["text"]
    assert answer["result"]["status"]["state"] == "failed"
    for text in (said, logged):
        assert f"waiting for a search server at {wrong}: connection refused" in text
    assert ready.status_code == 503
