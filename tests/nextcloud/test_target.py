"""`nextcloud:URL`: notes that an MCP server found, as the documents that they stand for."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from tests.serve.serving import serving
from tests.targets.every_kind import opened_target

from assay.data import Dataset, Document
from assay.errors import AgentFailure, DataError, FailureKind, TargetError, UsageError
from assay.evaluation.evaluation import Evaluation
from assay.report.html import DOC_TYPE, slices_of
from assay.run.config import RunConfig
from assay.targets import open_target
from assay.targets.protocol import Agent
from assay.targets.target_kinds import OpenContext

DATA = Dataset("tiny", {f"MED-{n}": Document(f"MED-{n}", "", "") for n in range(9)}, {}, {})
NOWHERE = "nextcloud:http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def mapping(monkeypatch: pytest.MonkeyPatch, mapping_path: Path) -> None:
    mapping_path.write_text(json.dumps({f"MED-{n}": 100 + n for n in range(9)}))
    monkeypatch.setenv("ASSAY_NOTE_MAPPING", str(mapping_path))


def row(note: int, chunk: int = 0) -> dict[str, Any]:
    title, text = f"[MED-{note - 100}] Title", {"excerpt": "x", "score": 0.02, "relevance": 0.5}
    return {"id": note, "doc_type": "note", "title": title, "chunk_index": chunk, **text}


def older_server(**answer: Any) -> MCPServer[Any]:
    """Passages are results, and the answer is left to the client's model."""
    server: MCPServer[Any] = MCPServer("older")

    @server.tool()
    async def nc_semantic_search(query: str, limit: int = 10) -> dict[str, Any]:
        rows = [row(103), row(103, 1), row(999), row(101), row(103, 2), row(102)]
        return {"success": True, "results": rows[:limit], "query": query, "total_found": 6}

    @server.tool()
    async def nc_semantic_search_answer(query: str, limit: int = 5) -> dict[str, Any]:
        return {"success": True, "sources": [row(103), row(101)][:limit], **answer}

    return server


def newer_server(seen: dict[str, Any]) -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("newer")

    @server.tool()
    async def nc_semantic_search(
        query: str, limit: int = 10, doc_types: list[str] | None = None, granularity: str = "chunk"
    ) -> dict[str, Any]:
        seen.update(limit=limit, doc_types=doc_types, granularity=granularity)
        source = {"relevance_source": "fusion_ordinal"}
        mail = row(7) | {"doc_type": "mail_message", "relevance": 0.25}
        return {"success": True, "results": [row(101) | source, mail | source]}

    return server


@asynccontextmanager
async def opened(
    server: MCPServer[Any], way: str = "", *, answers: bool = False, data: Dataset = DATA
) -> AsyncIterator[Agent]:
    context = OpenContext(data, answers=answers)
    async with (
        serving(server.streamable_http_app()) as url,
        opened_target(f"nextcloud:{url}{way}", context) as agent,
    ):
        yield agent


async def test_notes_are_documents_and_passages_of_one_count_once() -> None:
    async with opened(older_server()) as agent:
        answer = await agent.ask("x", 4)
    assert answer.doc_ids == ("MED-3", "note:999", "MED-1", "MED-2")
    assert answer.scores == (0.5,) * 4
    assert agent.info.protocol == "nextcloud"


async def test_a_server_that_can_is_asked_for_whole_notes_only() -> None:
    seen: dict[str, Any] = {}
    async with opened(newer_server(seen)) as agent:
        await agent.ask("x", 4)
    assert seen == {"limit": 4, "doc_types": ["note"], "granularity": "document"}


@pytest.mark.parametrize("asked", [{"way": "#answer"}, {"answers": True}])
async def test_answers_come_with_their_sources(asked: dict[str, Any]) -> None:
    server = older_server(generated_answer="Yes [2].", model_used="m")
    async with opened(server, **asked) as agent:
        answer = await agent.ask("x", 5)
    assert (answer.answer, answer.doc_ids) == ("Yes [2].", ("MED-3", "MED-1"))
    assert answer.citations == ("MED-1",)
    apology = older_server(generated_answer="[Sampling unavailable: Method not found]")
    async with opened(apology, **asked) as agent:
        with pytest.raises(AgentFailure, match="wrote no answer") as failure:
            await agent.ask("x", 5)
    assert failure.value.kind is FailureKind.AGENT_ERROR


async def test_a_server_without_the_tool_and_another_fragment_are_refused() -> None:
    with pytest.raises(UsageError, match="only '#answer' may follow"):
        open_target(f"{NOWHERE}#tool", OpenContext(DATA))
    with pytest.raises(TargetError, match="no tool 'nc_semantic_search_answer'; it has: nc_sem"):
        async with opened(newer_server({}), "#answer"):
            pass


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"no note mapping found.*ASSAY_NOTE_MAPPING"),
        ('{"d0": "7"}', r"note id, \.\.\.}, got"),
        ('{"MED-1": 7, "MED-2": 7}', "note 7 is mapped to 'MED-1' and to 'MED-2'"),
    ],
)
def test_a_wrong_mapping_is_named(mapping_path: Path, content: str, message: str) -> None:
    if content:
        mapping_path.write_text(content)
    else:
        mapping_path.unlink()
    with pytest.raises(DataError, match=message):
        open_target(NOWHERE, OpenContext(DATA))


async def test_files_and_mails_need_no_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_NOTE_MAPPING", "nowhere.json")
    judged = {"q": {"mail_message:7": 1, "file:3": 1}}
    data = Dataset.from_dicts({"q": "Who wrote?"}, judged)
    seen: dict[str, Any] = {}
    async with opened(newer_server(seen), data=data) as agent:
        assert "mail_message:7" in (await agent.ask("q", 5)).doc_ids
    assert seen["doc_types"] == ["file", "mail_message"]


async def test_rows_carry_it_and_the_report_slices_by_type(tmp_path: Path) -> None:
    server: MCPServer[Any] = MCPServer("two types")

    @server.tool()
    async def nc_semantic_search(query: str, limit: int = 10) -> dict[str, Any]:
        kind = {"doc_type": "file"} if "file" in query else {}
        return {"success": True, "results": [row(101) | {"relevance_source": "x"} | kind]}

    texts = {f"q{n}": f"{'file' if n % 2 else 'note'} {n}" for n in range(6)}
    data = Dataset.from_dicts(texts, {key: ["MED-1", "file:101"] for key in texts})
    async with serving(server.streamable_http_app()) as url:
        config = RunConfig(target=f"nextcloud:{url}", dataset="memory", top_k=5)
        agent = open_target(config.target, OpenContext(data))
        run = await Evaluation.plan(config, data).start(agent, tmp_path)
    rows = {row.query_text: row for row in run.rows()}
    assert (rows["file 1"].doc_types, rows["file 1"].relevance) == (["file"], [0.5])
    assert {row.relevance_source for row in rows.values()} == {"x"}
    slices = [each for row in rows.values() for each in slices_of(row) if each.kind == DOC_TYPE]
    assert {each.title for each in slices} == {"type file", "type note"}
