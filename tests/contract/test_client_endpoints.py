"""Names of agents and their addresses."""

import pytest

from assay.contract.client import read_endpoints, resolve_agent
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
    assert resolve_agent("http://host:1/x/", ENDPOINTS) == "http://host:1/x"


def test_a_name_is_looked_up() -> None:
    assert resolve_agent("rag", ENDPOINTS) == "http://rag:8000"


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'rga'.*has: rag"):
        resolve_agent("rga", ENDPOINTS)


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
    with pytest.raises(UsageError, match=r"is not an http\(s\) URL"):
        resolve_agent(address, {})


def test_a_password_in_an_address_is_never_shown() -> None:
    with pytest.raises(UsageError) as caught:
        resolve_agent("http://me:s3cret@host:port", {})
    assert "s3cret" not in str(caught.value)
