"""Writes docs/schemas from the models of the agent contract and of a run's files.

python scripts/render_schemas.py [--check]
"""

import sys
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

from assay.contract.envelope import (
    AgentError,
    AgentRunRequest,
    AgentRunResponse,
    Budgets,
    GroundingPack,
    Usage,
)
from assay.run.config import command_settings
from assay.run.models import AnswerRow, Comparison, ReportFile, RunHeader
from assay.run.option import Option, OptionPart, option_fields

FOLDER = Path(__file__).parents[1] / "docs" / "schemas"
RUN_FILES: dict[str, type[BaseModel]] = {
    "run.json": RunHeader,
    "report.json": ReportFile,
    "answers.json": AnswerRow,
    "comparison.json": Comparison,
}
"""`answers.json` is about one line of `answers.jsonl`."""

CONTRACT: dict[type[BaseModel], JsonSchemaMode] = {
    AgentRunRequest: "validation",
    Budgets: "validation",
    AgentRunResponse: "serialization",
    AgentError: "serialization",
    GroundingPack: "serialization",
    Usage: "serialization",
}


_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}


def _option_schema(setting: Option) -> dict[str, Any]:
    """The JSON Schema of a setting in assay.toml."""
    text = {"type": "string"}
    if issubclass(setting.kind, OptionPart):
        parts = option_fields(setting.kind)
        keys = {name: {"type": _JSON_TYPES[each.kind]} for name, each in parts.items()}
        table = {"type": "object", "properties": keys, "additionalProperties": False}
        found: dict[str, Any] = {"anyOf": [text, table]}
    elif setting.kind is tuple:
        found = {"anyOf": [text, {"type": "array", "items": text}, {"type": "object"}]}
    else:
        found = {"type": _JSON_TYPES[setting.kind]}
    limits = {"minimum": setting.low, "maximum": setting.high}
    found |= {name: bound for name, bound in limits.items() if bound is not None}
    if setting.choices:
        found["enum"] = list(setting.choices)
    return {**found, "description": setting.help}


def _project_schema() -> dict[str, Any]:
    """The JSON Schema of assay.toml: options of a run at the top, in `[eval]`, `[target.NAME]`.

    Tables and keys of other verbs are allowed without a check.
    """
    options = {setting.param: _option_schema(setting) for setting in command_settings()}
    table = {"type": "object", "properties": options}
    named = {
        "type": "object",
        "properties": {"target": {"type": "string"}, **options},
        "required": ["target"],
        "additionalProperties": False,
    }
    targets = {"type": "object", "additionalProperties": {"$ref": "#/$defs/target"}}
    return {
        "title": "assay.toml",
        "type": "object",
        "properties": {**options, "eval": table, "target": targets},
        "$defs": {"target": named},
    }


class _AbsentNotNull(GenerateJsonSchema):
    """A field without a value is absent under this contract, so no schema offers null."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        found = super().default_schema(schema)
        if found.get("default", ...) is None:
            del found["default"]
        return found

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,
    ) -> bool:
        """In a response, all that has a default other than None is always sent."""
        inner = field["schema"]
        if self.mode == "serialization" and inner["type"] == "default":
            return inner.get("default", ...) is not None
        return super().field_is_required(field, total)


def rendered() -> dict[str, bytes]:
    """The schemas by their path in the folder."""
    found = {
        f"run/{name}": model.model_json_schema(mode="serialization")
        for name, model in RUN_FILES.items()
    }
    for model, mode in CONTRACT.items():
        schema = model.model_json_schema(mode=mode, schema_generator=_AbsentNotNull)
        found[f"{model.__name__}.json"] = schema
    found["assay.schema.json"] = _project_schema()
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    return {name: orjson.dumps(draft | schema, option=options) for name, schema in found.items()}


def stale() -> list[str]:
    """The files that are missing, not as the models have them, or no longer written."""
    stored = {
        path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in FOLDER.rglob("*.json")
    }
    fresh = rendered()
    return sorted(name for name in fresh | stored if stored.get(name) != fresh.get(name))


def main() -> None:
    """Write the files, or say with `--check` which ones are stale."""
    if "--check" in sys.argv:
        if names := stale():
            sys.exit(f"stale in docs/schemas: {', '.join(names)}")
        return
    for name, content in rendered().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
