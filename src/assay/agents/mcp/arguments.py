"""The arguments of an MCP tool, as its input schema declares them, those of inner objects included.

An argument of an inner object is named with dots: `params.query`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from assay.net.json import JsonObject

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
