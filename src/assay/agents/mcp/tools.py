"""Which of a server's tools searches, and what it calls the query and the number of results.

Names are found in the tools' input schemas; `--map query=q,top_k=limit` names what cannot be
guessed, and `--map arg.collection=docs` sets an argument that a tool requires. Dots nest:
`--map arg.filter.language=en`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from assay.agents.mapping import CONSTANT
from assay.errors import TargetError, UsageError
from assay.net.json import JsonObject

if TYPE_CHECKING:  # the MCP library takes half a second to import
    from mcp_types import Tool

# In the order of preference, without case, dashes and underscores.
_QUERY_NAMES = re.findall(
    r"\w+",
    "query q question querytext searchquery text search searchterm term keywords keyword prompt "
    "input",
)
_TOP_K_NAMES = re.findall(
    r"\w+",
    "topk k limit n maxresults numresults nresults count size top pagesize perpage maxitems",
)
_SEARCHES = re.compile(r"search|retriev|find|query|lookup|recall", re.IGNORECASE)
_DOES_MORE = re.compile(r"answer|creat|writ|updat|delet|remov|upload|status", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SearchTool:
    """A search tool, with the names of its arguments.

    `most` is the largest `top_k` that the tool accepts; `constants` are sent with every call.
    """

    name: str
    query: str
    top_k: str | None
    most: int | None
    constants: Mapping[str, Any]

    def arguments(self, query: str, top_k: int) -> JsonObject:
        """The arguments of one call."""
        count = {} if self.top_k is None else {self.top_k: min(top_k, self.most or top_k)}
        return {**self.constants, self.query: query, **count}

    def describe(self) -> str:
        """The tool and its arguments, for the record of a run."""
        count = f"top_k as {self.top_k!r}" if self.top_k else "no top_k"
        return f"tool {self.name!r}, query as {self.query!r}, {count}"


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
        raise TargetError(
            f"none of the server's tools looks like a search tool; append its name to "
            f"the target: ...#TOOL. Available: {_names(tools)}"
        )
    return _search_tool(best[1], mapping)


def _likeness(tool: "Tool", mapping: Mapping[str, str]) -> int:
    """0 for a tool that takes no query."""
    if _query_argument(tool, mapping) is None:
        return 0
    score = 4 if _SEARCHES.search(tool.name) else 0
    score += 1 if _SEARCHES.search(tool.description or "") else 0
    score += 2 if _top_k_argument(tool, mapping) else 0
    score -= 3 if _DOES_MORE.search(tool.name) else 0
    return score


def _search_tool(tool: "Tool", mapping: Mapping[str, str]) -> SearchTool:
    query = _query_argument(tool, mapping)
    if query is None:
        raise TargetError(
            f"tool {tool.name!r} has no argument that looks like a query; name it with: "
            f"--map query=NAME. It takes: {', '.join(_properties(tool)) or 'nothing'}"
        )
    top_k = _top_k_argument(tool, mapping)
    constants = _constants(tool, mapping)
    missing = set(tool.input_schema.get("required", ())) - {query, top_k, *constants}
    if missing:
        name = sorted(missing)[0]
        raise TargetError(
            f"tool {tool.name!r} requires {name!r}; set it with: --map arg.{name}=VALUE"
        )
    return SearchTool(tool.name, query, top_k, _maximum(tool, top_k), constants)


def _constants(tool: "Tool", mapping: Mapping[str, str]) -> JsonObject:
    """Arguments that are sent with every call; a dot leads into an object."""
    constants: JsonObject = {}
    for key, value in mapping.items():
        if not key.startswith(CONSTANT):
            continue
        name = key.removeprefix(CONSTANT)
        *outer, last = [name] if name in _properties(tool) else name.split(".")
        place: Any = constants
        for step in outer:
            place = place.setdefault(step, {})
            if not isinstance(place, dict):
                raise UsageError(
                    f"--map {key}={value}: {step!r} has a value already; leave one out"
                )
        place[last] = _value(value)
    return constants


def _query_argument(tool: "Tool", mapping: Mapping[str, str]) -> str | None:
    texts = [name for name, schema in _properties(tool).items() if _takes(schema, "string")]
    if "query" in mapping:
        return _declared(tool, mapping["query"])
    for wanted in _QUERY_NAMES:
        for name in texts:
            if _bare(name) == wanted:
                return name
    required = [name for name in texts if name in tool.input_schema.get("required", ())]
    return required[0] if len(required) == 1 and _SEARCHES.search(tool.name) else None


def _top_k_argument(tool: "Tool", mapping: Mapping[str, str]) -> str | None:
    if "top_k" in mapping:
        return _declared(tool, mapping["top_k"])
    numbers = {
        _bare(name): name
        for name, schema in _properties(tool).items()
        if _takes(schema, "integer") or _takes(schema, "number")
    }
    return next((numbers[name] for name in _TOP_K_NAMES if name in numbers), None)


def _declared(tool: "Tool", name: str) -> str | None:
    return name if name in _properties(tool) else None


def _maximum(tool: "Tool", name: str | None) -> int | None:
    schema = _properties(tool).get(name or "", {})
    most = schema.get("maximum") if isinstance(schema, dict) else None
    return int(most) if isinstance(most, int | float) and most >= 1 else None


def _takes(schema: Any, kind: str) -> bool:
    """Whether a property takes this type: `type` may be a list, or hide in `anyOf`."""
    if not isinstance(schema, dict):
        return False
    declared = schema.get("type")
    if declared == kind or (isinstance(declared, list) and kind in declared):
        return True
    return any(_takes(each, kind) for each in schema.get("anyOf", ()))


def _properties(tool: "Tool") -> dict[str, Any]:
    properties = tool.input_schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _bare(name: str) -> str:
    return re.sub(r"[_\-\s]", "", name).lower()


def _value(text: str) -> Any:
    """A number, true, false or null where it reads as one, else the text itself."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _names(tools: "Sequence[Tool]") -> str:
    return ", ".join(tool.name for tool in tools[:20]) or "none"
