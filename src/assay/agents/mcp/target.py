"""Targets `mcp:URL[#tool]` and `mcp-stdio:COMMAND[#tool]`: any MCP server with a search tool."""

from collections.abc import Container, Mapping
from dataclasses import replace

from assay.agents.mcp.connect import Server, server_of
from assay.agents.mcp.mapping import SearchTool, find_search_tool
from assay.agents.mcp.reading import ResultReader
from assay.agents.mcp.session import McpSession
from assay.agents.protocol import AgentAnswer, AgentInfo
from assay.agents.target_kinds import OpenContext, Target
from assay.agents.targets import redact_target
from assay.errors import TargetError


class McpAgent:
    """`known` are the ids of the data set, by which the field that holds ids is recognised."""

    def __init__(
        self,
        name: str,
        server: Server,
        *,
        tool: str | None = None,
        mapping: Mapping[str, str] | None = None,
        known: Container[str] = (),
        track: str = "undeclared",
    ) -> None:
        self.info = AgentInfo(name=name, protocol="mcp", track=track)
        self._server = server
        self._session = McpSession(server.connect)
        self._mapping = mapping or {}
        self._reader = ResultReader(self._mapping, known)
        self._wanted = tool
        self._tool: SearchTool | None = None

    @classmethod
    def from_target(cls, target: Target, context: OpenContext) -> "McpAgent":
        """`mcp:URL` or `mcp-stdio:COMMAND`, either with `#tool`."""
        return cls(
            redact_target(str(target)),
            server_of(target),
            tool=target.fragment or None,
            mapping=context.mapping,
            known=context.dataset.documents,
            track=context.track,
        )

    async def open(self) -> None:
        try:
            client, tools = await self._session.open()
        except TargetError as error:
            said = self._server.last_words()
            words = f"; its last words: {said}" if said else ""
            raise TargetError(f"{self.info.name}: {error}{words}") from error
        self._tool = find_search_tool(tools, self._wanted, self._mapping)
        server = client.server_info
        spoken = f"{server.name if server else 'a server'}, MCP {client.protocol_version}"
        self.info = replace(self.info, details=f"{spoken}, {self._tool.describe()}")

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        assert self._tool is not None, "open() comes before ask()"
        result = await self._session.call(self._tool.name, self._tool.arguments(query, top_k))
        answer = self._reader.read(result)
        if self._tool.top_k is None:  # it could not know how many were wanted
            return replace(answer, doc_ids=answer.doc_ids[:top_k])
        return answer

    async def close(self) -> None:
        await self._session.close()
        await self._server.close()
