"""OpenAPI documents, made from the models that the servers validate with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import (
    JsonSchemaMode,
    models_json_schema,
)
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from assay.contract.envelope import (
    AgentRunRequest,
    AgentRunResponse,
    ContractModel,
)
from assay.net.json import JsonObject

OPENAPI_PATH = "/openapi.json"
JSON_TYPE = "application/json"
EVENTS_TYPE = "text/event-stream"

_REFERENCE = "#/components/schemas/{model}"
# A model, or a JSON schema for what has none.
Shape = type[BaseModel] | JsonObject

STATUS_SHAPE: JsonObject = {
    "type": "object",
    "required": ["status", "service"],
    "properties": {"status": {"type": "string"}, "service": {"type": "string"}},
}
ERROR_SHAPE: JsonObject = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string"}},
}


@dataclass(frozen=True, slots=True)
class ResponseDoc:
    """One response of an operation."""

    description: str
    shape: Shape | None = None
    media_type: str = JSON_TYPE


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path; `answers` by status."""

    method: str
    path: str
    summary: str
    answers: Mapping[int, ResponseDoc]
    request: type[BaseModel] | None = None
    parameters: Sequence[str] = ()
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Fields of the request that this server takes with one value only."""


def openapi_document(title: str, operations: Sequence[Operation]) -> JsonObject:
    """The OpenAPI 3.1 document of a server with these operations."""
    references, components = models_json_schema(_models(operations), ref_template=_REFERENCE)
    shapes: JsonObject = components.get("$defs", {})
    for operation in operations:
        if operation.request is not None and issubclass(operation.request, ContractModel):
            _accept_null(references[operation.request, "validation"], shapes)
    paths: JsonObject = {}
    for operation in operations:
        methods = paths.setdefault(operation.path, {})
        methods[operation.method.lower()] = _operation(operation, references)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version("agent-assay")},
        "paths": paths,
        "components": {"schemas": shapes},
    }


def _accept_null(schema: JsonObject, shapes: JsonObject) -> None:
    """In a request of the contract, null stands for a field that is not there."""
    named = schema.get("$ref", "").rpartition("/")[2]
    shape = shapes.get(named, schema)
    required = shape.get("required", ())
    for name, field_shape in shape.get("properties", {}).items():
        if name not in required and {"type": "null"} not in field_shape.get("anyOf", ()):
            _accept_null(field_shape, shapes)
            shape["properties"][name] = {"anyOf": [field_shape, {"type": "null"}]}


def openapi_route(title: str, operations: Sequence[Operation]) -> BaseRoute:
    """`GET /openapi.json`; the document is made when it is first asked for."""
    made: list[JsonObject] = []

    async def show(_request: Request) -> Response:
        if not made:
            made.append(openapi_document(title, operations))
        return JSONResponse(made[0])

    return Route(OPENAPI_PATH, show, methods=["GET"])


def health_operations() -> list[Operation]:
    """`/health` and `/health/ready`, which every server has."""
    ready = ResponseDoc("It can work.", STATUS_SHAPE)
    degraded = ResponseDoc("Not yet.", STATUS_SHAPE)
    return [
        Operation("GET", "/health", "Whether the server runs", {200: ready}),
        Operation("GET", "/health/ready", "Whether it can work", {200: ready, 503: degraded}),
    ]


def agent_operations(task_type: str) -> list[Operation]:
    """Those of an agent of the HTTP contract."""
    refusals = {
        400: "Not JSON, or a task that this agent does not do.",
        408: "The body took too long.",
        409: "The request_id was used with another body.",
        413: "The body is too large.",
        422: "A field is missing or wrong.",
        503: "Too many runs are in progress.",
    }
    refused = {status: ResponseDoc(what, AgentRunResponse) for status, what in refusals.items()}
    done = ResponseDoc("The run ended, well or not.", AgentRunResponse)
    events = ResponseDoc("started, progress, status and one final event.", None, EVENTS_TYPE)
    return [
        Operation(
            "POST",
            f"/agents/run/{name}",
            f"Run {task_type}, {how}",
            {200: answer, **refused},
            AgentRunRequest,
            fixed={"task_type": task_type},
        )
        for name, how, answer in (
            ("sync", "one response", done),
            ("stream", "server-sent events", events),
        )
    ] + health_operations()


def _models(operations: Sequence[Operation]) -> list[tuple[type[BaseModel], JsonSchemaMode]]:
    found: dict[tuple[type[BaseModel], JsonSchemaMode], None] = {}
    for operation in operations:
        if operation.request is not None:
            found[operation.request, "validation"] = None
        for answer in operation.answers.values():
            if isinstance(answer.shape, type):
                found[answer.shape, "serialization"] = None
    return list(found)


def _operation(operation: Operation, references: Mapping[Any, JsonObject]) -> JsonObject:
    described: JsonObject = {
        "summary": operation.summary,
        "responses": {
            str(status): _answer(answer, references) for status, answer in operation.answers.items()
        },
    }
    if operation.parameters:
        described["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in operation.parameters
        ]
    if operation.request is not None:
        schema: JsonObject = references[operation.request, "validation"]
        if operation.fixed:
            fixed = {name: {"const": value} for name, value in operation.fixed.items()}
            schema = {"allOf": [schema, {"type": "object", "properties": fixed}]}
        described["requestBody"] = {"required": True, "content": {JSON_TYPE: {"schema": schema}}}
    return described


def _answer(answer: ResponseDoc, references: Mapping[Any, JsonObject]) -> JsonObject:
    shape = answer.shape
    if shape is None and answer.media_type == JSON_TYPE:
        return {"description": answer.description}
    schema = references[shape, "serialization"] if isinstance(shape, type) else shape
    content = {"schema": schema} if schema is not None else {}
    return {"description": answer.description, "content": {answer.media_type: content}}
