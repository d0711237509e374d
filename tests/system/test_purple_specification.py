"""The purple agent specification: its example, its checklist and its pitfalls, one test each.

"Can be deployed as Docker container" is in `tests/deploy/test_docker.py`.
"""

import itertools
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.interop.old_library import agent_running, old_python
from tests.serve.serving import request_0_3
from tests.system.running import A2AAgent, evaluate, serving

NOTES = ("--dataset", "notes", "--mode", "bm25")
QUERY = "mortgage fixed rate"


@pytest.fixture
def green(tmp_path: Path) -> Iterator[str]:
    with serving("green", "--dataset", "notes", "--out", str(tmp_path), folder=tmp_path) as url:
        yield url


@pytest.fixture
def purple(tmp_path: Path) -> Iterator[str]:
    with serving("purple", *NOTES, folder=tmp_path) as url:
        yield url


def ask(green: str, agent: str, **config: Any) -> dict[str, Any]:
    """With the configuration of the specification's curl."""
    return evaluate(green, agent, **{"num_queries": 10, "top_k": 5, "random_seed": 42, **config})


@pytest.mark.parametrize("generation", ["0.3", "1.x"])
def test_the_example_agent_is_evaluated(tmp_path: Path, green: str, generation: str) -> None:
    python = old_python() if generation == "0.3" else sys.executable
    with (
        serving("mcp", *NOTES, folder=tmp_path) as mcp,
        agent_running(python, "sample_agent.py", mcp) as agent,
    ):
        report = ask(green, agent)["report"]
    assert report["summary"]["failed_queries"] == 0
    assert report["summary"]["mean_ndcg_at_5"] > 0.3
    assert report["warnings"] == []


def send(url: str, **request: Any) -> dict[str, Any]:
    """The task that the agent makes of a request in a text part (0.3, `message/send`)."""
    task: dict[str, Any] = httpx.post(url, json=request_0_3(request), timeout=60).json()["result"]
    return task


def doc_ids(task: dict[str, Any]) -> list[str]:
    """Of the one artifact, whose one data part is the RetrievalResponse."""
    (artifact,) = task["artifacts"]
    assert artifact["name"] == "retrieval_results"
    ((_, ids),) = artifact["parts"][0]["data"].items()
    return list(ids)


def test_checklist_implements_an_a2a_server_with_its_card_at_the_root(purple: str) -> None:
    card = httpx.get(purple).json()
    assert card == httpx.get(f"{purple}/.well-known/agent-card.json").json()
    assert card["url"].rstrip("/") == purple


@pytest.mark.parametrize(("request_", "count"), [({}, 5), ({"top_k": 3}, 3)])
def test_checklist_accepts_a_request(purple: str, request_: dict[str, int], count: int) -> None:
    assert len(doc_ids(send(purple, query=QUERY, **request_))) == count


def test_checklist_returns_valid_ids_ranked_by_relevance(purple: str, tmp_path: Path) -> None:
    """Each once, in the order of the search that the agent may use."""
    ids = doc_ids(send(purple, query=QUERY, top_k=10))
    with serving("mcp", *NOTES, folder=tmp_path) as mcp:
        body = {"query": QUERY, "top_k": 10}
        found = httpx.post(f"{mcp}/search_nfcorpus", json=body, timeout=60).json()["results"]
    assert ids == [hit["doc_id"] for hit in found]
    assert len(set(ids)) == 10
    assert all(earlier["score"] >= later["score"] for earlier, later in itertools.pairwise(found))


def test_checklist_handles_errors_gracefully_and_in_time(purple: str) -> None:
    failed = send(purple, question=QUERY)
    assert failed["status"]["state"] == "failed"
    assert "query: Field required" in failed["status"]["message"]["parts"][0]["text"]
    assert doc_ids(send(purple, query=QUERY))


def test_pitfall_invalid_document_ids(green: str) -> None:
    def unknown(_query: str, top_k: int) -> Any:
        return {"doc_ids": [f"X-{n}" for n in range(top_k)]}

    with A2AAgent(unknown).running() as agent:
        report = ask(green, agent.url)["report"]
    assert report["summary"]["mean_ndcg_at_5"] == 0
    assert report["violations"]["unknown"]["ids"] == 50
    assert any("unknown to 'notes'" in warning for warning in report["warnings"])


def test_pitfall_wrong_response_format(green: str) -> None:
    with A2AAgent(lambda _query, _top_k: {"documents": "note-001"}).running() as agent:
        end = ask(green, agent.url)
    assert end["state"] == "failed"
    assert "doc_ids" in end["message"]


def test_pitfall_unranked_results(green: str, purple: str) -> None:
    means = []
    for step in (1, -1):

        def found(query: str, top_k: int, step: int = step) -> Any:
            return {"doc_ids": doc_ids(send(purple, query=query, top_k=top_k))[::step]}

        with A2AAgent(found).running() as agent:
            report = ask(green, agent.url, num_queries=20)["report"]
        means.append(report["summary"]["mean_ndcg_at_5"])
    ranked, unranked = means
    assert ranked > unranked > 0


def test_pitfall_timeouts(green: str) -> None:
    released = threading.Event()

    def late(_query: str, _top_k: int) -> Any:
        released.wait(60)
        return {"doc_ids": []}

    with A2AAgent(late).running() as agent:
        end = ask(green, agent.url, num_queries=2, timeout=0.5, warm_up=1)
        released.set()
    assert end["state"] == "failed"
    assert "timeout" in end["message"]
