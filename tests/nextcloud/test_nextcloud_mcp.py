"""The real Nextcloud MCP server over our Notes server: upload, wait until found, evaluate.

The server from PyPI scans, chunks, indexes and fuses as it always does. Its dense side is its own
hashed words, and the stop words that it would fetch from a model hub are a short list of ours.
"""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.loopback import free_port
from tests.nextcloud.notes_server import PASSWORD, USER, NotesServer

from assay.data import Dataset, Document, load_dataset
from assay.data.note_mapping import read_note_mapping
from assay.evaluation.evaluation import Evaluation
from assay.nextcloud.client import NotesClient, NotesError
from assay.nextcloud.upload import sample_documents, upload_documents, wait_until_found
from assay.run.config import RunConfig
from assay.targets import open_target
from assay.targets.target_kinds import OpenContext

PROGRAM = os.environ.get("ASSAY_NEXTCLOUD_MCP")
LANGUAGES = """arabic danish dutch english finnish french german greek hungarian italian norwegian
portuguese romanian russian spanish swedish turkish"""
STARTING_SECONDS = 90.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        PROGRAM is None,
        reason="ASSAY_NEXTCLOUD_MCP is not set: the program that "
        "scripts/make-nextcloud-mcp-venv.sh installs",
    ),
    pytest.mark.timeout(300),
]


def stop_words(folder: Path) -> Path:
    """Laid out as the hub's cache is, so that nothing is fetched."""
    model = folder / "models--Qdrant--bm25"
    snapshot = model / "snapshots" / "local"
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("local")
    (snapshot / "config.json").write_text("{}")
    for language in LANGUAGES.split():
        (snapshot / f"{language}.txt").write_text("the\na\nof\nand\nin\nto\nis\n")
    return folder


@pytest.fixture
def mcp_url(server: NotesServer, tmp_path: Path) -> Iterator[str]:
    port = free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "NEXTCLOUD_HOST": server.url,
        "NEXTCLOUD_USERNAME": USER,
        "NEXTCLOUD_PASSWORD": PASSWORD,
        "ENABLE_SEMANTIC_SEARCH": "true",
        "QDRANT_LOCATION": ":memory:",
        "VECTOR_SYNC_SCAN_INTERVAL": "1",
        "FASTEMBED_CACHE_PATH": str(stop_words(tmp_path / "fastembed")),
        "HF_HUB_OFFLINE": "1",
        "METRICS_ENABLED": "false",
    }
    with (tmp_path / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [str(PROGRAM), "run", "--port", str(port), "--enable-app", "notes"],
            cwd=tmp_path,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
            process.wait(30)


async def listening(url: str) -> None:
    async with asyncio.timeout(STARTING_SECONDS), httpx.AsyncClient() as http:
        while True:
            try:
                await http.get(url)
            except httpx.TransportError:
                await asyncio.sleep(0.5)
            else:
                return


@pytest.fixture
def dataset() -> Dataset:
    whole = load_dataset("notes")
    documents = dict(list(whole.documents.items())[:40])
    judged = {
        query_id: kept
        for query_id, grades in whole.judgments["test"].items()
        if (kept := {doc: grade for doc, grade in grades.items() if doc in documents})
    }
    queries = {query_id: whole.queries[query_id] for query_id in judged}
    return Dataset("notes-part", documents, queries, {"test": judged})


async def test_a_data_set_is_uploaded_waited_for_and_evaluated(
    mcp_url: str,
    client: NotesClient,
    mapping_path: Path,
    dataset: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ASSAY_NOTE_MAPPING", str(mapping_path))
    await listening(mcp_url)
    await upload_documents(dataset.documents.values(), client, mapping_path)
    agent = open_target(f"nextcloud:{mcp_url}", OpenContext(dataset))
    await agent.open()
    sample = sample_documents(dataset.documents, read_note_mapping(mapping_path), 10)
    await wait_until_found(sample, agent.ask, timeout=120, pause=0.5)

    found = await agent.ask(next(iter(dataset.queries.values())).text, 5)
    assert len(found.scores) == len(found.doc_ids) == 5
    assert all(0 < relevance <= 1 for relevance in found.scores)

    stranger = Document("absent", "Zymurgy", "Zymurgy in Qaanaaq.")
    with pytest.raises(NotesError, match="'absent'"):
        await wait_until_found([stranger], agent.ask, timeout=2, pause=0.5)

    config = RunConfig(target=f"nextcloud:{mcp_url}", dataset="notes-part", top_k=10)
    outcome = await Evaluation.plan(config, dataset).start(agent, tmp_path / "runs")
    assert outcome.state == "complete"
    assert outcome.report.summary.failed_queries == 0
    assert outcome.report.violations["unknown"].ids == 0
    assert outcome.metrics["ndcg@10"] > 0.3  # words alone find most of what is asked for
    for row in outcome.rows():
        assert set(row.doc_types) == {"note"}
        assert len(row.relevance) == len(row.doc_types) == len(row.retrieved_docs)
        assert row.relevance_source == "fusion_ordinal"
