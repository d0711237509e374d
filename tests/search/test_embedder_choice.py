"""Which embedder is used, and that each has an index of its own."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.search.samples import WordEmbedder, corpus

import assay
from assay.search import embedding
from assay.search import index as index_module
from assay.search.embedding import EmbedderSettings, Prompts
from assay.search.index import open_retriever, open_store

QUERIES = {"1": assay.Query("1", "green tea"), "2": assay.Query("2", "bread")}
JUDGMENTS = {"test": {"1": {"tea": 1}, "2": {"bread": 1}}}
DATASET = replace(corpus(name="drinks"), queries=QUERIES, judgments=JUDGMENTS)


def test_each_embedder_has_its_own_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLECTION_NAME", "mine")
    named = [open_store("drinks", WordEmbedder(name)).where for name in ("one", "two")]
    assert len(set(named)) == 2
    assert all("mine-" in where for where in named)
    builtin = WordEmbedder(f"{embedding.BUILTIN_EMBEDDER}@1 int8 products 2")
    assert open_store("drinks", builtin).where.endswith("/mine")


def test_a_run_records_its_embedder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    chosen: list[EmbedderSettings | None] = []

    def opened(settings: EmbedderSettings | None = None) -> WordEmbedder:
        chosen.append(settings)
        return WordEmbedder("words of a test")

    monkeypatch.setattr("assay.search.embedding.open_embedder", opened)
    monkeypatch.setattr(index_module, "open_embedder", opened)
    run = assay.evaluate("builtin:dense", DATASET, embedder="ollama:m", out=tmp_path / "runs")
    assert chosen == [EmbedderSettings("ollama:m")]
    header = json.loads(run.folder.header_file.read_text())
    assert header["config"]["embedder"] == "ollama:m"
    assert header["embedder"] == "words of a test"
    assert header["retriever"] == {"mode": "dense", "bm25": "k1=1.2, b=0.75, language=english"}


def test_prompts_stand_before_queries_and_documents() -> None:
    embedder = WordEmbedder("prompted", prompts=Prompts("query: ", "passage: "))
    with open_retriever(DATASET, embedder=embedder) as retriever:
        assert embedder.seen
        assert all(text.startswith("passage: ") for text in embedder.seen)
        hit = retriever.search("green tea", 1, mode="dense")[0]
        assert embedder.seen[-1] == "query: green tea"
    assert "passage:" not in hit.text
