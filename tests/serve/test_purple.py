"""The purple agent as its callers meet it: right answers, right refusals, nothing said too much."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serve.serving import NEW, call, request_0_3, request_1_0, send, serving, stream, words

from assay.data import load_dataset
from assay.errors import ProviderError, ProviderFailure, SearchError
from assay.evaluation.evaluation import Evaluation
from assay.progress import Progress
from assay.run.config import RunConfig
from assay.serve.purple import Find, Load, local_search, purple_app
from assay.targets.a2a.agent import A2AAgent
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
async def test_answers_are_ranked_distinct_and_at_most_top_k(
    http: httpx.AsyncClient, as_data: bool
) -> None:
    async with serving(purple_app(finding(_five))) as url:
        task = await send(http, url, ASKED, as_data=as_data)
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert doc_ids(task) == ["d1", "d2", "d3"]


async def test_a_whole_float_counts_as_an_integer(http: httpx.AsyncClient) -> None:
    """Data parts turn 2 into 2.0 on their way through protobuf."""
    async with serving(purple_app(finding(_five))) as url:
        assert doc_ids(await send(http, url, {"query": "x", "top_k": 2.0})) == ["d1", "d2"]


async def test_top_k_is_five_where_it_is_left_out(http: httpx.AsyncClient) -> None:
    async with serving(purple_app(finding(_five))) as url:
        assert doc_ids(await send(http, url, {"query": "x"})) == ["d1", "d2", "d3", "d4", "d5"]


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


async def test_old_and_new_clients_are_answered_on_one_url(http: httpx.AsyncClient) -> None:
    async with serving(purple_app(finding(_five))) as url:
        old = (await http.post(url, json=request_0_3(ASKED))).json()["result"]
        rest = await http.post(
            f"{url}/a2a/rest/message:send", json=request_1_0(ASKED)["params"], headers=NEW
        )
    assert old["kind"] == "task"
    assert old["status"]["state"] == "completed"
    assert doc_ids(old) == ["d1", "d2", "d3"]
    assert doc_ids(rest.json()["task"]) == ["d1", "d2", "d3"]


async def test_a_stream_ends_with_the_artifact_and_completion(http: httpx.AsyncClient) -> None:
    async with serving(purple_app(finding(_five))) as url:
        kinds = [next(iter(event)) async for event in stream(http, url, ASKED)]
    assert kinds == ["task", "artifactUpdate", "statusUpdate"]


async def test_an_old_stream_ends_in_a_final_event(http: httpx.AsyncClient) -> None:
    async with serving(purple_app(finding(_five))) as url:
        body = request_0_3(ASKED, "message/stream")
        async with http.stream("POST", url, json=body) as answer:
            lines = [line async for line in answer.aiter_lines() if line.startswith("data: ")]
    last = json.loads(lines[-1].removeprefix("data: "))["result"]
    assert (last["kind"], last["final"]) == ("status-update", True)
    assert last["status"]["state"] == "completed"


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


async def test_what_goes_wrong_in_the_search_is_told_in_our_words(http: httpx.AsyncClient) -> None:
    async def gone(query: str, top_k: int) -> list[str]:
        raise SearchError("the search server cannot be reached")

    async with serving(purple_app(finding(gone))) as url:
        task = await send(http, url, ASKED)
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert words(task) == "the search server cannot be reached"


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


async def test_an_index_that_cannot_be_loaded_fails_requests_without_naming_our_files(
    http: httpx.AsyncClient,
) -> None:
    async def load(_progress: Progress) -> Find:
        raise SearchError("/srv/private/index is damaged")

    async with serving(purple_app(load)) as url:
        task = await send(http, url, ASKED)
        assert (await http.get(f"{url}/health/ready")).status_code == 503
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "private" not in words(task)


async def test_too_much_at_once_is_turned_away_but_questions_about_tasks_are_not(
    http: httpx.AsyncClient,
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(query: str, top_k: int) -> list[str]:
        begun.set()
        await go_on.wait()
        return ["d1"]

    async with serving(purple_app(finding(slow), in_flight=1)) as url:
        first = asyncio.create_task(send(http, url, ASKED))
        await begun.wait()
        for body, version in (
            (request_1_0(ASKED), NEW),
            (request_0_3(ASKED, "message/stream"), {}),
        ):
            refused = await http.post(url, json=body, headers=version)
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) > 0
        rest = await http.post(f"{url}/a2a/rest/message:send", json=request_1_0(ASKED)["params"])
        assert rest.status_code == 503
        assert (await call(http, url, "GetTask", id="unknown"))["error"]["code"] == -32001
        go_on.set()
        assert doc_ids(await first) == ["d1"]
        assert doc_ids(await send(http, url, ASKED)) == ["d1"]


async def test_a_burst_gets_as_many_places_as_there_are_and_503_for_the_rest(
    http: httpx.AsyncClient,
) -> None:
    go_on = asyncio.Event()

    async def slow(query: str, top_k: int) -> list[str]:
        await go_on.wait()
        return ["d1"]

    async with serving(purple_app(finding(slow), in_flight=3)) as url:
        body = request_1_0(ASKED)
        calls = [asyncio.create_task(http.post(url, json=body, headers=NEW)) for _ in range(8)]
        answers = []
        for ended in asyncio.as_completed(calls):
            answers.append(await ended)
            if len(answers) == 5:
                go_on.set()
        assert [answer.status_code for answer in answers] == [503] * 5 + [200] * 3
        assert all(int(answer.headers["retry-after"]) > 0 for answer in answers[:5])
        assert doc_ids(await send(http, url, ASKED)) == ["d1"]


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


async def test_the_real_retriever_answers_from_the_data_set(http: httpx.AsyncClient) -> None:
    load, stop = local_search("notes", "bm25")
    async with serving(purple_app(load, on_stop=stop)) as url:
        found = doc_ids(await send(http, url, {"query": "meeting about the budget", "top_k": 4}))
    assert len(found) == len(set(found)) == 4


async def test_requests_are_logged_without_their_payload(
    http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serving(purple_app(finding(_five))) as url:
        await send(http, f"{url}/?q={SECRET}", {"query": SECRET})
        await http.post(url, content=f'{{"{SECRET}')
    lines = [record for record in caplog.records if record.name == "assay.serve.requests"]
    assert [vars(line)["fields"]["status"] for line in lines] == [200, 200]
    assert all("Roe" not in str(vars(line)) for line in lines)


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


async def test_a_model_that_fails_is_told_without_the_question(http: httpx.AsyncClient) -> None:
    class Failing:
        name = "failing"

        async def answer(self, *_: object) -> None:
            raise ProviderError(ProviderFailure.CONNECTION, "cannot reach the model")

        async def close(self) -> None: ...

    answers = BuiltinAnswers(None)
    answers._answerer = Failing()  # type: ignore[assignment]
    load, stop = local_search("notes", "bm25", answers)
    async with serving(purple_app(load, answers=True, on_stop=stop)) as url:
        task = await send(http, url, ASKED)
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert words(task) == "cannot reach the model"
