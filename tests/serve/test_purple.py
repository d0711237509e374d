"""The purple agent as its callers meet it: right answers, right refusals, nothing said too much."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serve.serving import NEW, request_1_0, send, serving, words

from assay.data import load_dataset
from assay.evaluation.evaluation import Evaluation
from assay.progress import Progress
from assay.run.config import RunConfig
from assay.serve.purple import Find, Load, local_search, purple_app
from assay.targets.a2a import A2AAgent
from assay.targets.builtin import BuiltinAnswers

SECRET = "patient Jane Roe"
ASKED = {"query": "bone health", "top_k": 3}


async def _five(query: str, top_k: int) -> list[str]:
    return ["d1", "d2", "d1", "d3", "d4", "d5"]


def finding(find: Find) -> Load:
    async def load(_progress: Progress) -> Find:
        return find

    return load


def doc_ids(task: Any) -> list[str]:
    (artifact,) = task["artifacts"]
    assert artifact["name"] == "retrieval_results"
    (part,) = artifact["parts"]
    assert list(part["data"]) == ["doc_ids"]
    found: list[str] = part["data"]["doc_ids"]
    return found


@pytest.mark.parametrize("as_data", [False, True], ids=["text part", "data part"])
@pytest.mark.parametrize(("top_k", "count"), [(3, 3), (2.0, 2), (None, 5)])
async def test_answers_are_ranked_distinct_and_at_most_top_k(
    http: httpx.AsyncClient, as_data: bool, top_k: float | None, count: int
) -> None:
    """Data parts turn 2 into 2.0 on their way through protobuf."""
    asked = {"query": "bone health"} | ({} if top_k is None else {"top_k": top_k})
    async with serving(purple_app(finding(_five))) as url:
        task = await send(http, url, asked, as_data=as_data)
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert doc_ids(task) == ["d1", "d2", "d3", "d4", "d5"][:count]


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"top_k": 5, "note": SECRET}, "query"),
        ({"query": "   "}, "query"),
        ({"query": 7}, "query"),
        ({"query": "\x00\x01"}, "query"),
        ({"query": SECRET, "top_k": True}, "top_k"),
        ({"query": SECRET, "top_k": 0}, "top_k"),
        ({"query": SECRET, "top_k": 2.5}, "top_k"),
        ({"query": SECRET, "top_k": SECRET}, "top_k"),
        ({"query": SECRET, "top_k": 1001}, "top_k"),
        (SECRET, "message"),
        ([SECRET], "message"),
    ],
)
async def test_a_bad_request_fails_naming_the_field_and_echoes_nothing(
    http: httpx.AsyncClient, content: Any, field: str
) -> None:
    async with serving(purple_app(finding(_five))) as url:
        answer = await http.post(url, json=request_1_0(content), headers=NEW)
    task = answer.json()["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert words(task).startswith(f"{field}: ")
    assert SECRET not in answer.text
    assert "Traceback" not in answer.text


async def test_an_exception_never_reaches_the_client_or_the_log(
    http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(query: str, top_k: int) -> list[str]:
        raise RuntimeError(f"cannot search for {query}")

    caplog.set_level(logging.INFO)
    async with serving(purple_app(finding(broken))) as url:
        answer = await http.post(url, json=request_1_0({"query": SECRET}), headers=NEW)
    task = answer.json()["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert words(task) == "internal error; see the server's log"
    assert SECRET not in answer.text
    ours = [record for record in caplog.records if record.name.startswith("assay.serve")]
    (failure,) = [record for record in ours if record.levelno == logging.ERROR]
    fields = vars(failure)["fields"]
    assert fields["exception"] == "RuntimeError"
    assert fields["raised_at"].startswith(f"{__name__}:")
    assert all(SECRET not in str(vars(record)) for record in ours)


async def test_card_and_health_come_before_the_index_and_requests_wait_for_it(
    http: httpx.AsyncClient,
) -> None:
    loaded = asyncio.Event()

    async def load(progress: Progress) -> Find:
        progress("indexing", 10, 40)
        await loaded.wait()
        return _five

    async with serving(purple_app(load)) as url:
        assert (await http.get(f"{url}/.well-known/agent-card.json")).status_code == 200
        assert (await http.get(f"{url}/health")).json() == {"status": "ok", "service": "purple"}
        waiting = await http.get(f"{url}/health/ready")
        assert waiting.status_code == 503
        assert waiting.json()["stage"] == {"what": "indexing", "done": 10, "total": 40}
        asking = asyncio.create_task(send(http, url, ASKED))
        await asyncio.sleep(0.05)
        assert not asking.done()
        loaded.set()
        assert doc_ids(await asking) == ["d1", "d2", "d3"]
        assert (await http.get(f"{url}/health/ready")).status_code == 200


async def test_a_burst_is_searched_a_few_at_once_and_answered_in_full(
    http: httpx.AsyncClient,
) -> None:
    running = most = 0

    async def slow(query: str, top_k: int) -> list[str]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return ["d1"]

    async with serving(purple_app(finding(slow), in_flight=3)) as url:
        tasks = await asyncio.gather(*(send(http, url, ASKED) for _ in range(12)))
    assert [doc_ids(task) for task in tasks] == [["d1"]] * 12
    assert most == 3


async def test_the_token_guards_everything_but_card_and_health(http: httpx.AsyncClient) -> None:
    async with serving(purple_app(finding(_five), token="sesame")) as url:
        card = (await http.get(url)).json()
        assert card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"] == "bearer"
        assert card["security"] == [{"bearer": []}]
        assert (await http.get(f"{url}/health")).status_code == 200
        for path in ("/", "/a2a/rest/message:send"):
            refused = await http.post(url + path, json=request_1_0(ASKED), headers=NEW)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
        bearer = {"Authorization": "Bearer sesame"}
        answer = await http.post(url, json=request_1_0(ASKED), headers=NEW | bearer)
        assert doc_ids(answer.json()["result"]["task"]) == ["d1", "d2", "d3"]


async def test_with_answers_the_artifact_cites_what_it_quotes_and_the_card_says_so(
    http: httpx.AsyncClient, tmp_path: Path
) -> None:
    """Over the wire: the card's second skill, then `assay eval a2a:URL --answers`."""
    notes = load_dataset("notes")
    load, stop = local_search("notes", "bm25", BuiltinAnswers(None))
    async with serving(purple_app(load, answers=True, on_stop=stop)) as url:
        card = (await http.get(url)).json()
        config = RunConfig(target=f"a2a:{url}", dataset="notes", answers=True, num_queries=8)
        run = await Evaluation.plan(config, notes).start(A2AAgent(url), tmp_path)
    assert [skill["id"] for skill in card["skills"]] == ["nfcorpus_retrieval", "answers"]
    assert run.report.answers is not None
    assert run.report.answers.answered == 8
    assert run.report.answers.metrics["citation_precision"] > 0
