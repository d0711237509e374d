"""Sentence embeddings on ONNX Runtime: the built-in all-MiniLM-L6-v2 in 8 bits, or a folder.

One thread for each batch and several batches at once: on two cores this embeds half as much again
as one batch on two threads, and a single query never waits for a second core.
"""

import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from assay.errors import DataError, SearchError, UsageError
from assay.files import open_file, read_file
from assay.net.json import JsonObject, parse_object
from assay.progress import Progress, silent
from assay.search.embedding import (
    BUILTIN_EMBEDDER,
    NO_PROMPTS,
    TEXTS_UNTIL_SAVED,
    Prompts,
    TokenCounter,
    Vectors,
)
from assay.search.workers import integer_setting, usable_cores
from assay.text import strip_controls

MAX_TOKENS = 256
# Measured: one full text at a time is as quick as several together, and needs the least memory.
TOKENS_IN_A_BATCH = 256

MODEL_PACKAGE = "agent_assay_minilm"
MODEL_HASHES = {
    "model.onnx": "59a987cc048056fbf94bfc08e7c99b69aa733711f1da325a22d81e26dcd909e1",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
# The hash is that of the file which the graph was made from: vectors cached by it stay valid.
_BUILTIN_NAME = f"{BUILTIN_EMBEDDER}@8199be6f699a int8 products 2"
_CPU_FLAGS = Path("/proc/cpuinfo")

_MODEL_FILES = ("model.onnx", "onnx/model.onnx")
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_MAX_BYTES = 64_000_000


class OnnxEmbedder:
    """A sentence embedder as ONNX; `session` may still be opening.

    `pooling`: `mean` of the tokens' vectors, or `cls`, that of the first one.
    """

    max_tokens = MAX_TOKENS
    texts_at_once = TEXTS_UNTIL_SAVED

    def __init__(
        self,
        name: str,
        session: Future[onnxruntime.InferenceSession],
        tokenizer: Tokenizer,
        *,
        pooling: str = "mean",
        prompts: Prompts = NO_PROMPTS,
    ) -> None:
        self._tokenizer = tokenizer
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._workers = integer_setting("ASSAY_THREADS") or min(4, usable_cores())
        self.name = f"{name} tokens={MAX_TOKENS}"
        self._opening, self._pooling, self.prompts = session, pooling, prompts

    @cached_property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return int(self.embed(["dimension"]).shape[1])

    @cached_property
    def _inputs(self) -> list[str]:
        inputs = [one.name for one in self._opening.result().get_inputs()]
        return [name for name in _INPUTS if name in inputs]

    @cached_property
    def count_tokens(self) -> TokenCounter:
        """How many tokens each text has, without special tokens and without a limit."""
        # Made when it is first needed: a search counts nothing, and starts 30 ms earlier.
        copied = Tokenizer.from_str(self._tokenizer.to_str())
        copied.no_truncation()
        return TokenCounter(copied)

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        """One vector of length 1 for each text; several batches at once."""
        tokens = [self._tokenizer.encode(strip_controls(text)).ids for text in texts]
        if len(tokens) == 1:
            return self._embed_batch(tokens)
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        batches = list(batches_by_length([len(ids) for ids in tokens]))
        done = 0
        pool = ThreadPoolExecutor(self._workers, thread_name_prefix="assay-embed")
        try:
            work = pool.map(lambda rows: self._embed_batch([tokens[i] for i in rows]), batches)
            for rows, batch in zip(batches, work, strict=True):
                vectors[rows] = batch
                done += len(rows)
                progress("embedding", done, len(texts))
        finally:
            pool.shutdown(cancel_futures=True)  # an interrupt must not wait for the whole corpus
        return vectors

    def _embed_batch(self, tokens: Sequence[Sequence[int]]) -> Vectors:
        ids = np.array([one if len(one) else [0] for one in tokens], np.int64)
        feed = dict(zip(_INPUTS, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))
        session = self._opening.result()
        output = session.run(None, {name: feed[name] for name in self._inputs})[0]
        return pooled(np.asarray(output), self._pooling)


def open_builtin() -> OnnxEmbedder:
    """The built-in model, opened in a thread: the first query that is embedded waits for it."""
    spec = find_spec(MODEL_PACKAGE)
    folder = Path(spec.origin if spec and spec.origin else MODEL_PACKAGE).parent
    tokenizer = Tokenizer.from_buffer(_read_checked(folder / "tokenizer.json"))
    thread = ThreadPoolExecutor(1, thread_name_prefix="assay-model")
    session = thread.submit(
        lambda: open_session(
            BUILTIN_EMBEDDER, _read_checked(folder / "model.onnx"), _session_settings()
        )
    )
    thread.shutdown(wait=False)
    return OnnxEmbedder(_BUILTIN_NAME, session, tokenizer)


def _session_settings() -> Mapping[str, str]:
    # x86 without VNNI adds 8-bit products in 16 bits, where they may overflow: the exact mode of
    # ONNX Runtime takes half as much time again.
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return {}
    try:
        known = "vnni" in _CPU_FLAGS.read_text(encoding="ascii", errors="replace")
    except OSError:  # not Linux
        known = False
    return {} if known else {"session.x64quantprecision": "1"}


def _read_checked(path: Path) -> bytes:
    try:
        content = read_file(path, limit=_MAX_BYTES)
        found = hashlib.sha256(content).hexdigest()
        if found != MODEL_HASHES[path.name]:
            raise ValueError(f"SHA-256 {found[:12]}…, not {MODEL_HASHES[path.name][:12]}…")
    except (DataError, OSError, ValueError) as error:
        raise SearchError(
            f"the built-in model cannot be read ({path.name}: {error}); run: pip install "
            "--force-reinstall agent-assay-minilm, or in a clone: make clean setup"
        ) from None
    return content


def open_folder(folder: Path) -> OnnxEmbedder:
    """A folder as sentence-transformers exports it, with settings of pooling and prompts if any."""
    folder = folder.expanduser()
    model = next((folder / name for name in _MODEL_FILES if (folder / name).is_file()), None)
    if model is None or not (folder / "tokenizer.json").is_file():
        missing = "tokenizer.json" if model else "model.onnx"
        raise UsageError(
            f"--embedder onnx:{folder} has no {missing}; pass a folder with model.onnx and "
            "tokenizer.json"
        )
    with open_file(model) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    name = f"{folder.resolve().name}@{digest[:12]}"
    pooling = _read_pooling(folder)
    session: Future[onnxruntime.InferenceSession] = Future()
    session.set_result(open_session(name, model))
    prompts = Prompts.parse(_settings(folder / "config_sentence_transformers.json"))
    label = name if pooling == "mean" else f"{name} {pooling}"
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        embedder = OnnxEmbedder(label, session, tokenizer, pooling=pooling, prompts=prompts)
        assert embedder.dimension
    except Exception as error:  # neither tokenizers nor the runtime raise anything narrower
        raise SearchError(
            f"{folder} has no tokenizer, or no embedder with int64 {', '.join(_INPUTS)}: {error}"
        ) from None
    return embedder


def _read_pooling(folder: Path) -> str:
    path = folder / "1_Pooling" / "config.json"
    settings = _settings(path).items()
    modes = [name for name, value in settings if value is True and name.startswith("pooling_mode_")]
    known = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    if len(modes) > 1 or not known.keys() >= set(modes):
        raise UsageError(f"{path} asks for {' and '.join(modes)}; only mean and cls are supported")
    return known[modes[0]] if modes else "mean"


def _settings(path: Path) -> JsonObject:
    if not path.is_file():
        return {}
    found = parse_object(read_file(path, limit=_MAX_BYTES))
    if found is None:
        raise UsageError(f"{path} is not a JSON object; export the model again")
    return found


def batches_by_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows of equal length together, longest first, at most TOKENS_IN_A_BATCH unless it is one."""
    rows = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    for length, equal in groupby(rows, key=lambda row: lengths[row]):
        size, same = max(1, TOKENS_IN_A_BATCH // max(1, length)), list(equal)
        yield from (same[start : start + size] for start in range(0, len(same), size))


def pooled(output: NDArray[Any], pooling: str = "mean") -> Vectors:
    """Vectors of length 1; some models pool themselves (two axes)."""
    if output.ndim == 3:
        output = output[:, 0] if pooling == "cls" else output.mean(1)
    norms = np.linalg.norm(output, axis=1, keepdims=True)
    return np.asarray(output / np.maximum(norms, 1e-12), np.float32)


def open_session(
    name: str, model: bytes | Path, settings: Mapping[str, str] | None = None
) -> onnxruntime.InferenceSession:
    """A graph that runs in the thread that asks; `model`: the file, or its content."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    for key, value in (settings or {}).items():
        options.add_session_config_entry(key, value)
    source = model if isinstance(model, bytes) else str(model)
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # each fault of a model file raises another class
        raise SearchError(f"the model {name} cannot be loaded: {error}") from None
