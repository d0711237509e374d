"""A cross-encoder over the first documents of a ranking: `--reranker st:NAME|DIR` or `tei:URL`.

A retriever compares a query with documents that were embedded without knowing it. A cross-encoder
reads the two together: better, and too slow for more than the best of a first ranking.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import numpy as np

from assay.errors import SearchError, SearchUnavailable, UsageError
from assay.net.json import JsonObject, parse_json
from assay.net.redact import redact_url
from assay.search.embedding import EmbedderSettings
from assay.search.explanation import Explanation
from assay.search.modes import Mode
from assay.search.remote_embedding import ModelServer, PostError
from assay.search.retriever import (
    MAX_TOP_K,
    Ranker,
    Retriever,
    SearchHit,
    check_request,
    readable_query,
)
from assay.search.store import Manifest

RERANK_DEPTH = 50
"""How many documents of the first ranking are read again."""

RERANKER_FORMS = "st:NAME|DIR (a cross-encoder of sentence-transformers) or tei:URL"
_KEY = "ASSAY_RERANKER_KEY"


class Reranker(Protocol):
    """Scores texts for a query, the higher the better."""

    @property
    def name(self) -> str:
        """The name that a run records."""
        ...

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """One score from 0 to 1 for each text."""
        ...


def open_reranker(spec: str, device: str = "auto") -> Reranker:
    """The reranker that `spec` names. Raises `UsageError` for anything else."""
    kind, _, rest = spec.partition(":")
    if kind == "st" and rest:
        return CrossEncoderReranker(rest, device)
    if kind == "tei" and urlsplit(rest).scheme in ("http", "https") and urlsplit(rest).hostname:
        return ServerReranker(rest.rstrip("/"))
    raise UsageError(f"--reranker {redact_url(spec)!r} is invalid; use {RERANKER_FORMS}")


def with_reranker(retriever: Retriever, settings: EmbedderSettings | None = None) -> Retriever:
    """The retriever with the reranker that the settings, else the environment, name, if any."""
    chosen = settings or EmbedderSettings.from_environment()
    if not chosen.reranker:
        return retriever
    try:
        return RerankedRetriever(retriever, open_reranker(chosen.reranker, chosen.device))
    except BaseException:
        retriever.close()
        raise


def reranked(
    hits: Sequence[SearchHit], reranker: Reranker, query: str, top_k: int
) -> list[SearchHit]:
    """The best of `hits` by the reranker; equal scores keep their order.

    Each hit gets the reranker's score, and its place before among its signals.
    """
    if not hits:
        return []
    texts = [f"{hit.title} {hit.text}".strip() for hit in hits]
    scores = list(reranker.scores(query, texts))
    order = sorted(range(len(hits)), key=lambda place: (-scores[place], place))[:top_k]
    return [
        replace(
            hits[place],
            score=min(1.0, max(0.0, float(scores[place]))),
            signals={**hits[place].signals, "before reranking": place + 1},
        )
        for place in order
    ]


class RerankedRetriever(Retriever):
    """A retriever whose first documents are ordered anew."""

    def __init__(self, first: Retriever, reranker: Reranker) -> None:
        self._first, self._reranker = first, reranker

    def with_ranking(self, ranker: Ranker, doc_ids: Sequence[str]) -> "Retriever":
        """The same with a tuned mode, whose ranking is then ordered anew as well."""
        return RerankedRetriever(self._first.with_ranking(ranker, doc_ids), self._reranker)

    @property
    def manifest(self) -> Manifest:
        """What the index was made of, and how."""
        return self._first.manifest

    @property
    def learned_from(self) -> tuple[str, ...]:
        """The splits whose judgments the tuned mode knows."""
        return self._first.learned_from

    def close(self) -> None:
        """Close the index."""
        self._first.close()

    def search(
        self,
        query: str,
        top_k: int = 10,
        *,
        mode: Mode = "hybrid",
        filters: Mapping[str, object] | None = None,
    ) -> list[SearchHit]:
        """Best first, at most `top_k`, with the reranker's scores."""
        check_request(query, top_k, mode)  # the first ranking is asked for another top_k
        depth = min(MAX_TOP_K, max(top_k, RERANK_DEPTH))
        hits = self._first.search(query, depth, mode=mode, filters=filters)
        return reranked(hits, self._reranker, readable_query(query), top_k)

    def explain(
        self,
        query: str,
        top_k: int = 10,
        *,
        mode: Mode = "hybrid",
        filters: Mapping[str, object] | None = None,
    ) -> list[tuple[SearchHit, Explanation]]:
        """Refused: a cross-encoder's score has no parts."""
        raise UsageError(
            "a reranker's score cannot be explained; leave --reranker out to explain the first "
            "ranking"
        )


class CrossEncoderReranker:
    """A cross-encoder of sentence-transformers, on a GPU or a CPU."""

    def __init__(self, model: str, device: str = "auto") -> None:
        from sentence_transformers import CrossEncoder

        from assay.search.torch_embedding import choose_device

        chosen = choose_device(device)
        try:
            self._model: Any = CrossEncoder(model, device=chosen)
        except (OSError, ValueError) as error:
            raise SearchError(
                f"no cross-encoder can be loaded from {model!r}: {str(error).splitlines()[0]}; "
                "pass a folder, or the name of a model that can be downloaded"
            ) from None
        labels = int(getattr(self._model.config, "num_labels", 1))
        if labels != 1:
            raise SearchError(
                f"{model!r} is a classifier: it gives {labels} scores for a pair; pass a "
                "cross-encoder that gives one"
            )
        self.name = f"st:{Path(model).name}"

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """One score for each text; those of a model without a sigmoid are given one."""
        import torch

        found = self._model.predict(
            [(query, text) for text in texts],
            activation_fn=torch.nn.Sigmoid(),
            show_progress_bar=False,
            batch_size=32,
        )
        return [float(each) for each in found]


class ServerReranker:
    """text-embeddings-inference with a reranking model: `POST URL/rerank`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._server = ModelServer(url, os.environ.get(_KEY) or None)
        self.name = f"tei:{redact_url(url)}"

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """One score for each text, as the server gives it."""
        answer = self._post({"query": query, "texts": list(texts), "truncate": True})
        try:
            rows = {int(row["index"]): float(row["score"]) for row in parse_json(answer)}
            found = [rows[place] for place in range(len(texts))]
        except (ValueError, KeyError, TypeError) as error:
            raise self._error(f"the response cannot be parsed ({type(error).__name__})") from None
        if not np.isfinite(found).all():
            raise self._error("a score is not a finite number")
        return found

    def _post(self, body: JsonObject) -> bytes:
        try:
            return self._server.post("/rerank", body)
        except PostError as error:
            if error.status is None:
                raise SearchUnavailable(str(self._error(str(error)))) from None
            raise self._error(str(error)) from None

    def _error(self, reason: str) -> SearchError:
        return SearchError(
            f"could not rerank with {redact_url(self._url)}: {reason}; check the URL, that it "
            f"serves a reranking model, and the API key in {_KEY} if it wants one"
        )
