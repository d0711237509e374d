"""Which of a server's tools searches, and the arguments that its schema asks for.

Names are found in the tools' input schemas. A query is only ever put into an argument whose name is
that of a query; `--map query=q,top_k=limit` names what cannot be recognized, and
`--map arg.collection=docs` sets an argument that a tool requires. Dots lead into objects:
`--map query=params.query --map arg.filter.language=en`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from assay.errors import TargetError, UsageError
from assay.net.json import JsonObject, parse_json
from assay.net.redact import printable
from assay.targets.mapping import CONSTANT

if TYPE_CHECKING:
    from mcp_types import Tool


_DEEPEST = 3
_MOST = 200
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument.

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

    @property
    def takes_number(self) -> bool:
        """Whether it takes a number."""
        return bool(self.types & {"integer", "number"})


def arguments_of(input_schema: Mapping[str, Any]) -> list[Argument]:
    """Every argument of a tool, outer ones first."""
    found: list[Argument] = []
    for argument in _walk(input_schema, input_schema, (), 1):
        found.append(argument)
        if len(found) == _MOST:
            break
    return sorted(found, key=lambda each: len(each.path))


def set_argument(arguments: JsonObject, path: tuple[str, ...], value: Any) -> bool:
    """Put `value` at `path`, making inner objects; False if something else is in the way."""
    place: Any = arguments
    for step in path[:-1]:
        place = place.setdefault(step, {})
        if not isinstance(place, dict):
            return False
    place[path[-1]] = value
    return True


def _walk(
    schema: Mapping[str, Any], root: Mapping[str, Any], path: tuple[str, ...], depth: int
) -> Iterator[Argument]:
    for each in _variants(schema, root):
        properties, required = each.get("properties"), each.get("required")
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            variants = list(_variants(inner, root))
            needed = isinstance(required, list) and name in required
            yield _argument((*path, str(name)), variants, needed)
            for variant in variants if depth < _DEEPEST else ():
                yield from _walk(variant, root, (*path, str(name)), depth + 1)


def _argument(path: tuple[str, ...], variants: list[Mapping[str, Any]], required: bool) -> Argument:
    types: set[str] = set()
    numbers: list[int] = []
    choices: list[str] = []
    for variant in variants:
        types |= _types(variant)
        most = variant.get("maximum")
        if isinstance(most, int | float) and most >= 1:
            numbers.append(int(most))
        values = variant.get("enum", [variant["const"]] if "const" in variant else ())
        choices += [str(value) for value in values if isinstance(values, list)]
    return Argument(path, frozenset(types), required, max(numbers, default=None), tuple(choices))


def _types(schema: Mapping[str, Any]) -> set[str]:
    declared = schema.get("type")
    types = {declared} if isinstance(declared, str) else set(declared or ())
    if not types and not any(name in schema for name in (*_ALTERNATIVES, "$ref", "properties")):
        return {"any"}
    if "array" in types:
        items = schema.get("items")
        inner = _types(items) if isinstance(items, dict) else {"any"}
        if inner & {"string", "any"}:
            types.add("texts")
    return types


def _variants(schema: Any, root: Mapping[str, Any], depth: int = 4) -> Iterator[Mapping[str, Any]]:
    """The schema and what it refers to or offers as alternatives."""
    if not isinstance(schema, dict) or not depth:
        return
    yield schema
    if isinstance(reference := schema.get("$ref"), str):
        yield from _variants(_resolve(reference, root), root, depth - 1)
    for name in _ALTERNATIVES:
        for each in schema.get(name, ()) if isinstance(schema.get(name), list) else ():
            yield from _variants(each, root, depth - 1)


def _resolve(reference: str, root: Mapping[str, Any]) -> Any:
    """What a reference inside the document names; None for any other."""
    if not reference.startswith("#/"):
        return None
    place: Any = root
    for step in reference.removeprefix("#/").split("/"):
        place = place.get(step) if isinstance(place, dict) else None
    return place


# In the order of preference, without case, dashes and underscores.
_QUERY_NAMES = re.findall(
    r"\w+",
    "query q question querytext searchquery userquery querystring searchtext searchstring text "
    "search searchterm searchterms term terms keywords keyword phrase topic prompt message input "
    "queries querytexts questions searchqueries texts",
)
_TOP_K_NAMES = re.findall(
    r"\w+",
    "topk k limit n maxresults numresults nresults count size top pagesize perpage maxitems",
)
_RESULTS = (
    r"(?:results?|hits|matches|docs|documents|items|chunks|passages|records|rows|entries|notes"
    r"|articles|sources)"
)
_NUMBER_OF_RESULTS = re.compile(
    rf"(?:max|maximum|num|number|numberof|n|top|limit){_RESULTS}|{_RESULTS}(?:count|limit)|first"
)
_QUERY_WORDS = {"query", "queries", "question", "questions"}
# "collection_name", "query_type" and "search_id" name other things, whatever else they say.
_OTHER_WORDS = re.compile(
    r"\b(?:name|names|id|ids|type|mode|kind|filter|filters|language|lang|format|model|index|path"
    r"|collection|database|table|field|fields|vector|vectors|embedding|embeddings|options?|params"
    r"|plan|hash|url|uri|count|size|limit)\b"
)
_SEARCHES = re.compile(r"search|retriev|find|query|lookup|recall", re.IGNORECASE)
_DOES_MORE = re.compile(
    r"answer|creat|writ|updat|delet|remov|upload|status|store|insert|upsert|(?:^|_)add(?:_|$)",
    re.IGNORECASE,
)
_TOOLS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class SearchTool:
    """A search tool with its arguments; `constants` are sent with every call."""

    name: str
    query_argument: Argument
    top_k_argument: Argument | None
    constants: Mapping[str, Any]

    @property
    def query(self) -> str:
        """The name of the argument that takes the query."""
        return self.query_argument.name

    @property
    def top_k(self) -> str | None:
        """The name of the argument that takes the number of results, if there is one."""
        return None if self.top_k_argument is None else self.top_k_argument.name

    def arguments(self, query: str, top_k: int) -> JsonObject:
        """The arguments of one call."""
        arguments: JsonObject = parse_json(orjson.dumps(self.constants))
        text: Any = [query] if self.query_argument.takes_texts else query
        set_argument(arguments, self.query_argument.path, text)
        if (count := self.top_k_argument) is not None:
            set_argument(arguments, count.path, min(top_k, count.maximum or top_k))
        return arguments

    def describe(self) -> str:
        """The tool and its arguments, for the terminal and the record of a run."""
        form = " (a list)" if self.query_argument.takes_texts else ""
        count = f"top_k as {self.top_k!r}" if self.top_k else "no top_k"
        return printable(f"tool {self.name!r}, query as {self.query!r}{form}, {count}")


def find_search_tool(
    tools: "Sequence[Tool]", wanted: str | None, mapping: Mapping[str, str]
) -> SearchTool:
    """The tool named `wanted`, else the first of those that look most like a search.

    Raises `TargetError` if there is none, or where it needs an argument that is not mapped.
    """
    if wanted is not None:
        named = next((tool for tool in tools if tool.name == wanted), None)
        if named is None:
            raise TargetError(f"the server has no tool {wanted!r}; it has: {_names(tools)}")
        return _search_tool(named, mapping)
    rated = [(_likeness(tool, mapping), tool) for tool in tools]
    best = max(rated, key=lambda pair: pair[0], default=(0, None))
    if best[1] is None or best[0] <= 0:
        raise TargetError(_no_search_tool(tools, mapping))
    return _search_tool(best[1], mapping)


def _no_search_tool(tools: "Sequence[Tool]", mapping: Mapping[str, str]) -> str:
    similar = next((tool for tool in tools if _SEARCHES.search(tool.name)), None)
    if similar is not None:
        what = _no_query(similar, mapping.get("query"))
        return f"{what}. To use another tool, append its name, ...#TOOL: {_names(tools)}"
    return (
        "none of the server's tools looks like a search tool; append its name to "
        f"the target: ...#TOOL. Available: {_names(tools)}"
    )


def _likeness(tool: "Tool", mapping: Mapping[str, str]) -> int:
    """0 for a tool that takes no query."""
    arguments = arguments_of(tool.input_schema)
    if _query_argument(arguments, mapping) is None:
        return 0
    score = 4 if _SEARCHES.search(tool.name) else 0
    score += 1 if _SEARCHES.search(tool.description or "") else 0
    score += 2 if _top_k_argument(arguments, mapping, ()) else 0
    score -= 3 if _DOES_MORE.search(tool.name) else 0
    return score


def _search_tool(tool: "Tool", mapping: Mapping[str, str]) -> SearchTool:
    arguments = arguments_of(tool.input_schema)
    query = _query_argument(arguments, mapping)
    if query is None:
        raise TargetError(_no_query(tool, mapping.get("query")))
    top_k = _top_k_argument(arguments, mapping, query.path[:-1])
    if top_k is None and "top_k" in mapping:
        raise TargetError(
            f"--map top_k={mapping['top_k']}: tool {tool.name!r} has no such argument; it takes: "
            f"{_takes(arguments)}"
        )
    constants = _constants(arguments, mapping)
    chosen = SearchTool(tool.name, query, top_k, constants)
    missing = _missing(arguments, chosen.arguments("", 1))
    if missing:
        options = " ".join(f"--map arg.{each.name}={_example(each)}" for each in missing[:4])
        named = " and ".join(repr(each.name) for each in missing[:4])
        them = "them" if len(missing) > 1 else "it"
        raise TargetError(f"tool {tool.name!r} requires {named}; set {them} with: {options}")
    return chosen


def _no_query(tool: "Tool", wanted: str | None = None) -> str:
    arguments = arguments_of(tool.input_schema)
    if wanted is not None:
        return (
            f"--map query={wanted}: tool {tool.name!r} has no such argument; it takes: "
            f"{_takes(arguments)}"
        )
    texts = [each.name for each in arguments if each.takes_text or each.takes_texts]
    guess = texts[0] if len(texts) == 1 else "NAME"
    return (
        f"tool {tool.name!r} has no argument that looks like a query; name it with: "
        f"--map query={guess}. It takes: {_takes(arguments)}"
    )


def _takes(arguments: Sequence[Argument]) -> str:
    return printable(", ".join(each.name for each in arguments[:20])) or "nothing"


def _example(argument: Argument) -> str:
    return "|".join(argument.choices[:6]) if argument.choices else "VALUE"


def _missing(arguments: Sequence[Argument], sent: JsonObject) -> list[Argument]:
    """Required arguments that are not sent, of objects that are."""
    missing = []
    for each in arguments:
        holder: Any = sent
        for step in each.path[:-1]:
            holder = holder.get(step) if isinstance(holder, dict) else None
        if each.required and isinstance(holder, dict) and each.path[-1] not in holder:
            missing.append(each)
    return missing


def _constants(arguments: Sequence[Argument], mapping: Mapping[str, str]) -> JsonObject:
    """Arguments that are sent with every call; a dot leads into an object."""
    constants: JsonObject = {}
    declared = {each.name: each for each in arguments}
    for key, value in mapping.items():
        if not key.startswith(CONSTANT):
            continue
        name = key.removeprefix(CONSTANT)
        argument = declared.get(name)
        path = argument.path if argument else tuple(name.split("."))
        if not set_argument(constants, path, _value(value, argument)):
            raise UsageError(f"--map {key}={value}: {path[0]!r} has a value already; leave one out")
    return constants


def _query_argument(arguments: Sequence[Argument], mapping: Mapping[str, str]) -> Argument | None:
    if "query" in mapping:
        return next((each for each in arguments if each.name == mapping["query"]), None)
    candidates = [
        (len(each.path), each.takes_texts, rank, each)
        for each in arguments
        if each.takes_text or each.takes_texts
        if (rank := _query_rank(each.path[-1])) is not None
    ]
    return min(candidates, key=lambda row: row[:3])[3] if candidates else None


def _query_rank(name: str) -> int | None:
    """How much a name is that of a query, 0 for the most; None if it is not."""
    bare = _bare(name)
    if bare in _QUERY_NAMES:
        return _QUERY_NAMES.index(bare)
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[_\-.\s]+", " ", name).lower()
    plausible = _QUERY_WORDS & set(words.split()) and not _OTHER_WORDS.search(words)
    return len(_QUERY_NAMES) if plausible else None


def _top_k_argument(
    arguments: Sequence[Argument], mapping: Mapping[str, str], beside: tuple[str, ...]
) -> Argument | None:
    """The number of results; one in the same object as the query comes first."""
    if "top_k" in mapping:
        return next((each for each in arguments if each.name == mapping["top_k"]), None)
    candidates = [
        (each.path[:-1] != beside, len(each.path), place, each)
        for each in arguments
        if each.takes_number and (place := _top_k_place(_bare(each.path[-1]))) is not None
    ]
    return min(candidates, key=lambda row: row[:3])[3] if candidates else None


def _top_k_place(name: str) -> int | None:
    """How far down among the names for the number of results; None for another name."""
    if name in _TOP_K_NAMES:
        return _TOP_K_NAMES.index(name)
    return len(_TOP_K_NAMES) if _NUMBER_OF_RESULTS.fullmatch(name) else None


def _bare(name: str) -> str:
    return re.sub(r"[_\-\s]", "", name).lower()


def _value(text: str, argument: Argument | None) -> Any:
    """A number, true, false, null, list or object where it reads as one, else the text itself."""
    if argument is not None and argument.types == {"string"}:
        return text
    try:
        return parse_json(text)
    except orjson.JSONDecodeError:
        return text


def _names(tools: "Sequence[Tool]") -> str:
    more = f" and {len(tools) - _TOOLS_SHOWN} more" if len(tools) > _TOOLS_SHOWN else ""
    return printable(", ".join(tool.name for tool in tools[:_TOOLS_SHOWN]) or "none") + more
