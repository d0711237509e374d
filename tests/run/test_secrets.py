"""A secret in a target is written nowhere: not by a run, a report, a list, a page or a message."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from tests.serve.serving import serving
from tests.tiny_dataset import tiny_dataset

from assay.cli.app import app as command
from assay.errors import TargetError, UsageError
from assay.evaluation.evaluation import Evaluation, Events
from assay.evaluation.plan import open_agent
from assay.evaluation.run import Run
from assay.net.redact import SecretText, full_text, mask_secrets, reveal
from assay.report.html import command_of
from assay.report.terminal import plain_text, render_report
from assay.run.config import RunConfig, arguments, resumed
from assay.serve.ui.app import ui_app
from assay.serve.ui.evaluations import child_input

CANARY = "hunter2-canary-9f8e7d6c"

SERVER = """
import sys
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
server = MCPServer("search")

@server.tool()
def search(query: str, top_k: int = 5) -> dict:
    raise ToolError("wrong key: " + " ".join(sys.argv[1:]))

server.run()
"""


def repeating_service() -> Starlette:
    """Finds documents for one query in two, and repeats the key that it was sent in its errors."""

    async def search(request: Request) -> Response:
        query = request.query_params.get("q") or "query 1"
        if int(query.split()[1]) % 2:
            return JSONResponse({"error": f"bad request {request.url}"}, 400)
        return JSONResponse({"ids": [f"d{query.split()[1]}"]})

    return Starlette(routes=[Route("/{path:path}", search, methods=["GET", "POST"])])


def shown_by(run: Run, out: Path) -> Iterator[tuple[str, str]]:
    for path in out.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        yield str(path), str(path) + content.decode("utf-8", "replace")
    yield "terminal", plain_text(render_report(run.report, path=str(run.folder)))
    yield "repr", repr(run.report.config) + repr(run.folder.read_header())
    yield "repeat command", command_of(run.report.config)
    yield "arguments", repr(arguments(run.report.config))
    for words in (["runs", str(out)], ["runs", str(out), "--json"], ["report", str(run.folder)]):
        result = CliRunner().invoke(command, words)
        yield " ".join(words[:1]), result.output
    run_page = f"/runs/{run.folder.name}"
    pages = ["/", run_page, f"{run_page}?tab=queries", f"{run_page}/report.html", "/?view=board"]
    pages += ["/evaluate", f"/evaluate?run={run.folder.name}", f"{run_page}?tab=settings"]
    with TestClient(ui_app(out), base_url="http://127.0.0.1") as client:
        for page in pages:
            answer = client.get(page)
            assert answer.status_code == 200, page
            yield page, answer.text


TARGETS: dict[str, tuple[str, dict[str, Any]]] = {
    "rest query": (f"rest:{{url}}/s?q={{{{query}}}}&code={CANARY}", {"mapping": ("ids=ids",)}),
    "rest body": (
        "rest:{url}/s?q={{query}}",
        {"mapping": ("ids=ids",), "request": f'{{"api_key": "{CANARY}", "q": "{{query}}"}}'},
    ),
    "rest path": (f"rest:{{url}}/bot{CANARY}/s?q={{{{query}}}}", {"mapping": ("ids=ids",)}),
    "openai query": (f"openai:{{url}}/v1?k1={CANARY}#m", {}),
}


@pytest.mark.parametrize("kind", TARGETS)
async def test_a_run_writes_no_secret_of_its_target(tmp_path: Path, kind: str) -> None:
    target, settings = TARGETS[kind]
    data = tiny_dataset(4)
    said: list[str] = []
    async with serving(repeating_service()) as url:
        config = RunConfig(target=target.format(url=url), retries=0, **settings)
        evaluation = Evaluation.plan(config, data)
        listener = Events(message=said.append)
        run = await evaluation.start(open_agent(config, data), tmp_path, events=listener)
    await asyncio.to_thread(_expect_no_canary, run, tmp_path, said)


def _expect_no_canary(run: Run, out: Path, said: list[str]) -> None:
    found = [name for name, text in shown_by(run, out) if CANARY in text]
    assert found == []
    assert CANARY not in " ".join(said)


async def test_a_command_that_repeats_its_key_is_not_quoted_with_it(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    data = tiny_dataset(2)
    target = f"mcp-stdio:{sys.executable} {script} --api-key {CANARY}"
    config = RunConfig(target=target, retries=0, mapping=(f"arg.api_key={CANARY}",))
    said: list[str] = []
    out = tmp_path / "runs"
    run = await Evaluation.plan(config, data).start(
        open_agent(config, data), out, events=Events(message=said.append)
    )
    assert "wrong key: --api-key ***" in run.report.failure_examples["agent error"]
    await asyncio.to_thread(_expect_no_canary, run, out, said)


async def test_a_command_that_fails_to_start_is_not_quoted_with_its_key(tmp_path: Path) -> None:
    code = f"import sys; sys.exit('bad key {CANARY}')"
    target = f'mcp-stdio:env KEY={CANARY} {sys.executable} -c "{code}"'
    config = RunConfig(target=target)
    data = tiny_dataset(1)
    with pytest.raises(TargetError, match=r"bad key \*\*\*") as error:
        await Evaluation.plan(config, data).start(open_agent(config, data), tmp_path)
    assert CANARY not in str(error.value)


def test_doctor_shows_no_secret() -> None:
    target = f"rest:http://127.0.0.1:9/s?q={{query}}&code={CANARY}"
    for extra in ([], ["--json"]):
        result = CliRunner().invoke(command, ["doctor", target, *extra])
        assert CANARY not in result.output + str(result.exception)


def test_a_run_is_resumed_with_its_target_given_again(tmp_path: Path) -> None:
    target = f"rest:http://h/s?q={{query}}&code={CANARY}"
    stored = RunConfig.from_json(json.loads(json.dumps(RunConfig(target=target).to_json())))
    assert stored.target == "rest:http://h/s?q={query}&code=***"
    with pytest.raises(UsageError, match="has a secret that is not stored with a run"):
        open_agent(stored, tiny_dataset(1))
    again = resumed(stored, {"target": target}, "run-1")
    assert full_text(again.target) == target
    other = target.replace("//h/", "//other/")
    with pytest.raises(UsageError, match="was started with target") as refused:
        resumed(stored, {"target": other}, "run-1")
    assert CANARY not in str(refused.value)


def test_a_process_for_the_run_gets_the_full_target() -> None:
    target = f"rest:http://h/s?q={{query}}&code={CANARY}"
    given = RunConfig(target=target, baseline=target, headers=(f"Authorization: Bearer {CANARY}",))
    read = RunConfig.from_json(json.loads(child_input(given, Path("runs")))["config"])
    assert full_text(read.target) == full_text(read.baseline) == target
    assert (read, full_text(read.headers[0])) == (given, full_text(given.headers[0]))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a2a:http://u:p@h/x", "a2a:http://***@h/x"),
        ("a2a:https://h/x?code=ab12", "a2a:https://h/x?code=***"),
        ("rest:http://h/s?q={query}&query_by=title,text&rerank=true&x=0.5", None),
        ("rest:http://h/s?q={query}&pass=word", "rest:http://h/s?q={query}&pass=***"),
        ("rest:http://h/s?q={query}&api_key=${KEY}", None),
        ("mcp-stdio:docker run -e T=a --env=U=b i", "mcp-stdio:docker run -e T=*** --env=U=*** i"),
        (
            "mcp-stdio:npx remote u --header 'Authorization: Bearer abc.def'",
            "mcp-stdio:npx remote u --header 'Authorization: ***'",
        ),
        ("builtin:bm25#openai:m@http://u:p@x/v1", "builtin:bm25#openai:m@http://***@x/v1"),
        ('{"api_key": "abc", "q": "{query}"}', '{"api_key": "***", "q": "{query}"}'),
        ('{"auth": {"id": "abc"}, "q": "x"}', '{"auth": {"id": "***"}, "q": "x"}'),
        ('{"api_keys": ["abc", "def"], "n": 1}', '{"api_keys": ["***", "***"], "n": 1}'),
        ("rest:http://h/sk-abcd1234abcd1234abcd/s", "rest:http://h/***/s"),
        ("arg.token=abc", "arg.token=***"),
        ("rest:https://h/hooks/T0/X9fK2lQpZ7Rt4Wv8Yb1Nc3Mh?q=1", "rest:https://h/hooks/T0/***?q=1"),
        ("a2a:http://h/3f2a9b8c7d6e5f4a3b2c1d0e9f8a7b6c/x", "a2a:http://h/***/x"),
        ("a2a:http://h/x#access_token=abc", "a2a:http://h/x#access_token=***"),
        ("mcp:http://h/x#k7Qp2Zr9Lw4Xc8Vb1Nm6", "mcp:http://h/x#***"),
        ("openai:https://h/v1#meta-llama/Llama-3.3-70B-Instruct-Turbo-FP8", None),
        ("a2a:http://h/collections/550e8400-e29b-41d4-a716-446655440000/points", None),
        ("http://h/sentence-transformers/all-MiniLM-L6-v2/onnx/model_qint8_avx512_vnni.onnx", None),
        ("python:my.module:find", None),
    ],
)
def test_what_is_masked(text: str, shown: str | None) -> None:
    masked = mask_secrets(text)
    assert masked == (text if shown is None else shown)
    assert full_text(masked) == text
    assert isinstance(masked, SecretText) is (shown is not None)
    # What was masked once is not masked again, and cannot be used without being given again.
    assert mask_secrets(str(masked)) == masked
    if shown is not None:
        with pytest.raises(UsageError):
            reveal(str(masked))
