"""Which tool searches and how it is called: from its schema, or as the user says."""

from typing import Any

import pytest
from mcp_types import Tool

from assay.errors import TargetError
from assay.targets.answer_reader import parse_mapping
from assay.targets.mcp import find_search_tool

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def tool(name: str, about: str = "", required: tuple[str, ...] = (), **arguments: Any) -> Tool:
    schema = {"type": "object", "properties": arguments, "required": list(required)}
    return Tool(name=name, description=about, input_schema=schema)


@pytest.mark.parametrize(
    ("arguments", "query", "top_k"),
    [
        ({"query": TEXT, "top_k": NUMBER}, "query", "top_k"),
        ({"q": TEXT, "limit": NUMBER}, "q", "limit"),
        ({"text": TEXT, "k": NUMBER, "offset": NUMBER}, "text", "k"),
        ({"filter": TEXT, "question": TEXT, "numResults": NUMBER}, "question", "numResults"),
        ({"searchQuery": TEXT, "max_results": {"type": "number"}}, "searchQuery", "max_results"),
        ({"query": {"anyOf": [TEXT, {"type": "null"}]}, "n": NUMBER}, "query", "n"),
        ({"query": {"type": ["string", "null"]}, "limit": TEXT}, "query", None),
        ({"query": TEXT, "maxHits": NUMBER, "page": NUMBER}, "query", "maxHits"),
        ({"query": TEXT}, "query", None),
    ],
)
def test_arguments_are_found_by_their_names(
    arguments: dict[str, Any], query: str, top_k: str | None
) -> None:
    found = find_search_tool([tool("search", **arguments)], "", {})
    assert (found.query.name, found.top_k and found.top_k.name) == (query, top_k)


def test_the_tool_is_named_or_the_first_that_looks_most_like_a_search() -> None:
    tools = [tool(name, query=TEXT) for name in ("delete_by_query", "search_a", "retrieve")]
    assert find_search_tool(tools, "", {}).name == "search_a"
    assert find_search_tool(tools, "retrieve", {}).name == "retrieve"
    with pytest.raises(TargetError, match="no tool 'x'; it has: delete_by_query, search_a"):
        find_search_tool(tools, "x", {})


def test_a_server_without_a_search_tool_is_refused() -> None:
    with pytest.raises(TargetError, match=r"no tool that looks like a search.*it has: add"):
        find_search_tool([tool("add", a=NUMBER)], "", {})
    with pytest.raises(TargetError, match="has no argument that looks like a query"):
        find_search_tool([tool("add", a=NUMBER)], "add", {})


def test_the_user_can_say_what_is_what() -> None:
    mapping = parse_mapping(
        [
            *("query=words", "top_k=amount", "arg.lang=en", "arg.deep=true"),
            "arg.filter.year.from=2020",
        ]
    )
    tools = [tool("x", "", ("words", "lang"), words=TEXT, amount=NUMBER, lang=TEXT)]
    found = find_search_tool(tools, "x", mapping)
    assert found.arguments("coffee", 3) == {
        "words": "coffee",
        "amount": 3,
        "lang": "en",
        "deep": True,
        "filter": {"year": {"from": 2020}},
    }


def test_more_than_the_tool_takes_is_not_asked_for() -> None:
    found = find_search_tool([tool("s", query=TEXT, k={**NUMBER, "maximum": 20})], "s", {})
    assert found.arguments("x", 100) == {"query": "x", "k": 20}


@pytest.mark.parametrize("name", ["collection_name", "query_type", "queryId", "path"])
def test_a_query_is_not_put_into_an_argument_of_another_name(name: str) -> None:
    tools = [tool("search", "", (name,), **{name: TEXT})]
    with pytest.raises(TargetError, match=f"no argument .* a query; .* It takes: {name}"):
        find_search_tool(tools, "", {})
    assert find_search_tool(tools, "", {"query": name}).query.name == name


def test_arguments_of_an_inner_object_are_found_through_references() -> None:
    inner = {
        "type": "object",
        "properties": {"query": TEXT, "limit": NUMBER, "index": TEXT},
        "required": ["query", "index"],
    }
    schema = {
        "type": "object",
        "$defs": {"Params": inner},
        "properties": {"params": {"anyOf": [{"$ref": "#/$defs/Params"}, {"type": "null"}]}},
        "required": ["params"],
    }
    tools = [Tool(name="search", input_schema=schema)]
    with pytest.raises(TargetError, match=r"requires 'params.index'.*--map arg\.params\.index="):
        find_search_tool(tools, "", {})
    found = find_search_tool(tools, "", {"arg.params.index": "5"})
    assert found.query.name == "params.query"
    assert found.arguments("x", 3) == {"params": {"index": "5", "query": "x", "limit": 3}}


def test_a_schema_that_refers_to_itself_ends() -> None:
    loop = {"type": "object", "properties": {"query": TEXT, "more": {"$ref": "#"}}}
    tools = [Tool(name="search", input_schema=loop)]
    assert find_search_tool(tools, "", {}).query.name == "query"
