"""Documents as resources (`doc://MED-10`), and a prompt that asks for a cited answer."""

from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.server.mcpserver.resources import ResourceSecurity
from mcp_types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)
from pydantic import Field

from assay.answer.passages import Passage
from assay.answer.prompt import SYSTEM, question_prompt
from assay.serve.mcp.library import Library
from assay.serve.mcp.shapes import QueryText

_PROMPT_DOCUMENTS = 5
_COMPLETIONS = 100  # the most that MCP allows
# An id is looked up in a table and never becomes a path, so it may look like one.
_ANY_ID = ResourceSecurity(exempt_params={"id"})


def add_documents(server: MCPServer[Any], library: Library) -> None:
    @server.resource(
        "doc://{id}",
        title="Document",
        description="One document by its id: its title, an empty line, its text.",
        mime_type="text/plain",
        security=_ANY_ID,
    )
    async def document(id: str) -> str:
        found = (await library.retrieval()).dataset.documents.get(id)
        if found is None:
            raise ResourceNotFoundError("there is no document of that id")
        return f"{found.title}\n\n{found.text}" if found.title else found.text

    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
    async def complete(
        ref: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        _context: CompletionContext | None,
    ) -> Completion | None:
        """Ids that begin with what was typed so far."""
        if not isinstance(ref, ResourceTemplateReference) or argument.name != "id":
            return None
        ids = (await library.retrieval()).dataset.documents
        found = [each for each in ids if each.startswith(argument.value)]
        more = len(found) > _COMPLETIONS
        return Completion(values=found[:_COMPLETIONS], total=len(found), has_more=more)

    @server.prompt(title="Cited answer")
    async def cited_answer(
        question: Annotated[QueryText, Field(description="What to answer.")],
    ) -> str:
        """Asks for an answer from the documents found for a question, with citations."""
        hits = await library.search(question, _PROMPT_DOCUMENTS)
        passages = [Passage(hit.doc_id, hit.title, hit.text) for hit in hits]
        return f"{SYSTEM}\n\n{question_prompt(question, passages)}"
