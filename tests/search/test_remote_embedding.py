"""Embedding servers, with a real HTTP server that answers in their shapes."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.json_server import Answer, JsonRequest, JsonServer
from tests.search.samples import WordEmbedder

from assay.errors import SearchError, UsageError
from assay.privacy import private_mode
from assay.search import remote_embedding
from assay.search.embedding import Embedder, EmbedderSettings, open_embedder


class EmbeddingServer(JsonServer):
    """Answers as OpenAI does; `faults` are answered first, one for each request."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.faults: list[Answer] = []
        self.change: Callable[[Any], Any] = lambda answer: answer
        super().__init__()

    def answer(self, request: JsonRequest) -> Answer:
        self.requests.append((request.path, request.body, request.headers))
        if self.faults:
            return self.faults.pop(0)
        if request.path != "/v1/embeddings":
            return 404, {}, {"error": "no such path"}
        vectors = (3 * WordEmbedder().embed(request.body["input"])).tolist()
        data = [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        return 200, {}, self.change({"object": "list", "data": data[::-1]})

    def opened(self, model: str = "m") -> Embedder:
        return open_embedder(EmbedderSettings(f"openai:{model}@{self.url}/v1"))


def with_vectors(*vectors: object) -> Callable[[Any], Any]:
    return lambda _: {"data": [{"index": i, "embedding": one} for i, one in enumerate(vectors)]}


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer().running() as server:
        yield server


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(remote_embedding, "RETRIES", replace(remote_embedding.RETRIES, sleep=sleep))
    return waited


def test_texts_come_back_as_vectors_of_length_1_in_their_order(server: EmbeddingServer) -> None:
    embedder = server.opened("some-model:22m")
    texts = [f"text number {i}" for i in range(150)]
    assert embedder.embed(texts) == pytest.approx(WordEmbedder().embed(texts), abs=1e-6)
    assert embedder.embed([]).shape == (0, 512)
    # The same model at another address has the same vectors.
    assert embedder.name == "openai:some-model:22m d=512 tokens=256"
    assert {asked for asked, _, _ in server.requests} == {"/v1/embeddings"}
    assert sorted(len(body["input"]) for _, body, _ in server.requests) == [1, 22, 64, 64]
    assert {body["model"] for _, body, _ in server.requests} == {"some-model:22m"}


def test_the_key_is_never_told(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, key in (("OPENAI_API_KEY", "secret-1"), ("ASSAY_EMBEDDER_KEY", "secret-2")):
        monkeypatch.setenv(name, key)
        server.opened()
        assert server.requests[-1][2]["authorization"] == f"Bearer {key}"
    server.faults = [(401, {}, {"error": "no"})]
    with pytest.raises(SearchError, match=r"HTTP 401.*ASSAY_EMBEDDER_KEY") as caught:
        server.opened()
    assert "secret" not in str(caught.value)


def test_the_pause_is_what_the_server_names(server: EmbeddingServer, pauses: list[float]) -> None:
    server.faults = [
        (429, {"Retry-After": "7"}, {}),
        (503, {}, b"busy"),
        (500, {"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}, b""),
    ]
    server.opened()
    assert len(server.requests) == 4
    assert (pauses[0], pauses[2]) == (7.0, 60.0)


@pytest.mark.parametrize(
    ("faults", "told", "waits"),
    [
        ([(503, {}, b"model is\nloading")] * 5, "HTTP 503: model is loading", 4),
        ([(400, {}, {"error": "model 'm' not found"})], r"HTTP 400.*model 'm' not found", 0),
        ([(404, {}, b"")], "HTTP 404; check the URL", 0),
    ],
)
def test_a_failure_is_told_in_the_servers_words(
    server: EmbeddingServer, pauses: list[float], faults: list[Answer], told: str, waits: int
) -> None:
    server.faults = faults
    with pytest.raises(SearchError, match=told):
        server.opened()
    assert len(pauses) == waits


def test_nobody_at_the_address_is_told(pauses: list[float]) -> None:
    where = r"could not get embeddings .* from http://127\.0\.0\.1:9"
    with pytest.raises(SearchError, match=rf"{where}: ConnectError: connection refused"):
        open_embedder(EmbedderSettings("openai:m@http://user:word@127.0.0.1:9/"))
    assert len(pauses) == 4


@pytest.mark.parametrize(
    "change",
    [
        lambda _: {"error": "no"},
        with_vectors(),
        with_vectors([1.0], [1.0]),
        with_vectors([float("nan")] * 3),
        with_vectors([0.0, 0.0]),
        with_vectors([1] * 70_000),
        lambda _: b"[" * 900 + b"]" * 900,
    ],
)
def test_another_shape_is_told(server: EmbeddingServer, change: Callable[[Any], Any]) -> None:
    server.change = change
    with pytest.raises(SearchError, match=r"cannot be parsed|finite numbers"):
        server.opened()


@pytest.mark.parametrize("spec", ["openai:", "openai:m@ftp://host", "some/model"])
def test_what_names_no_embedder_is_refused(spec: str) -> None:
    with pytest.raises(UsageError, match=r"--embedder .*use one of"):
        open_embedder(EmbedderSettings(spec))


def test_tokens_are_rather_over_than_underestimated(server: EmbeddingServer) -> None:
    assert server.opened().count_tokens(["", "green tea", "绿茶"]) == [0, 3, 2]


@pytest.mark.parametrize("status", [400, 200])
def test_a_server_is_not_quoted_in_a_private_run(server: EmbeddingServer, status: int) -> None:
    server.faults = [(status, {}, {"data": [["Jane Doe has asthma"]], "error": "Jane Doe"})]
    with private_mode(), pytest.raises(SearchError) as caught:
        server.opened()
    assert "Jane" not in str(caught.value)
