"""Cards of both generations, the versions they claim, and the addresses that cannot be right."""

from typing import Any

import pytest

from assay.errors import TargetError
from assay.targets.a2a import base_address, card_places, read_card, rebase


def old(**changes: Any) -> dict[str, Any]:
    card = {"name": "old", "version": "7", "url": "http://a/", "protocolVersion": "0.3.0"}
    return {**card, **changes}


def new(*interfaces: tuple[str, str, str]) -> dict[str, Any]:
    names = ("protocolBinding", "protocolVersion", "url")
    listed = [dict(zip(names, each, strict=True)) for each in interfaces]
    return {"name": "new", "supportedInterfaces": listed}


@pytest.mark.parametrize(
    ("declared", "version"),
    [
        ("1.0.0", "1.0"),
        ("2.1", "1.0"),
        ("9" * 5000, "1.0"),
        ("00.9", "0.3"),
        ("0.2.5", "0.3"),
        ("", "0.3"),
        ("latest", "0.3"),
    ],
)
def test_versions_are_brought_to_the_two_that_exist(declared: str, version: str) -> None:
    (interface,) = read_card(old(protocolVersion=declared)).interfaces
    assert interface.version == version


def test_of_both_generations_the_newer_list_is_read() -> None:
    rest = {"transport": "HTTP+JSON", "url": "http://a/rest"}
    card = read_card(old(additionalInterfaces=[rest], capabilities={"streaming": True}))
    assert [(each.version, each.url) for each in card.interfaces] == [("0.3", "http://a/")]
    assert (card.name, card.streaming) == ("old", True)
    both = {**old(), **new(("JSONRPC", "0.3", "http://a/"), ("JSONRPC", "1.0", "http://a/"))}
    assert [each.version for each in read_card(both).interfaces] == ["0.3", "1.0"]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "not an agent card"),
        (old(url=7), "neither 'supportedInterfaces' nor 'url'"),
        (new(("GRPC", "1.0", "a:50051")), "offers only GRPC, which Assay does not speak"),
    ],
)
def test_what_is_no_card_is_told(document: object, message: str) -> None:
    with pytest.raises((ValueError, TargetError), match=message):
        read_card(document)


@pytest.mark.parametrize(
    ("url", "base", "expected"),
    [
        ("http://0.0.0.0:9009", "https://agent", "https://agent/"),
        ("http://x:1/a2a/v1", "http://agent:9", "http://agent:9/a2a/v1"),
        ("http://x:1/", "http://gate:8080/purple", "http://gate:8080/purple"),
        ("http://x:1/purple/rpc", "http://gate/purple", "http://gate/purple/rpc"),
        ("http://x:1/purplest", "http://gate/purple", "http://gate/purple/purplest"),
        ("/rpc", "http://agent", "http://agent/rpc"),
        ("", "http://agent", "http://agent/"),
    ],
)
def test_a_wrong_address_keeps_its_path_only(url: str, base: str, expected: str) -> None:
    assert rebase(url, base) == expected


def test_cards_are_looked_for_below_the_address_that_a_user_copied_then_at_the_root() -> None:
    for copied in ("http://a/purple/.well-known/agent.json", "http://a/purple/#stream"):
        assert card_places(base_address(copied)) == [
            "http://a/purple/.well-known/agent-card.json",
            "http://a/purple/.well-known/agent.json",
            "http://a/purple",
            "http://a/.well-known/agent-card.json",
            "http://a/.well-known/agent.json",
        ]
    assert card_places("http://a")[-1] == "http://a/"
