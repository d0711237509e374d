"""The Notes API, asked with patience: what can pass is asked again, what cannot is told."""

import logging

import pytest
from tests.nextcloud.notes_server import PASSWORD, USER, Fault, NotesServer

from assay.errors import UsageError
from assay.net.retry import RetryPolicy
from assay.nextcloud import client as client_module
from assay.nextcloud.client import Account, NotesClient, NotesError


async def test_the_life_of_a_note(client: NotesClient, server: NotesServer) -> None:
    made = await client.create("[d1] Title", "Text.", "c")
    assert await client.notes_in("c") == [made]
    server.faults = [Fault("PUT", 502, done=True)]  # its answer is lost, so it is sent again
    changed = await client.update(made, "[d1] Title", "Other text.")
    assert (changed.content, changed.etag != made.etag) == ("Other text.", True)
    assert server.count("PUT") == 2
    await client.delete(made.id)
    await client.delete(made.id)  # gone already
    assert not server.notes


async def test_a_long_category_comes_whole_in_parts(
    client: NotesClient, server: NotesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_CHUNK", 3)
    monkeypatch.setattr(client_module, "_MAX_PARTS", 20)
    notes = [server.add(f"n{n}", f"text {n}", "c") for n in range(8)]
    server.add("other", "", "d")
    listing = await client.notes_in("c")
    assert {note.id: note.content for note in listing} == {n.id: n.content for n in notes}
    assert server.count("GET") == 3
    server.cursors = (f"1-1-{number}" for number in range(50))
    with pytest.raises(NotesError, match="did not end after 20 parts"):
        await client.notes_in("c")
    assert server.count("GET") == 23


@pytest.mark.parametrize("status", [423, 429, 503])
async def test_what_can_pass_is_asked_again_and_given_up_in_time(
    client: NotesClient, server: NotesServer, pauses: list[float], status: int
) -> None:
    server.faults = [Fault("GET", status, {"Retry-After": "7"}), Fault("GET", status)]
    assert await client.notes_in("c") == []
    assert (len(pauses), pauses[0]) == (2, 7)
    server.faults = [Fault("GET", status) for _ in range(10)]
    with pytest.raises(NotesError, match=f"HTTP {status}") as raised:
        await client.notes_in("c")
    assert raised.value.retryable
    # A rest that is too long is not waited for.
    server.faults = [Fault("GET", 503, {"Retry-After": "3600"})]
    pauses.clear()
    with pytest.raises(NotesError, match="HTTP 503"):
        await client.notes_in("c")
    assert not pauses


async def test_a_wrong_password(server: NotesServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    account = Account(server.url, USER, "wrong-password")
    async with NotesClient(account) as client:
        with pytest.raises(NotesError, match="user or password rejected") as failure:
            await client.notes_in("c")
    assert server.count("GET") == 1  # Nextcloud slows down whoever tries again
    assert "wrong-password" not in f"{failure.value} {account!r} {caplog.text}"


@pytest.mark.parametrize(
    ("host", "message", "code"),
    [("http://127.0.0.1:9", "connection refused", 3), ("{url}/elsewhere", "no Notes app found", 2)],
)
async def test_a_wrong_address(server: NotesServer, host: str, message: str, code: int) -> None:
    account = Account(host.format(url=server.url), USER, PASSWORD)
    async with NotesClient(account, RetryPolicy(attempts=1)) as client:
        with pytest.raises(NotesError, match=message) as failure:
            await client.notes_in("c")
    assert failure.value.exit_code == code


async def test_what_no_notes_app_answers_is_told(client: NotesClient, server: NotesServer) -> None:
    server.add("t", "x", "c").id = "seven"  # type: ignore[assignment]
    with pytest.raises(NotesError, match="is not the Notes API"):
        await client.notes_in("c")
    server.meddle = lambda note: setattr(note, "category", "other")
    with pytest.raises(NotesError, match="into category 'other'"):
        await client.create("t", "x", "c")


def test_a_host_that_is_no_plain_address_is_refused() -> None:
    for host in ("cloud.example.org", "https://ada:pw@cloud"):
        with pytest.raises(UsageError) as refusal:
            Account(host, USER, PASSWORD)
        assert "pw" not in str(refusal.value)
