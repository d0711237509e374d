"""`assay check` and scripts/check-agent-contract.py: what people and build servers see."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.contract.broken_agents import broken, sync
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


async def invoke(*arguments: str) -> Result:
    command = VerbCommand("check", check)
    return await asyncio.to_thread(CliRunner().invoke, command, list(arguments))


async def test_a_good_agent_is_one_quiet_line() -> None:
    async with running(GOOD) as url:
        result = await invoke(f"{url}=RAG_RETRIEVE")
    assert result.exit_code == 0
    lines = result.stdout.split("\n")
    assert lines[0] == f"RAG_RETRIEVE at {url}"
    assert lines[1] == f"conforms to the contract: {len(RULES) - 2} pass, 2 n/a"


async def test_a_fault_is_named_with_its_rule_and_what_was_seen() -> None:
    async with running(broken("terminal-one")) as url:
        result = await invoke(f"{url}=RAG_RETRIEVE")
    assert result.exit_code == 1
    words = " ".join(result.stdout.split())
    assert "fail must terminal-one Exactly one event is terminal" in words
    assert "(Agent HTTP contract, Stream invariant)" in words
    assert "fix: End each stream with one event named final" in words
    assert f"repeat: curl -isSN {url}/agents/run/stream -H " in words
    assert "2 of 5 events are terminal" in words
    assert "violates the contract: " in words


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
    async with running(broken("sync-recommended")) as url:
        lenient = await invoke(f"{url}=RAG_RETRIEVE", "--level", "must")
        strict = await invoke(f"{url}=RAG_RETRIEVE", "--level", "should")
    assert (lenient.exit_code, strict.exit_code) == (0, 1)


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


@pytest.mark.parametrize(("targets", "code"), [("http://127.0.0.1:9=T", 1), ("", 2), ("x", 2)])
def test_the_script_exits_as_the_document_says(targets: str, code: int) -> None:
    environment = {**os.environ, "AGENT_CONTRACT_TARGETS": targets}
    done = subprocess.run([sys.executable, SCRIPT], env=environment, capture_output=True, text=True)
    assert done.returncode == code
    assert done.stderr.startswith("error: ") == (code == 2)
