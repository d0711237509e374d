"""`assay serve mcp` with the tools, prompts and resources that MCP's conformance kit calls.

Only for tests: the shipped server has none of them. They are registered on the real server, behind
the real guards, so that the kit judges our whole stack and not only what a search server offers.

    python -m tests.serve_mcp.conformance_server    # prints its address
"""

import asyncio
import base64
import json
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp_types import (
    AudioContent,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)

from assay.serve.listening import bind, serve_on, url_of
from assay.serve.mcp import app as mcp_application
from assay.serve.mcp.search import DocumentSearch
from assay.serve.mcp.server import mcp_server

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8"
    "z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
SILENCE = base64.b64encode(b"RIFF$\0\0\0WAVEfmt ").decode()
ANYTHING = Context[Any, Any]
FIXTURE = "A fixture of the conformance kit."
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"name": {"const": "x"}}, "required": ["name"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

_plain_server = mcp_server


def server_with_fixtures(documents: DocumentSearch) -> MCPServer[None]:
    """The server as it is shipped, and the fixtures."""
    server = _plain_server(documents)
    _add_contents(server)
    _add_notifications(server)
    _add_requests_to_the_client(server)
    _add_resources(server)
    _add_prompts(server)
    return server


def _embedded(uri: str, text: str, kind: str = "text/plain") -> EmbeddedResource:
    contents = TextResourceContents(uri=uri, mime_type=kind, text=text)
    return EmbeddedResource(type="resource", resource=contents)


def _add_contents(server: MCPServer[None]) -> None:
    image = ImageContent(type="image", data=PIXEL, mime_type="image/png")

    @server.tool(description=FIXTURE, structured_output=False)
    async def test_simple_text() -> str:
        return "a simple text"

    @server.tool(description=FIXTURE, structured_output=False)
    async def test_image_content() -> ImageContent:
        return image

    @server.tool(description=FIXTURE, structured_output=False)
    async def test_audio_content() -> AudioContent:
        return AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")

    @server.tool(description=FIXTURE, structured_output=False)
    async def test_embedded_resource() -> EmbeddedResource:
        return _embedded("test://embedded-resource", "an embedded resource")

    @server.tool(description=FIXTURE, structured_output=False)
    async def test_multiple_content_types() -> list[Any]:
        resource = _embedded("test://mixed-content-resource", "{}", "application/json")
        return [TextContent(type="text", text="several kinds"), image, resource]

    @server.tool(description=FIXTURE, structured_output=False)
    async def test_error_handling() -> str:
        raise ToolError("this tool fails on purpose")

    @server.tool(description=FIXTURE, structured_output=False)
    async def json_schema_2020_12_tool() -> str:
        return "done"

    declared = server._tool_manager.get_tool("json_schema_2020_12_tool")
    assert declared is not None
    declared.parameters = SCHEMA


def _add_notifications(server: MCPServer[None]) -> None:
    @server.tool(description=FIXTURE, structured_output=False)
    async def test_tool_with_logging(ctx: ANYTHING) -> str:
        for step in ("started", "processing", "completed"):
            await ctx.info(step)
            await asyncio.sleep(0.02)
        return "logged"

    @server.tool(description=FIXTURE, structured_output=False)
    async def test_tool_with_progress(ctx: ANYTHING) -> str:
        for done in (0, 50, 100):
            await ctx.report_progress(done, 100)
            await asyncio.sleep(0.02)
        return "done"

    @server.tool(description=FIXTURE, structured_output=False)
    async def test_reconnection(ctx: ANYTHING) -> str:
        await ctx.close_sse_stream()
        await asyncio.sleep(0.1)
        return "reconnected"

    async def set_level(_context: Any, _params: SetLevelRequestParams) -> EmptyResult:
        return EmptyResult()

    server._lowlevel_server.add_request_handler(
        "logging/setLevel", SetLevelRequestParams, set_level
    )


def _add_requests_to_the_client(server: MCPServer[None]) -> None:
    async def elicit(ctx: ANYTHING, message: str, **properties: Any) -> str:
        schema = {"type": "object", "properties": properties, "required": []}
        answer = await ctx.session.elicit(message, schema, related_request_id=ctx.request_id)
        return f"action={answer.action}, content={json.dumps(answer.content)}"

    @server.tool(description=FIXTURE, structured_output=False)
    async def test_sampling(prompt: str, ctx: ANYTHING) -> str:
        asked = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
        answer = await ctx.session.create_message(
            [asked], max_tokens=100, related_request_id=ctx.request_id
        )
        return f"the model says: {answer.content}"

    @server.tool(description=FIXTURE, structured_output=False)
    async def test_elicitation(message: str, ctx: ANYTHING) -> str:
        return await elicit(
            ctx,
            message,
            username={"type": "string", "description": "the user's name"},
            email={"type": "string", "description": "the user's address"},
        )

    @server.tool(description=FIXTURE, structured_output=False)
    async def test_elicitation_sep1034_defaults(ctx: ANYTHING) -> str:
        choices = ["active", "inactive", "pending"]
        return await elicit(
            ctx,
            "with defaults",
            name={"type": "string", "default": "John Doe"},
            age={"type": "integer", "default": 30},
            score={"type": "number", "default": 95.5},
            status={"type": "string", "enum": choices, "default": "active"},
            verified={"type": "boolean", "default": True},
        )

    @server.tool(description=FIXTURE, structured_output=False)
    async def test_elicitation_sep1330_enums(ctx: ANYTHING) -> str:
        plain = ["option1", "option2", "option3"]
        titled = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
        return await elicit(
            ctx,
            "with choices",
            untitledSingle={"type": "string", "enum": plain},
            titledSingle={"type": "string", "oneOf": titled},
            legacyEnum={
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["One", "Two", "Three"],
            },
            untitledMulti={"type": "array", "items": {"type": "string", "enum": plain}},
            titledMulti={"type": "array", "items": {"anyOf": titled}},
        )


def _add_resources(server: MCPServer[None]) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    async def static_text() -> str:
        return "a static text"

    @server.resource("test://static-binary", mime_type="image/png")
    async def static_binary() -> bytes:
        return base64.b64decode(PIXEL)

    @server.resource("test://watched-resource", mime_type="text/plain")
    async def watched() -> str:
        return "watched"

    @server.resource("test://template/{id}/data", mime_type="application/json")
    async def template(id: str) -> str:
        return json.dumps({"id": id})

    async def subscribe(_context: Any, _params: SubscribeRequestParams) -> EmptyResult:
        return EmptyResult()

    async def unsubscribe(_context: Any, _params: UnsubscribeRequestParams) -> EmptyResult:
        return EmptyResult()

    lowlevel = server._lowlevel_server
    lowlevel.add_request_handler("resources/subscribe", SubscribeRequestParams, subscribe)
    lowlevel.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe)


def _add_prompts(server: MCPServer[None]) -> None:
    @server.prompt(description=FIXTURE)
    async def test_simple_prompt() -> str:
        return "a simple prompt"

    @server.prompt(description=FIXTURE)
    async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        return f"a prompt with {arg1!r} and {arg2!r}"

    @server.prompt(description=FIXTURE)
    async def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
        return [UserMessage(_embedded(resourceUri, "a resource")), UserMessage("process it")]

    @server.prompt(description=FIXTURE)
    async def test_prompt_with_image() -> list[UserMessage]:
        image = ImageContent(type="image", data=PIXEL, mime_type="image/png")
        return [UserMessage(image), UserMessage("analyze it")]


def main() -> None:
    vars(mcp_application)["mcp_server"] = server_with_fixtures
    with bind("127.0.0.1", 0) as listener:
        print(f"{url_of(listener)}/mcp", flush=True)
        serve_on(mcp_application.search_app("notes", "bm25", "127.0.0.1"), listener)


if __name__ == "__main__":
    main()
