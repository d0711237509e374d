"""The card: one document, three addresses, both generations of clients."""

from pathlib import Path

import httpx
import pytest
from tests.serve.serving import serving

from assay.data import Dataset
from assay.net.outbound import UNRESTRICTED
from assay.progress import Progress
from assay.serve.green.agent import green_app
from assay.serve.purple import Find, purple_app

PLACES = ("/.well-known/agent-card.json", "/.well-known/agent.json", "/")


async def _never(_progress: Progress) -> Find:
    raise AssertionError


async def test_the_card_is_at_three_places(http: httpx.AsyncClient) -> None:
    async with serving(purple_app(_never)) as url:
        cards = [(await http.get(url + place)).json() for place in PLACES]
    assert cards[0] == cards[1] == cards[2]
    assert cards[0]["name"] == "NFCorpus Retrieval Agent"
    assert [skill["id"] for skill in cards[0]["skills"]] == ["nfcorpus_retrieval"]
    assert "securitySchemes" not in cards[0]


async def test_the_evaluator_has_its_own_name(
    http: httpx.AsyncClient, tiny: Dataset, out: Path
) -> None:
    async def load(_progress: Progress) -> Dataset:
        return tiny

    app = green_app(load, source="tiny", out=out, policy=UNRESTRICTED)
    async with serving(app) as url:
        card = (await http.get(url)).json()
    assert card["name"] == "NFCorpus Retrieval Evaluator"
    assert [skill["id"] for skill in card["skills"]] == ["nfcorpus_retrieval_eval"]


async def test_the_card_carries_the_fields_of_both_generations(http: httpx.AsyncClient) -> None:
    async with serving(purple_app(_never)) as url:
        card = (await http.get(url)).json()
    assert (card["url"], card["protocolVersion"]) == (f"{url}/", "0.3")
    assert card["preferredTransport"] == "JSONRPC"
    offered = [
        (each["protocolBinding"], each["protocolVersion"], each["url"])
        for each in card["supportedInterfaces"]
    ]
    assert offered == [
        ("JSONRPC", "1.0", f"{url}/"),
        ("JSONRPC", "0.3", f"{url}/"),
        ("HTTP+JSON", "1.0", f"{url}/a2a/rest"),
        ("HTTP+JSON", "0.3", f"{url}/a2a/rest"),
    ]


async def test_the_card_names_the_address_by_which_it_was_asked_for(
    http: httpx.AsyncClient,
) -> None:
    async with serving(purple_app(_never)) as url:
        card = (await http.get(url, headers={"Host": "purple-agent:9010"})).json()
    assert card["url"] == "http://purple-agent:9010/"


@pytest.mark.parametrize("given", ["http://agents.example/purple", "http://agents.example/purple/"])
async def test_a_given_address_wins(http: httpx.AsyncClient, given: str) -> None:
    async with serving(purple_app(_never, card_url=given)) as url:
        card = (await http.get(url)).json()
    assert card["url"] == "http://agents.example/purple/"
    assert card["supportedInterfaces"][2]["url"] == "http://agents.example/purple/a2a/rest"


async def test_a_strange_host_header_is_not_repeated(http: httpx.AsyncClient) -> None:
    async with serving(purple_app(_never)) as url:
        card = (await http.get(url, headers={"Host": "evil.example/@x"})).json()
    assert card["url"] == "http://localhost/"


@pytest.mark.parametrize("place", PLACES)
async def test_a_card_that_has_not_changed_is_not_sent_again(
    http: httpx.AsyncClient, place: str
) -> None:
    async with serving(purple_app(_never)) as url:
        first = await http.get(url + place)
        tag = first.headers["etag"]
        same = [
            await http.get(url + place, headers={"If-None-Match": value})
            for value in (tag, f'"other", W/{tag}', "*")
        ]
        changed = await http.get(url + place, headers={"If-None-Match": '"other"'})
        moved = await http.get(url + place, headers={"If-None-Match": tag, "Host": "purple:9010"})
    assert first.headers["cache-control"] == "public, max-age=60"
    assert [(answer.status_code, answer.content) for answer in same] == [(304, b"")] * 3
    assert {answer.headers["etag"] for answer in same} == {tag}
    assert changed.json() == first.json()
    assert (moved.status_code, moved.json()["url"]) == (200, "http://purple:9010/")


@pytest.mark.parametrize(
    ("dataset", "name"), [("notes", "notes"), ("/srv/private/mine.zip", "mine.zip")]
)
async def test_the_card_names_the_data_set_and_not_its_folder(
    http: httpx.AsyncClient, dataset: str, name: str
) -> None:
    async with serving(purple_app(_never, dataset=dataset)) as url:
        card = (await http.get(url)).json()
    assert card["description"].endswith(f" Data set: {name}.")
    assert name in card["skills"][0]["tags"]
    assert "private" not in str(card)
