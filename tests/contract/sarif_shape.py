"""What SARIF 2.1.0 demands of the parts that Assay writes, with names and values as it has them."""

from typing import Any

_MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_BAG = {
    "type": "object",
    "properties": {"tags": {"type": "array", "uniqueItems": True, "items": {"type": "string"}}},
}


def _closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


def _listed(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


_RULE = _closed(
    ["id"],
    id={"type": "string"},
    shortDescription=_MESSAGE,
    help=_MESSAGE,
    defaultConfiguration=_closed([], level=_LEVEL),
    properties=_BAG,
)
_DRIVER = _closed(
    ["name"],
    name={"type": "string"},
    version={"type": "string"},
    rules=_listed(_RULE, uniqueItems=True),
)
_ARTIFACT = _closed([], uri={"type": "string", "format": "uri-reference"})
_LOCATION = _closed([], physicalLocation=_closed([], artifactLocation=_ARTIFACT))
_RESULT = _closed(
    ["message"],
    ruleId={"type": "string"},
    ruleIndex={"type": "integer", "minimum": -1},
    level=_LEVEL,
    message=_MESSAGE,
    locations=_listed(_LOCATION),
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
    properties=_BAG,
)
_NOTIFICATION = _closed(["message"], level=_LEVEL, message=_MESSAGE)
_INVOCATION = _closed(
    ["executionSuccessful"],
    executionSuccessful={"type": "boolean"},
    toolExecutionNotifications=_listed(_NOTIFICATION),
)
_RUN = _closed(
    ["tool"],
    tool=_closed(["driver"], driver=_DRIVER),
    invocations=_listed(_INVOCATION),
    results=_listed(_RESULT),
)
SARIF_SHAPE = _closed(
    ["version", "runs"],
    **{"$schema": {"type": "string", "format": "uri"}},
    version={"enum": ["2.1.0"]},
    runs=_listed(_RUN),
)
