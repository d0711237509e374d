"""Which of a server's tools searches, and the arguments that its schema asks for.

A query is only ever put into an argument whose name is that of a query; `--map
query=q,top_k=limit` names what cannot be recognized, and `--map arg.collection=docs` sets an
argument that a tool requires. Dots lead into objects: `--map query=params.query`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from assay.errors import TargetError, UsageError
from assay.net.json import JsonObject, parse_json
from assay.net.redact import printable
from assay.targets.mapping import CONSTANT

if TYPE_CHECKING:
    from mcp_types import Tool

_MAX_DEPTH = 3
_MAX_ARGUMENTS = 200
_MAX_SHOWN = 20
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")

# In the order of preference, without case, dashes and underscores.
_QUERY_NAMES = re.findall(
    r"\w+",
    "query q question querytext searchquery userquery querystring searchtext searchstring text "
    "search searchterm searchterms term terms keywords keyword phrase topic prompt message input "
    "queries querytexts questions searchqueries texts",
)
_TOP_K_NAMES = re.findall(
    r"\w+",
    "topk k limit n maxresults numresults nresults count size top pagesize perpage maxitems "
    "maxhits maxdocs maxdocuments topn first resultlimit resultcount numberofresults",
)
_SEARCHES = re.compile(r"search|retriev|find|query|lookup|recall", re.IGNORECASE)
_DOES_MORE = re.compile(
    r"answer|creat|writ|updat|delet|remov|upload|status|store|insert|upsert|(?:^|_)add(?:_|$)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool.

    Parameters:
        path: the steps that lead to it; one for an argument of the tool itself.
        types: the JSON types it takes; `any` if it declares none, `texts` for a list of strings.
        required: whether its object requires it.
        maximum: the largest number it takes, if it is one.
        choices: the only values that it takes.
    """

    path: tuple[str, ...]
    types: frozenset[str]
    required: bool = False
    maximum: int | None = None
    choices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name with dots."""
        return ".".join(self.path)

    @property
    def takes_text(self) -> bool:
        """Whether it takes any string."""
        return bool(self.types & {"string", "any"}) and not self.choices

    @property
    def takes_texts(self) -> bool:
        """Whether it takes a list of strings, and no single string."""
        return "texts" in self.types and not self.takes_text

    def rank_in(self, names: Sequence[str]) -> int | None:
        """Its place among `names`, 0 for the best; None if it has another name."""
        bare = re.sub(r"[_\-\s]", "", self.path[-1]).lower()
        return names.index(bare) if bare in names else None


def arguments_of(schema: Mapping[str, Any]) -> list[Argument]:
    """Every argument of a tool, outer ones first."""
    found = islice(_walk(schema, schema, ()), _MAX_ARGUMENTS)
    return sorted(found, key=lambda argument: len(argument.path))


def _walk(schema: Any, root: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[Argument]:
    for variant in _variants(schema, root):
        properties, required = variant.get("properties"), variant.get("required")
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            here = (*path, str(name))
            needed = isinstance(required, list) and name in required
            yield _argument(here, list(_variants(inner, root)), needed)
            if len(here) < _MAX_DEPTH:
                yield from _walk(inner, root, here)


def _argument(path: tuple[str, ...], variants: list[Mapping[str, Any]], required: bool) -> Argument:
    types: set[str] = set()
    numbers: list[int] = []
    choices: list[str] = []
    for variant in variants:
        types |= _types(variant)
        if isinstance(most := variant.get("maximum"), int | float) and most >= 1:
            numbers.append(int(most))
        values = variant.get("enum", [variant["const"]] if "const" in variant else ())
        choices += map(str, values) if isinstance(values, list) else ()
    return Argument(path, frozenset(types), required, max(numbers, default=None), tuple(choices))


def _types(schema: Mapping[str, Any]) -> set[str]:
    declared = schema.get("type")
    types = {declared} if isinstance(declared, str) else set(declared or ())
    if not types and not any(name in schema for name in (*_ALTERNATIVES, "$ref", "properties")):
        return {"any"}
    items = schema.get("items")
    inner = _types(items) if isinstance(items, dict) else {"any"}
    return types | {"texts"} if "array" in types and inner & {"string", "any"} else types


def _variants(schema: Any, root: Mapping[str, Any], depth: int = 4) -> Iterator[Mapping[str, Any]]:
    """The schema and what it refers to or offers as alternatives."""
    if not isinstance(schema, dict) or not depth:
        return
    yield schema
    if isinstance(reference := schema.get("$ref"), str) and reference.startswith("#"):
        place: Any = root
        for step in filter(None, reference.removeprefix("#").split("/")):
            place = place.get(step) if isinstance(place, dict) else None
        yield from _variants(place, root, depth - 1)
    for name in _ALTERNATIVES:
        for each in schema.get(name, ()) if isinstance(schema.get(name), list) else ():
            yield from _variants(each, root, depth - 1)


@dataclass(frozen=True, slots=True)
class SearchTool:
    """A search tool with its arguments; `constants` are sent with every call."""

    name: str
    query: Argument
    top_k: Argument | None
    constants: Mapping[str, Any]

    def arguments(self, query: str, top_k: int) -> JsonObject:
        """The arguments of one call."""
        arguments: JsonObject = parse_json(orjson.dumps(self.constants))
        _set(arguments, self.query.path, [query] if self.query.takes_texts else query)
        if self.top_k is not None:
            _set(arguments, self.top_k.path, min(top_k, self.top_k.maximum or top_k))
        return arguments

    def describe(self) -> str:
        """The tool and its arguments, for the terminal and the record of a run."""
        form = " (a list)" if self.query.takes_texts else ""
        count = f"top_k as {self.top_k.name!r}" if self.top_k else "no top_k"
        return printable(f"tool {self.name!r}, query as {self.query.name!r}{form}, {count}")


def _set(arguments: JsonObject, path: tuple[str, ...], value: Any) -> bool:
    """Put `value` at `path`, making inner objects; False if something else is in the way."""
    place: Any = arguments
    for step in path[:-1]:
        place = place.setdefault(step, {})
        if not isinstance(place, dict):
            return False
    place[path[-1]] = value
    return True


def find_search_tool(
    tools: "Sequence[Tool]", wanted: str | None, mapping: Mapping[str, str]
) -> SearchTool:
    """The tool named `wanted`, else the first of those that look most like a search.

    Raises `TargetError` if there is none, or if it needs an argument that is not mapped.
    """
    more = f" and {len(tools) - _MAX_SHOWN} more" if len(tools) > _MAX_SHOWN else ""
    names = printable(", ".join(tool.name for tool in tools[:_MAX_SHOWN]) or "none") + more
    if wanted is not None:
        named = next((tool for tool in tools if tool.name == wanted), None)
        if named is None:
            raise TargetError(f"the server has no tool {wanted!r}; it has: {names}")
        return _search_tool(named, mapping)
    best = max(tools, key=lambda tool: _likeness(tool, mapping), default=None)
    if best is not None and _likeness(best, mapping) > 0:
        return _search_tool(best, mapping)
    similar = next((tool for tool in tools if _SEARCHES.search(tool.name)), None)
    if similar is None:
        raise TargetError(
            "none of the server's tools looks like a search tool; append its name to "
            f"the target: ...#TOOL. Available: {names}"
        )
    what = _no_query(similar, mapping.get("query"))
    raise TargetError(f"{what}. To use another tool, append its name, ...#TOOL: {names}")


def _likeness(tool: "Tool", mapping: Mapping[str, str]) -> int:
    """0 for a tool that takes no query."""
    arguments = arguments_of(tool.input_schema)
    if _query_argument(arguments, mapping) is None:
        return 0
    score = 4 if _SEARCHES.search(tool.name) else 0
    score += 1 if _SEARCHES.search(tool.description or "") else 0
    score += 2 if _top_k_argument(arguments, mapping, ()) else 0
    return score - (3 if _DOES_MORE.search(tool.name) else 0)


def _search_tool(tool: "Tool", mapping: Mapping[str, str]) -> SearchTool:
    arguments = arguments_of(tool.input_schema)
    query = _query_argument(arguments, mapping)
    if query is None:
        raise TargetError(_no_query(tool, mapping.get("query")))
    top_k = _top_k_argument(arguments, mapping, query.path[:-1])
    if top_k is None and "top_k" in mapping:
        raise TargetError(_no_argument(tool, "top_k", mapping["top_k"]))
    chosen = SearchTool(tool.name, query, top_k, _constants(arguments, mapping))
    missing = _missing(arguments, chosen.arguments("", 1))[:4]
    if missing:
        values = ["|".join(each.choices[:6]) or "VALUE" for each in missing]
        pairs = zip(missing, values, strict=True)
        options = " ".join(f"--map arg.{each.name}={value}" for each, value in pairs)
        named = " and ".join(repr(each.name) for each in missing)
        them = "them" if len(missing) > 1 else "it"
        raise TargetError(f"tool {tool.name!r} requires {named}; set {them} with: {options}")
    return chosen


def _no_argument(tool: "Tool", key: str, wanted: str) -> str:
    takes = _takes(arguments_of(tool.input_schema))
    return f"--map {key}={wanted}: tool {tool.name!r} has no such argument; it takes: {takes}"


def _no_query(tool: "Tool", wanted: str | None = None) -> str:
    if wanted is not None:
        return _no_argument(tool, "query", wanted)
    arguments = arguments_of(tool.input_schema)
    texts = [each.name for each in arguments if each.takes_text or each.takes_texts]
    guess = texts[0] if len(texts) == 1 else "NAME"
    return (
        f"tool {tool.name!r} has no argument that looks like a query; name it with: "
        f"--map query={guess}. It takes: {_takes(arguments)}"
    )


def _takes(arguments: Sequence[Argument]) -> str:
    return printable(", ".join(each.name for each in arguments[:_MAX_SHOWN])) or "nothing"


def _missing(arguments: Sequence[Argument], sent: JsonObject) -> list[Argument]:
    """Required arguments that are not sent, of objects that are."""
    missing = []
    for argument in arguments:
        holder: Any = sent
        for step in argument.path[:-1]:
            holder = holder.get(step) if isinstance(holder, dict) else None
        if argument.required and isinstance(holder, dict) and argument.path[-1] not in holder:
            missing.append(argument)
    return missing


def _constants(arguments: Sequence[Argument], mapping: Mapping[str, str]) -> JsonObject:
    """Arguments that are sent with every call; a dot leads into an object."""
    constants: JsonObject = {}
    declared = {argument.name: argument for argument in arguments}
    for key, text in mapping.items():
        if not key.startswith(CONSTANT):
            continue
        argument = declared.get(key.removeprefix(CONSTANT))
        path = argument.path if argument else tuple(key.removeprefix(CONSTANT).split("."))
        value: Any = text
        if argument is None or argument.types != {"string"}:
            with suppress(orjson.JSONDecodeError):  # else it is a text
                value = parse_json(text)
        if not _set(constants, path, value):
            raise UsageError(f"--map {key}={text}: {path[0]!r} has a value already; leave one out")
    return constants


def _query_argument(arguments: Sequence[Argument], mapping: Mapping[str, str]) -> Argument | None:
    if "query" in mapping:
        return next((each for each in arguments if each.name == mapping["query"]), None)
    candidates = [
        (len(each.path), each.takes_texts, rank, each)
        for each in arguments
        if (each.takes_text or each.takes_texts)
        and (rank := each.rank_in(_QUERY_NAMES)) is not None
    ]
    return min(candidates, key=lambda row: row[:3])[3] if candidates else None


def _top_k_argument(
    arguments: Sequence[Argument], mapping: Mapping[str, str], beside: tuple[str, ...]
) -> Argument | None:
    """The number of results; one in the same object as the query comes first."""
    if "top_k" in mapping:
        return next((each for each in arguments if each.name == mapping["top_k"]), None)
    candidates = [
        (each.path[:-1] != beside, len(each.path), rank, each)
        for each in arguments
        if each.types & {"integer", "number"} and (rank := each.rank_in(_TOP_K_NAMES)) is not None
    ]
    return min(candidates, key=lambda row: row[:3])[3] if candidates else None
