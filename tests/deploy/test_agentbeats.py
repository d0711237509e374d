"""The files by which AgentBeats starts us say what is true."""

import json
import os
import shlex
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.loopback import own_address
from tests.serve.serving import stream

from assay.serve.purple import PROFILE as PURPLE

ROOT = Path(__file__).parents[2]
SCENARIO = tomllib.loads((ROOT / "deploy" / "agentbeats" / "scenario.toml").read_text())


def json5(path: Path) -> Any:
    """Ours are JSON with comments on lines of their own."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))


GREEN = json5(ROOT / "deploy" / "agentbeats" / "green" / "amber-manifest.json5")
PURPLE_MANIFEST = json5(ROOT / "deploy" / "agentbeats" / "purple" / "amber-manifest.json5")
AMBER = json5(ROOT / "deploy" / "agentbeats" / "scenario.json5")


@pytest.mark.parametrize("manifest", [GREEN, PURPLE_MANIFEST], ids=["green", "purple"])
def test_a_manifest_offers_a2a_on_the_port_it_listens_on(manifest: Any) -> None:
    program = manifest["program"]
    (endpoint,) = program["network"]["endpoints"]
    assert f"--port {endpoint['port']}" in program["entrypoint"]
    assert manifest["provides"]["a2a"] == {"kind": "a2a", "endpoint": endpoint["name"]}
    assert manifest["exports"] == {"a2a": "a2a"}


def test_the_scenario_binds_what_its_components_offer() -> None:
    offered = {"green": GREEN, "retrieval_agent": PURPLE_MANIFEST}
    for name, manifest in offered.items():
        path = AMBER["components"][name]["manifest"]
        assert json5(ROOT / "deploy" / "agentbeats" / path) == manifest
        config = AMBER["components"][name]["config"]
        assert set(config) == set(manifest["config_schema"]["required"])
    roles = AMBER["components"]["gateway"]["config"]["participant_roles"]
    assert [roles["purple1"]] == GREEN["metadata"]["participant_roles"]
    bound = {binding["from"] for binding in AMBER["bindings"]}
    assert bound == {"#green.a2a", "#retrieval_agent.a2a", "#gateway.proxy"}


async def test_the_scenario_runs_from_its_commands_to_one_result(tmp_path: Path) -> None:
    """As the tutorial's runner does: start the commands, wait 30 s at most for every card, send
    the request as text, collect the data parts."""
    agents = [SCENARIO["green_agent"], *SCENARIO["participants"]]
    # Addresses of this machine that nothing else uses, for the ports that the file names.
    commands = [_moved(agent["cmd"]) for agent in agents]
    environment = {**os.environ, "ASSAY_DATASET": "notes", "ASSAY_OUT": str(tmp_path)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "assay", *shlex.split(command)[1:]],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for command in commands
    ]
    try:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
            cards = [await _card(http, _moved(agent["endpoint"])) for agent in agents]
            participants = {
                each["role"]: _moved(each["endpoint"]) for each in SCENARIO["participants"]
            }
            config = {**SCENARIO["config"], "num_queries": 5}
            order = {"participants": participants, "config": config}
            results = []
            async for event in stream(http, _moved(agents[0]["endpoint"]), order):
                parts = event.get("artifactUpdate", {}).get("artifact", {}).get("parts", [])
                results += [part["data"] for part in parts if "data" in part]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert cards[1]["name"] == PURPLE.name
    (result,) = results
    assert result["summary"]["total_queries"] == 5


def _moved(text: str) -> str:
    return text.replace("127.0.0.1", own_address(1)).replace("--mode hybrid", "--mode bm25")


async def _card(http: httpx.AsyncClient, url: str) -> Any:
    deadline = time.monotonic() + 30
    while True:
        try:
            return (await http.get(f"{url}/.well-known/agent-card.json", timeout=2)).json()
        except httpx.TransportError:
            assert time.monotonic() < deadline, f"no card at {url} within 30 s"
            time.sleep(0.05)
