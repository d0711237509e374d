"""`assay serve agent`, as a process: it prints its URL, conforms to the contract, logs no text."""

import signal
from pathlib import Path

import httpx
from tests import forked

AGENT = (forked.ASSAY, "serve", "agent")


def test_one_agent_is_served_at_the_root_and_ends_when_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    pack = {"chunks": [{"chunk_id": "c", "text": "Jane slept well."}]}
    inputs = {"claims": ["Jane slept well."], "groundingPack": pack}
    body = {"request_id": "r1", "task_type": "CLAIM_VERIFY", "inputs": inputs}
    with (
        log.open("w") as errors,
        forked.started(*AGENT, "claim-verify", "--port", "0", stderr=errors) as process,
    ):
        url = process.stdout.readline().strip()
        answer = httpx.post(f"{url}/agents/run/sync", json=body, trust_env=False, timeout=60)
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert answer.json()["outputs"]["overallPass"] is True
    written = log.read_text()
    assert f"CLAIM_VERIFY on {url}\n" in written
    assert '"request_id":"r1"' in written
    assert "Jane" not in written
