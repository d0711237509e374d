"""Requests from templates: what is filled in where, and which are refused before a run."""

import os
from typing import Any

import pytest
from tests.targets.test_rest import DATA, agent_for

from assay.errors import UsageError
from assay.net.outbound import OutboundPolicy
from assay.targets import open_target
from assay.targets.rest import fill_json, fill_url
from assay.targets.target_kinds import OpenContext, RequestSettings

VALUES: dict[str, str | int] = {"query": 'a "b" & c/d', "top_k": 5, "offset": 0, "page": 1}


def test_values_enter_a_url_encoded_and_a_body_as_json() -> None:
    url = fill_url("http://h/s/{query}?q={query}&n={top_k}", VALUES)
    encoded = "a%20%22b%22%20%26%20c%2Fd"
    assert url == f"http://h/s/{encoded}?q={encoded}&n=5"
    body = {"q": "{query}", "n": "{top_k}", "t": "find: {query} ({top_k})", "l": [{"x": "{query}"}]}
    assert fill_json(body, VALUES) == {
        "q": 'a "b" & c/d',
        "n": 5,
        "t": 'find: a "b" & c/d (5)',
        "l": [{"x": 'a "b" & c/d'}],
    }
    assert fill_json({"{query}": 1, "f": "{fuzzy} {{top_k}}"}, VALUES) == {
        "{query}": 1,
        "f": "{fuzzy} {5}",
    }


def test_a_placeholder_in_the_query_itself_is_not_filled_in() -> None:
    values = {**VALUES, "query": "{top_k} {query} $HOME ${HOME}"}
    assert fill_json("x {query}", values) == "x {top_k} {query} $HOME ${HOME}"
    assert "HOME" in fill_url("http://h/?q={query}", values)
    assert os.environ["HOME"] not in fill_url("http://h/?q={query}", values)


@pytest.mark.parametrize(
    ("url", "settings", "words"),
    [
        ("http://h/s", {"body": "{}"}, "neither the URL nor --request contains {query}"),
        ("http://h/s?q={qeury}", {}, "{qeury} in the URL is not a placeholder"),
        ("http://h/s?q={qeury}", {}, "Did you mean '{query}'?"),
        ("http://{query}/s", {}, "must not be in the host"),
        ("ftp://h/{query}", {}, "is not an http(s)"),
        ("http://h/s", {"body": "{query}"}, "--request is not JSON"),
        ("http://h/s", {"body": '{"q": {query}}'}, "Placeholders stand inside quotes"),
        ("http://h/s", {"body": "@none.json"}, "cannot read the file: No such file"),
        ("http://h/{query}", {"method": "FETCH "}, "method 'FETCH' is not one of GET, POST"),
        ("http://h/{query}", {"headers": ("nothing",)}, "it must be 'Name: value'"),
        ("http://h/{query}", {"headers": ("X-A:",)}, "it must be 'Name: value'"),
        ("http://h/{query}", {"headers": ("X-A: $NOT_SET_1",)}, "variable NOT_SET_1, which is not"),
        ("http://h/{query}", {"headers": ("Authorization: Bearer abc",)}, "spells a secret out"),
        ("http://h/{query}", {"headers": ("Authorization: Bearer abc",)}, ": Bearer $TOKEN'"),
        ("http://h/{query}", {"headers": ("api-key: abc",)}, "spells a secret out"),
        ("http://h/?q={query}&api_key=abc", {}, "'api_key=${API_KEY}'"),
        ("http://h/?q={query}&k=${NOT_SET_1}", {}, "variable NOT_SET_1"),
        ("http://h", {"preset": "elastic", "index": "x"}, "Did you mean 'elasticsearch'?"),
        ("http://h", {"preset": "solr"}, "--preset needs an index"),
        ("http://h", {"preset": "solr", "index": "a/../b"}, "got 'a/../b'"),
        ("http://h/{query}", {"index": "x"}, "--preset '' is not one of"),
    ],
)
def test_a_request_that_cannot_work_is_refused_before_the_run(
    url: str, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        agent_for(url, **settings)
    assert words in str(caught.value)
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        ("http://example.org/?q={query}", {"headers": ("X-A: $HOME",)}),
        ("http://example.org/?q={query}&k=${HOME}", {}),
        ("http://example.org/", {"body": "@/etc/hostname"}),
    ],
)
def test_strangers_read_neither_files_nor_variables(url: str, settings: dict[str, Any]) -> None:
    policy = OutboundPolicy(("example.org",), public_only=True)
    with pytest.raises(UsageError, match="server"):
        open_target(
            f"rest:{url}", OpenContext(DATA, policy=policy, request=RequestSettings(**settings))
        )
