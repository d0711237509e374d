"""Target `nextcloud:URL[#answer]`: the search of a Nextcloud MCP server, over uploaded notes.

The note mapping says which document each note holds. Another note is `note:123`, and what is not a
note `file:123`, `deck_card:123` or `mail_message:123`: questions about these name such ids.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
from mcp_types import Tool

from assay.data.note_mapping import documents_by_note, note_mapping_path, read_note_mapping
from assay.errors import AgentFailure, FailureKind, UsageError
from assay.targets.answer_reader import CONSTANT
from assay.targets.mcp import McpAgent, SearchTool, arguments_of, find_search_tool
from assay.targets.mcp_connection import HttpServer
from assay.targets.protocol import AgentAnswer
from assay.targets.target_kinds import OpenContext, Target, redact_target

SEARCH = "nc_semantic_search"
ANSWER = "nc_semantic_search_answer"

_TYPED_ID = re.compile(r"(note|file|deck_card|news_item|mail_message):[0-9]+")
# Other tools may return several passages of one note: this many are requested for each note.
_PASSAGES = 3


class NextcloudAgent(McpAgent):
    """The agent for `nextcloud:URL`; `#answer` requests answers as well."""

    def __init__(self, target: Target, context: OpenContext) -> None:
        if target.fragment not in ("", "answer"):
            raise UsageError(f"target {target}: only '#answer' may follow the URL")
        self._answers = context.answers or target.fragment == "answer"
        self._results = "sources" if self._answers else "results"
        super().__init__(
            redact_target(str(target)),
            HttpServer(target.address, context.policy),
            mapping={"results": self._results, "doc_id": "id", "answer": "generated_answer"},
            track=context.track,
        )
        self.info = replace(self.info, protocol="nextcloud")
        self._known = context.dataset.known_ids  # Assay's own server may return these
        path = note_mapping_path(context.note_mapping)
        typed = any(map(_TYPED_ID.fullmatch, self._known))
        # Questions about what is in the account already need no upload, and so no mapping.
        mapping = {} if typed and not path.exists() else read_note_mapping(path)
        self._doc_ids = documents_by_note(mapping, path)
        self._passages = 1

    def _choose_tool(self, tools: Sequence[Tool]) -> SearchTool:
        wanted = ANSWER if self._answers else SEARCH
        schemas = [tool.input_schema for tool in tools if tool.name == wanted]
        declared = {argument.name for argument in arguments_of(schemas[0])} if schemas else set()
        found = {match[1] for doc_id in self._known if (match := _TYPED_ID.fullmatch(doc_id))}
        types = sorted(found | ({"note"} if self._doc_ids or not found else set()))
        # A tool with these parameters returns each document once, and no other types.
        preferred = {"granularity": "document", "doc_types": orjson.dumps(types).decode()}
        given = {CONSTANT + key: value for key, value in preferred.items() if key in declared}
        self._passages = 1 if "granularity" in declared else _PASSAGES
        return find_search_tool(tools, wanted, given)

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        assert self._tool is not None, "call open() before ask()"
        # An answer is made of the results: requesting more would change it.
        count = top_k if self._answers else top_k * self._passages
        result, answer = await self.call(self._tool.arguments(query, count))
        value = result.structured_content if isinstance(result.structured_content, dict) else {}
        if "generated_answer" in value and value.get("sources") and not value.get("model_used"):
            raise AgentFailure(
                FailureKind.AGENT_ERROR,
                "the server found documents but wrote no answer: it has no model and "
                "needs a client that supports MCP sampling",
            )
        listed = value.get(self._results)
        rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
        if len(rows) != len(answer.doc_ids):
            rows = [{}] * len(answer.doc_ids)
        found: dict[str, Mapping[str, Any]] = {}
        for note, row in zip(answer.doc_ids, rows, strict=True):
            # Passages of one note count once, with the relevance of the best.
            found.setdefault(self._document(note, str(row.get("doc_type", "note"))), row)
        kept = list(found.values())[:top_k]
        scores = [row.get("relevance", row.get("score")) for row in kept]
        typed = any("doc_type" in row for row in kept)
        return AgentAnswer(
            doc_ids=tuple(found)[:top_k],
            answer=answer.answer,
            citations=tuple(map(self._document, answer.citations)),
            scores=tuple(float(x) if isinstance(x, int | float) else 0.0 for x in scores),
            doc_types=tuple(str(row.get("doc_type", "note")) for row in kept) if typed else (),
            relevance_source=str(kept[0].get("relevance_source", "")) if kept else "",
        )

    def _document(self, note: str, kind: str = "note") -> str:
        """The document that a note holds. Files, cards and mails have ids of another form."""
        if kind != "note":
            return note if note in self._known else f"{kind}:{note}"
        if note.isdecimal() and (doc_id := self._doc_ids.get(int(note))) is not None:
            return doc_id
        return note if note in self._known else f"note:{note}"
