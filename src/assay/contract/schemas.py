"""The models as JSON Schema files, for callers in other languages.

python -m assay.contract.schemas docs/schemas
"""

import sys
from pathlib import Path

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
from assay.net.json import JsonObject

EXPORTED: dict[type[BaseModel], JsonSchemaMode] = {
    AgentRunRequest: "validation",
    Budgets: "validation",
    AgentRunResponse: "serialization",
    AgentError: "serialization",
    GroundingPack: "serialization",
    Usage: "serialization",
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


def schema_files() -> dict[str, bytes]:
    """File name -> contents, ready to be written or compared."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    return {
        f"{model.__name__}.json": orjson.dumps(_schema(model, mode), option=options)
        for model, mode in EXPORTED.items()
    }


def _schema(model: type[BaseModel], mode: JsonSchemaMode) -> JsonObject:
    found = model.model_json_schema(mode=mode, schema_generator=_AbsentNotNull)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def write_schemas(arguments: list[str]) -> int:
    """The command line: writes the files into a folder."""
    if len(arguments) != 1:
        print("usage: python -m assay.contract.schemas FOLDER", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, contents in schema_files().items():
        (folder / name).write_bytes(contents)
    return 0


if __name__ == "__main__":
    sys.exit(write_schemas(sys.argv[1:]))
