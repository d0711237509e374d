"""The card: one document, three addresses, both generations of clients."""

import httpx
import pytest
from tests.serve.serving import serving

from assay.progress import Progress
from assay.serve.purple import Find, purple_app


async def _never(_progress: Progress) -> Find:
    raise AssertionError


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


@pytest.mark.parametrize(
    ("host", "named"),
    [("purple-agent:9010", "http://purple-agent:9010/"), ("evil.example/@x", "http://localhost/")],
)
async def test_the_card_names_the_address_by_which_it_was_asked_for(
    http: httpx.AsyncClient, host: str, named: str
) -> None:
    async with serving(purple_app(_never)) as url:
        card = (await http.get(url, headers={"Host": host})).json()
    assert card["url"] == named


@pytest.mark.parametrize("given", ["http://agents.example/purple", "http://agents.example/purple/"])
async def test_a_given_address_wins(http: httpx.AsyncClient, given: str) -> None:
    async with serving(purple_app(_never, card_url=given)) as url:
        card = (await http.get(url)).json()
    assert card["url"] == "http://agents.example/purple/"
    assert card["supportedInterfaces"][2]["url"] == "http://agents.example/purple/a2a/rest"


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
