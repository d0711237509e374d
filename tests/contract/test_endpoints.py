"""Names of agents and their addresses."""

import pytest

from assay.contract.endpoints import (
    read_endpoints,
    resolve,
    shown_address,
    token_from_environment,
)
from assay.errors import UsageError

ENDPOINTS = {"rag": "http://rag:8000"}


def test_names_come_from_the_environment() -> None:
    text = '{"rag": "http://rag:8000/", "lit": "https://lit/agents"}'
    found = read_endpoints({"AGENT_ENDPOINTS_JSON": text})
    assert found == {"rag": "http://rag:8000", "lit": "https://lit/agents"}


def test_no_variable_is_no_names() -> None:
    assert read_endpoints({}) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "must be an object"),
        ('{"rag": 8000}', "'rag': expected an http"),
        ('{"rag": "rag:8000"}', "'rag': 'rag:8000' is not an http"),
    ],
)
def test_a_variable_that_cannot_be_read_says_why(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_endpoints({"AGENT_ENDPOINTS_JSON": text})


def test_an_address_is_taken_as_it_is() -> None:
    assert resolve("http://host:1/x/", ENDPOINTS) == "http://host:1/x"


def test_a_name_is_looked_up() -> None:
    assert resolve("rag", ENDPOINTS) == "http://rag:8000"


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'rga'.*names: rag"):
        resolve("rga", ENDPOINTS)


@pytest.mark.parametrize(
    "address",
    [
        "http://[::1",
        "http://host:port",
        "http://host:99999",
        "http://host:0",
        "http://\u2603.example",
        "http://",
        "http://host/#part",
        "http://host/?a=b",
        "ftp://host",
    ],
)
def test_what_is_no_address_is_refused_in_words(address: str) -> None:
    with pytest.raises(UsageError, match=r"is not an http\(s\) address"):
        resolve(address, {})


def test_a_password_in_an_address_is_never_shown() -> None:
    assert shown_address("https://me:s3cret@host:1/a@b") == "https://host:1/a@b"
    assert shown_address("http://host") == "http://host"
    with pytest.raises(UsageError) as caught:
        resolve("http://me:s3cret@host:port", {})
    assert "s3cret" not in str(caught.value)


def test_a_token_is_something_that_a_header_can_carry() -> None:
    assert token_from_environment({"AGENT_TOKEN": "t0ken"}) == "t0ken"
    assert token_from_environment({"AGENT_TOKEN": ""}) is None
    for wrong in ("t\u00f6ken", "a\nb"):
        with pytest.raises(UsageError, match="AGENT_TOKEN") as caught:
            token_from_environment({"AGENT_TOKEN": wrong})
        assert wrong not in str(caught.value)
