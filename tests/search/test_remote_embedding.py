"""Embedding servers, with a real HTTP server that answers in their shapes."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.json_server import Answer, JsonRequest, JsonServer
from tests.search.samples import WordEmbedder

from assay.errors import SearchError, UsageError
from assay.privacy import private_mode
from assay.search import remote_embedding
from assay.search.embedding import EmbedderSettings, open_embedder


class EmbeddingServer(JsonServer):
    """Answers as Ollama or OpenAI do; `faults` are answered first, one for each request."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.faults: list[Answer] = []
        self.change: Callable[[Any], Any] = lambda answer: answer
        self.paths = {"/api/embed", "/v1/embeddings", "/embed"}
        self.info: Any = {"model_id": "BAAI/bge-small-en-v1.5"}
        super().__init__()

    def answer(self, request: JsonRequest) -> Answer:
        path, body = request.path, request.body
        if request.method == "GET":
            return 200, {}, self.info
        self.requests.append((path, body, request.headers))
        if self.faults:
            return self.faults.pop(0)
        if path not in self.paths:
            return 404, {}, {"error": "no such path"}
        vectors = (3 * WordEmbedder().embed(body.get("input") or body["inputs"])).tolist()
        if path == "/embed":
            return 200, {}, self.change(vectors)
        if path == "/api/embed":
            return 200, {}, self.change({"model": body["model"], "embeddings": vectors})
        data = [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        return 200, {}, self.change({"object": "list", "data": data[::-1]})


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer().running() as server:
        yield server


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What would have been waited."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(remote_embedding, "RETRIES", replace(remote_embedding.RETRIES, sleep=sleep))
    return waited


@pytest.mark.parametrize(("kind", "path"), [("ollama", "/api/embed"), ("openai", "/v1/embeddings")])
def test_texts_come_back_as_vectors_of_length_1_in_their_order(
    server: EmbeddingServer, kind: str, path: str
) -> None:
    embedder = open_embedder(EmbedderSettings(f"{kind}:some-model@{server.url}"))
    texts = [f"text number {i}" for i in range(150)]
    assert embedder.embed(texts) == pytest.approx(WordEmbedder().embed(texts), abs=1e-6)
    assert embedder.dimension == 512
    assert f"{kind}:some-model" in embedder.name
    assert server.url not in embedder.name  # the same model elsewhere has the same vectors
    assert {asked for asked, _, _ in server.requests} == {path}
    assert sorted(len(body["input"]) for _, body, _ in server.requests) == [1, 22, 64, 64]
    assert {body["model"] for _, body, _ in server.requests} == {"some-model"}


def test_an_address_may_end_in_v1(server: EmbeddingServer) -> None:
    open_embedder(EmbedderSettings(f"openai:m@{server.url}/v1/"))
    assert server.requests[0][0] == "/v1/embeddings"


def test_an_address_may_have_its_embeddings_without_v1(server: EmbeddingServer) -> None:
    server.paths = {"/embeddings"}
    embedder = open_embedder(EmbedderSettings(f"openai:m@{server.url}"))
    embedder.embed(["tea"])
    asked = [path for path, _, _ in server.requests]
    assert asked == ["/v1/embeddings", "/embeddings", "/embeddings"]


def test_text_embeddings_inference_is_asked_in_its_own_way(server: EmbeddingServer) -> None:
    embedder = open_embedder(EmbedderSettings(f"tei:{server.url}"))
    texts = [f"text number {i}" for i in range(70)]
    assert embedder.embed(texts) == pytest.approx(WordEmbedder().embed(texts), abs=1e-6)
    assert embedder.name.startswith("tei:BAAI/bge-small-en-v1.5 d=512")
    assert all(body["truncate"] is True for _, body, _ in server.requests)


@pytest.mark.parametrize("value", ["0", "many", "65"])
def test_the_number_of_requests_at_once_is_checked(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("ASSAY_EMBEDDER_CONCURRENCY", value)
    with pytest.raises(UsageError, match="ASSAY_EMBEDDER_CONCURRENCY must be from 1 to 64"):
        open_embedder(EmbedderSettings(f"openai:m@{server.url}"))


def test_a_model_may_have_a_tag(server: EmbeddingServer) -> None:
    open_embedder(EmbedderSettings(f"ollama:all-minilm:22m@{server.url}"))
    assert server.requests[0][1]["model"] == "all-minilm:22m"


def test_the_key_is_sent_and_never_told(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-1")
    open_embedder(EmbedderSettings(f"openai:m@{server.url}"))
    assert server.requests[-1][2]["authorization"] == "Bearer secret-1"
    monkeypatch.setenv("ASSAY_EMBEDDER_KEY", "secret-2")
    open_embedder(EmbedderSettings(f"openai:m@{server.url}"))
    assert server.requests[-1][2]["authorization"] == "Bearer secret-2"
    server.faults = [(401, {}, {"error": "no"})]
    with pytest.raises(SearchError, match=r"HTTP 401.*OPENAI_API_KEY") as caught:
        open_embedder(EmbedderSettings(f"openai:m@{server.url}"))
    assert "secret" not in str(caught.value)


def test_openais_key_is_not_sent_to_ollama(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    open_embedder(EmbedderSettings(f"ollama:m@{server.url}"))
    assert "authorization" not in server.requests[0][2]


def test_what_passes_is_asked_again_after_the_time_the_server_names(
    server: EmbeddingServer, pauses: list[float]
) -> None:
    server.faults = [
        (429, {"Retry-After": "7"}, {}),
        (503, {}, b"busy"),
        (500, {"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}, b""),
        (500, {"Retry-After": "Wed, 21 Oct 2020 07:28:00 GMT"}, b""),
    ]
    open_embedder(EmbedderSettings(f"ollama:m@{server.url}"))
    assert len(server.requests) == 5
    assert (pauses[0], pauses[2], pauses[3]) == (7.0, 60.0, 0.0)
    assert 0 <= pauses[1] <= 1.0  # exponential backoff with jitter


def test_what_does_not_pass_is_given_up_with_the_servers_words(
    server: EmbeddingServer, pauses: list[float]
) -> None:
    server.faults = [(503, {}, b"model is\nloading")] * 5
    with pytest.raises(SearchError, match=r"HTTP 503: model is loading.*after 5 attempts"):
        open_embedder(EmbedderSettings(f"ollama:m@{server.url}"))
    assert len(pauses) == 4


def test_a_request_that_can_never_succeed_is_not_asked_again(
    server: EmbeddingServer, pauses: list[float]
) -> None:
    server.faults = [(404, {}, {"error": "model 'm' not found"})]
    with pytest.raises(SearchError, match=r"HTTP 404.*model 'm' not found"):
        open_embedder(EmbedderSettings(f"ollama:m@{server.url}"))
    assert pauses == []


def test_nobody_at_the_address_is_told(pauses: list[float]) -> None:
    where = r"could not get embeddings .* from http://127\.0\.0\.1:9"
    with pytest.raises(SearchError, match=rf"{where}: ConnectError: connection refused"):
        open_embedder(EmbedderSettings("ollama:m@http://user:word@127.0.0.1:9"))
    assert len(pauses) == 4


@pytest.mark.parametrize(
    "change",
    [
        lambda _: {"error": "no"},
        lambda _: {"embeddings": []},
        lambda _: {"embeddings": [[]]},
        lambda answer: {"embeddings": answer["embeddings"] * 2},
        lambda _: {"embeddings": 7},
        lambda _: {"embeddings": [["a"]]},
        lambda _: [],
        lambda _: {"embeddings": [[float("nan")] * 3]},
        lambda _: {"embeddings": [[1e39]]},
        lambda _: {"embeddings": [[1.0, None]]},
        lambda _: {"embeddings": [[0.0, 0.0]]},
        lambda _: b"[" * 900 + b"]" * 900,
    ],
)
def test_an_answer_of_another_shape_is_told(
    server: EmbeddingServer, change: Callable[[Any], Any]
) -> None:
    server.change = change
    with pytest.raises(
        SearchError, match=r"cannot be parsed|expected a matrix|infinite or NaN|only zeros"
    ):
        open_embedder(EmbedderSettings(f"ollama:m@{server.url}"))


def test_vectors_that_do_not_say_whose_they_are_are_refused(server: EmbeddingServer) -> None:
    embedder = open_embedder(EmbedderSettings(f"openai:m@{server.url}"))
    server.change = lambda answer: {"data": [each | {"index": 0} for each in answer["data"]]}
    with pytest.raises(SearchError, match=r"`index` 0 to 1, each once; update the server"):
        embedder.embed(["tea", "water"])


def test_the_text_whose_vector_is_zero_is_named(server: EmbeddingServer) -> None:
    embedder = open_embedder(EmbedderSettings(f"ollama:m@{server.url}"))
    server.change = lambda answer: {
        "embeddings": [answer["embeddings"][0], [0.0] * embedder.dimension]
    }
    for text, size in (("qwxz", "4 characters"), ("", "blank")):
        with pytest.raises(
            SearchError, match=rf"text 2 of 2 in a request \({size}\).*remove documents"
        ):
            embedder.embed(["tea", text])


def test_a_model_that_changes_its_dimension_is_told(server: EmbeddingServer) -> None:
    embedder = open_embedder(EmbedderSettings(f"ollama:m@{server.url}"))
    server.change = lambda _: {"embeddings": [[1.0, 2.0]]}
    with pytest.raises(SearchError, match=r"expected a matrix of \(1, 512\).*\(1, 2\)"):
        embedder.embed(["tea"])


@pytest.mark.parametrize(
    "spec",
    ["ollama", "ollama:", "magic:m", "ollama:m@host", "openai:m@ftp://host", "m@http://x"],
)
def test_what_names_no_embedder_is_refused(spec: str) -> None:
    with pytest.raises(UsageError, match="--embedder"):
        open_embedder(EmbedderSettings(spec))


def test_tokens_are_rather_over_than_underestimated(server: EmbeddingServer) -> None:
    embedder = open_embedder(EmbedderSettings(f"ollama:m@{server.url}"))
    assert embedder.count_tokens(["", "green tea", "绿茶"]) == [0, 3, 2]
    assert np.all(np.array(embedder.count_tokens(["word " * 100])) >= 100)


def test_vectors_beyond_every_dimension_are_refused(server: EmbeddingServer) -> None:
    server.change = lambda _: {"embeddings": [[1] * 70_000]}
    with pytest.raises(SearchError, match=r"vectors of 70,000 numbers, more than 65,536"):
        open_embedder(EmbedderSettings(f"ollama:m@{server.url}"))


def test_the_largest_numbers_do_not_vanish(server: EmbeddingServer) -> None:
    server.change = lambda _: {"embeddings": [[3e38, 3e38]]}
    [vector] = open_embedder(EmbedderSettings(f"ollama:m@{server.url}")).embed(["tea"])
    assert vector == pytest.approx([0.5**0.5] * 2)


@pytest.mark.parametrize("name", ["", "a\x1b[2J", "a\nb", "a" * 5000])
def test_a_model_without_a_usable_name_is_refused(server: EmbeddingServer, name: str) -> None:
    server.info = {"model_id": name}
    with pytest.raises(SearchError, match="names no model_id"):
        open_embedder(EmbedderSettings(f"tei:{server.url}"))


@pytest.mark.parametrize("status", [400, 200])
def test_a_server_that_repeats_a_document_is_not_quoted_in_a_private_run(
    server: EmbeddingServer, status: int
) -> None:
    server.faults = [(status, {}, {"embeddings": [["Jane Doe has asthma"]], "error": "Jane Doe"})]
    with private_mode(), pytest.raises(SearchError) as caught:
        open_embedder(EmbedderSettings(f"ollama:m@{server.url}"))
    assert "Jane" not in str(caught.value)


def test_a_body_that_trickles_is_given_up(
    server: EmbeddingServer, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes in time, and the end never."""
    monkeypatch.setattr(remote_embedding, "MAX_SECONDS", -1.0)
    with pytest.raises(SearchError, match=r"took too long as a whole .after 5 attempts"):
        open_embedder(EmbedderSettings(f"ollama:m@{server.url}"))
