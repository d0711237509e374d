"""`assay check` and scripts/check-agent-contract.py: what people and build servers see."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.contract.broken_agents import BROKEN_AGENTS, sync
from tests.contract.demo_agent import demo_service
from tests.contract.running import running
from tests.contract.tampering import Tampered
from tests.loopback import free_port

from assay.cli.contract import check
from assay.cli.verb import VerbCommand
from assay.contract.rules import RULES
from assay.contract.server import agent_app
from assay.errors import UsageError

SCRIPT = Path(__file__).parents[2] / "scripts" / "check-agent-contract.py"
GOOD = agent_app(demo_service())
BAD = Tampered(
    agent_app(demo_service()),
    next(each.tamper for each in BROKEN_AGENTS if each.name == "two terminal events"),
)


async def invoke(*arguments: str) -> Result:
    command = VerbCommand("check", check)
    return await asyncio.to_thread(CliRunner().invoke, command, list(arguments))


async def script(targets: str | None) -> "subprocess.CompletedProcess[str]":
    environment = {k: v for k, v in os.environ.items() if k != "AGENT_CONTRACT_TARGETS"}
    if targets is not None:
        environment["AGENT_CONTRACT_TARGETS"] = targets
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, str(SCRIPT)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


async def test_a_good_agent_is_one_quiet_line() -> None:
    async with running(GOOD) as url:
        result = await invoke(f"{url}=RAG_RETRIEVE")
    assert result.exit_code == 0
    lines = result.stdout.split("\n")
    assert lines[0] == f"RAG_RETRIEVE at {url}"
    assert lines[1] == f"conforms to the contract: {len(RULES) - 2} pass, 2 n/a"


async def test_a_fault_is_named_with_its_rule_and_what_was_seen() -> None:
    async with running(BAD) as url:
        result = await invoke(f"{url}=RAG_RETRIEVE")
    assert result.exit_code == 1
    assert "fail  must    terminal-one\n  Exactly one event is terminal" in result.stdout
    words = " ".join(result.stdout.split())
    assert "(Agent HTTP contract, Stream invariant)" in words
    assert "  fix: End each stream with one event named final" in result.stdout
    assert f"  repeat: curl -isSN {url}/agents/run/stream -H " in result.stdout
    assert "2 of 5 events are terminal" in result.stdout
    assert "violates the contract: " in result.stdout


async def test_a_name_with_controls_breaks_no_report() -> None:
    """An agent chooses the names of its fields."""
    name = "x\x00\x1b[31m\x9b\u202e\ufffe\uffff]]><b>&" + "y" * 100_000

    def add(body: dict[str, Any]) -> None:
        body["grounding"][name] = None

    async with running(Tampered(agent_app(demo_service()), sync(add))) as url:
        text = (await invoke(f"{url}=RAG_RETRIEVE", "--json")).stdout
    assert "null in grounding.x" in text
    assert not any(control in text for control in "\x00\x1b\x9b\u202e\ufffe\uffff")
    assert "y" * 5000 not in text


async def test_the_level_decides_what_fails() -> None:
    tamper = next(each.tamper for each in BROKEN_AGENTS if each.rules == "sync-recommended")
    async with running(Tampered(agent_app(demo_service()), tamper)) as url:
        codes = [
            (await invoke(f"{url}=RAG_RETRIEVE", "--level", level)).exit_code
            for level in ("must", "should")
        ]
    assert codes == [0, 1]


async def test_an_agent_that_is_not_there_exits_3() -> None:
    result = await invoke(f"http://127.0.0.1:{free_port()}=RAG_RETRIEVE")
    assert result.exit_code == 3
    assert "unreachable  connection refused" in result.stdout


async def test_inputs_can_be_given() -> None:
    async with running(GOOD) as url:
        unsuited = await invoke(f"{url}=RAG_RETRIEVE", "--inputs", '{"q": 1}')
        suited = await invoke(f"{url}=RAG_RETRIEVE", "--inputs", '{"query": "tea"}')
    assert (unsuited.exit_code, suited.exit_code) == (1, 0)
    assert "--inputs" in unsuited.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["localhost"], "not URL=TASK"),
        (["http://localhost=T", "--inputs", "[]"], "must be a JSON object"),
        (["http://localhost=T", "--skip", "nonsense"], "unknown check 'nonsense'"),
        ([], "AGENT_CONTRACT_TARGETS"),
    ],
)
async def test_a_mistake_is_told_before_anything_is_sent(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AGENT_CONTRACT_TARGETS", raising=False)
    result = await invoke(*arguments)
    assert isinstance(result.exception, UsageError)
    assert said in str(result.exception)


async def test_the_script_exits_as_the_document_says() -> None:
    """A system test checks 0, and 1 for a broken rule."""
    assert (await script(f"http://127.0.0.1:{free_port()}=T")).returncode == 1
    for targets in (None, "", "nonsense"):
        done = await script(targets)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: ")
