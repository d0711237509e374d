"""Rerankers: a first ranking ordered anew by what reads query and text together."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.json_server import Answer, JsonRequest, JsonServer
from tests.search.samples import WordEmbedder, indexed

import assay
from assay.cli.app import app
from assay.errors import SearchError, SearchUnavailable, UsageError
from assay.search import remote_embedding
from assay.search.array_store import ArrayStore
from assay.search.bm25 import QUERY_CHARACTERS
from assay.search.embedding import EmbedderSettings
from assay.search.remote_embedding import RETRIES
from assay.search.reranking import open_reranker, with_reranker


class RerankServer(JsonServer):
    """text-embeddings-inference: scores texts by how short they are; `faults` come first."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.faults: list[tuple[int, Any]] = []
        super().__init__()

    def answer(self, request: JsonRequest) -> Answer:
        self.bodies.append(request.body)
        rows = [
            {"index": place, "score": 1 / (1 + len(text))}
            for place, text in enumerate(request.body["texts"])
        ]
        # Best first, as the server really answers.
        good: Any = sorted(rows, key=lambda row: -row["score"])
        status, found = self.faults.pop(0) if self.faults else (200, good)
        return status, {}, found


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RerankServer]:
    monkeypatch.setattr(remote_embedding, "RETRIES", replace(RETRIES, first_delay=0.0))
    with RerankServer().running() as made:
        yield made


def test_the_first_documents_are_ordered_by_the_reranker(
    server: RerankServer, tmp_path: Path, embedder: WordEmbedder
) -> None:
    store = ArrayStore(tmp_path / "index", "test")
    settings = EmbedderSettings(reranker=f"tei:{server.url}")
    with with_reranker(indexed(store, embedder), settings) as retriever:
        hits = retriever.search("tea water", 2)
    (body,) = server.bodies
    shortest = sorted(body["texts"], key=len)[:2]
    assert [f"{hit.title} {hit.text}" for hit in hits] == shortest
    assert body["query"] == "tea water"
    assert len(body["texts"]) > 2  # more than were asked for
    assert all("before reranking" in hit.signals for hit in hits)
    assert [hit.score for hit in hits] == [pytest.approx(1 / (1 + len(text))) for text in shortest]


def test_a_run_uses_and_records_it(server: RerankServer, tmp_path: Path) -> None:
    plain = assay.evaluate("builtin:bm25", "notes", num_queries=4, out=tmp_path)
    run = assay.evaluate(
        "builtin:bm25", "notes", num_queries=4, out=tmp_path, reranker=f"tei:{server.url}"
    )
    assert len(server.bodies) == 4
    assert {len(body["texts"]) for body in server.bodies} <= set(range(1, 51))
    assert run.folder.read_header().retriever == {
        "mode": "bm25",
        "bm25": run.folder.read_header().retriever["bm25"],  # type: ignore[index]
        "reranker": f"tei:{server.url}",
    }
    assert [row.retrieved_docs for row in run.rows()] != [
        row.retrieved_docs for row in plain.rows()
    ]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, {"error": "x"}), "cannot be parsed"),
        ((200, [{"index": 0, "score": 1}]), "cannot be parsed"),
        ((200, [{"index": 0, "score": "NaN"}, {"index": 1, "score": 1}]), "not a finite number"),
        ((404, {"error": "no"}), "HTTP 404"),
    ],
)
def test_what_a_server_may_not_say_is_told(
    server: RerankServer, answer: tuple[int, Any], words: str
) -> None:
    server.faults = [answer]
    with pytest.raises(SearchError, match=words):
        open_reranker(f"tei:{server.url}").scores("q", ["a", "b"])


def test_a_busy_server_is_asked_again(server: RerankServer) -> None:
    server.faults = [(429, {}), (503, {})]
    assert len(open_reranker(f"tei:{server.url}").scores("q", ["a", "bb"])) == 2
    assert len(server.bodies) == 3


def test_no_server_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_embedding, "RETRIES", replace(RETRIES, first_delay=0.0))
    with pytest.raises(SearchUnavailable, match="could not rerank with"):
        open_reranker("tei:http://127.0.0.1:9").scores("q", ["a"])


@pytest.mark.parametrize("spec", ["bge", "tei:localhost", "st:", "openai:x"])
def test_other_forms_are_refused(spec: str) -> None:
    with pytest.raises(UsageError, match=r"--reranker .* is invalid; use st:NAME"):
        open_reranker(spec)


def test_it_is_refused_where_the_target_has_its_own_search() -> None:
    words = ["eval", "rest:http://127.0.0.1:9/?q={query}", "--dataset", "notes"]
    result = CliRunner().invoke(app, [*words, "--reranker", "tei:http://127.0.0.1:9"])
    assert "--reranker has no effect on a rest: target" in str(result.exception)


@pytest.mark.parametrize("top_k", [-1, 0, 101, 1000])
def test_a_search_is_checked_as_without_a_reranker(
    server: RerankServer, tmp_path: Path, embedder: WordEmbedder, top_k: int
) -> None:
    store = ArrayStore(tmp_path / "index", "test")
    settings = EmbedderSettings(reranker=f"tei:{server.url}")
    with with_reranker(indexed(store, embedder), settings) as retriever:
        with pytest.raises(UsageError, match=f"top_k must be from 1 to 100, got {top_k}"):
            retriever.search("tea water", top_k)
        assert not server.bodies
        retriever.search("tea \x00water " * 1000, 2)
    (body,) = server.bodies
    assert len(body["query"]) <= QUERY_CHARACTERS
    assert "\x00" not in body["query"]
