"""Sentence embeddings on ONNX Runtime: mean pooling over the tokens, then length 1.

The built-in model is all-MiniLM-L6-v2 as int8, whose files `model_files` finds; its graph is
rewritten once, by `integer_graph`, and kept in the cache.

One thread for each batch and several batches at once: on two cores this embeds about half as much
again as one batch on two threads does, and a single query never waits for a second core. The texts
of a batch have the same number of tokens, so nothing is padded.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import groupby
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from assay.errors import SearchError, UsageError
from assay.files import open_file
from assay.progress import Progress, silent
from assay.search.embedding import BUILTIN_EMBEDDER, NO_PROMPTS, TEXTS_UNTIL_SAVED, Vectors
from assay.search.model_files import (
    MODEL,
    TOKENIZER,
    cached_model,
    is_model_cached,
    read_model_file,
)
from assay.search.token_ids import TokenReader
from assay.text import strip_controls

MAX_TOKENS = 256
# Measured: a full text by itself is as quick as several together, and needs the least memory.
TOKENS_IN_A_BATCH = 256

_PROBE_RESULT = 64 * 255 * 127

_NAME = f"{BUILTIN_EMBEDDER}@{MODEL.sha256[:12]}"


class OnnxEmbedder:
    """A sentence embedder as ONNX.

    Parameters:
        name: the model by name and hash, for the caches and the record of a run.
        model: the file, or its content; or its session, which may still be opening.
        tokenizer: of the same model.
        device: where it runs; the built-in model is made for a CPU.
    """

    max_tokens = MAX_TOKENS
    prompts = NO_PROMPTS
    texts_at_once = TEXTS_UNTIL_SAVED

    def __init__(
        self,
        name: str,
        model: "bytes | Path | Future[onnxruntime.InferenceSession]",
        tokenizer: Tokenizer,
        *,
        device: str = "cpu",
    ) -> None:
        self._tokenizer = tokenizer
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._workers = _workers()
        self._model_name, self.name = name, f"{name} tokens={MAX_TOKENS}"
        if isinstance(model, Future):
            self._opening = model
        else:
            self._opening = Future()
            self._opening.set_result(open_session(name, model, providers=_providers(device)))
            assert self.dimension  # what cannot embed is refused here

    @cached_property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return int(self.embed(["dimension"]).shape[1])

    @cached_property
    def _inputs(self) -> list[str]:
        return _input_names(self._model_name, self._opening.result())

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has, without special tokens and without a limit."""
        return self._reader.count(texts)

    @cached_property
    def _reader(self) -> TokenReader:
        """Made when it is first needed: a single search needs only the tokenizer."""
        return TokenReader(self._tokenizer.to_str(), MAX_TOKENS)

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        """One vector of length 1 for each text; several batches at once."""
        if len(texts) == 1:
            return self._embed_batch([self._tokenizer.encode(strip_controls(texts[0])).ids])
        tokens = self._reader.rows(texts)
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

    def _embed_batch(self, tokens: Sequence[Sequence[int] | NDArray[np.int32]]) -> Vectors:
        ids = np.array([one if len(one) else [0] for one in tokens], np.int64)
        feed = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        session = self._opening.result()
        output = session.run(None, {name: feed[name] for name in self._inputs})[0]
        return pooled(np.asarray(output))


def open_builtin() -> OnnxEmbedder:
    """The built-in model. Once its graph is kept, a thread opens it, while this one reads the
    tokenizer and goes on to the index: the first query that is embedded waits for it.
    """
    graph = f"integer-{MODEL.sha256[:16]}-{_builder_version()}.onnx"
    kept = is_model_cached(graph)
    thread = ThreadPoolExecutor(1, thread_name_prefix="assay-model")
    session = thread.submit(_builtin_session, graph)
    thread.shutdown(wait=False)
    tokenizer = Tokenizer.from_buffer(read_model_file(TOKENIZER))
    if not kept:
        session.result()  # which raises if the model cannot be loaded
    return OnnxEmbedder(f"{_NAME} int8 products 2", session, tokenizer)


def _builtin_session(graph: str) -> onnxruntime.InferenceSession:
    model = cached_model(graph, lambda: _builder().integer_graph(read_model_file(MODEL)))
    return open_session(_NAME, model, session_settings())


def session_settings() -> Mapping[str, str]:
    """Processors without VNNI add 8-bit products in 16 bits, where they may overflow: ONNX Runtime
    is set to its slower, exact mode only on those.
    """
    model = cached_model(f"probe-{_builder_version()}.onnx", lambda: _builder().probe_graph())
    session = open_session("probe", model)
    sums = session.run(None, {"values": np.full((1, 64), 255, np.uint8)})[0]
    exact = bool(np.all(np.asarray(sums) == _PROBE_RESULT))
    return {} if exact else {"session.x64quantprecision": "1"}


def _builder() -> ModuleType:
    from assay.search import integer_graph  # brings onnx, only where a graph has to be built

    return integer_graph


def _builder_version() -> str:
    source = Path(__file__).with_name("integer_graph.py").read_bytes()
    return hashlib.sha256(source).hexdigest()[:16]


def open_folder(folder: Path, *, device: str = "auto") -> OnnxEmbedder:
    """A folder that holds `model.onnx` and `tokenizer.json`, as sentence-transformers exports."""
    folder = folder.expanduser()
    for name in ("model.onnx", "tokenizer.json"):
        if not (folder / name).is_file():
            raise UsageError(
                f"--embedder onnx:{folder} has no {name}; pass a folder with "
                "model.onnx and tokenizer.json"
            )
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # the library raises nothing narrower
        raise SearchError(f"{folder / 'tokenizer.json'} is not a tokenizer: {error}") from None
    with open_file(folder / "model.onnx") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return OnnxEmbedder(
        f"{folder.name}@{digest[:12]}", folder / "model.onnx", tokenizer, device=device
    )


def batches_by_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows of equal length together, longest first, at most TOKENS_IN_A_BATCH unless it is one."""
    rows = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    for length, equal in groupby(rows, key=lambda row: lengths[row]):
        size, same = max(1, TOKENS_IN_A_BATCH // max(1, length)), list(equal)
        yield from (same[start : start + size] for start in range(0, len(same), size))


def pooled(output: NDArray[Any]) -> Vectors:
    """A model may pool by itself (two axes); otherwise its token vectors are averaged."""
    if output.ndim == 3:
        output = output.mean(1)
    norms = np.linalg.norm(output, axis=1, keepdims=True)
    return np.asarray(output / np.maximum(norms, 1e-12), np.float32)


def _providers(device: str) -> list[str]:
    """ONNX Runtime's names for the device; a CPU where `auto` finds no GPU."""
    kind = device.partition(":")[0]
    wanted = {"cuda": "CUDAExecutionProvider", "mps": "CoreMLExecutionProvider"}
    available = onnxruntime.get_available_providers()
    if kind == "auto":
        return [one for one in wanted.values() if one in available] + ["CPUExecutionProvider"]
    if kind == "cpu":
        return ["CPUExecutionProvider"]
    if wanted[kind] not in available:
        raise UsageError(
            f"--device {device}: the installed ONNX Runtime has no {wanted[kind]}; install "
            "onnxruntime-gpu in place of onnxruntime, or use --device auto or cpu"
        )
    return [wanted[kind], "CPUExecutionProvider"]


def open_session(
    name: str,
    model: bytes | Path,
    settings: Mapping[str, str] = MappingProxyType({}),
    providers: Sequence[str] = ("CPUExecutionProvider",),
) -> onnxruntime.InferenceSession:
    """A graph that runs in the thread that asks; `model`: the file, or its content."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    for key, value in settings.items():
        options.add_session_config_entry(key, value)
    source = model if isinstance(model, bytes) else str(model)
    try:
        return onnxruntime.InferenceSession(source, options, providers=list(providers))
    except Exception as error:  # every fault of a model file has a class of its own
        raise SearchError(f"the model {name} cannot be loaded: {error}") from None


def _input_names(name: str, session: onnxruntime.InferenceSession) -> list[str]:
    known = {"input_ids", "attention_mask", "token_type_ids"}
    inputs = [(one.name, one.type) for one in session.get_inputs()]
    strange = [f"{label} ({kind})" for label, kind in inputs if label not in known]
    wrong = [f"{label} ({kind})" for label, kind in inputs if kind != "tensor(int64)"]
    if strange or wrong or "input_ids" not in {label for label, _ in inputs}:
        raise SearchError(
            f"the model {name} is not a supported sentence embedder: its inputs are {inputs}; "
            f"expected int64 input_ids, attention_mask and at most token_type_ids"
        )
    return [label for label, _ in inputs]


def _workers() -> int:
    """ASSAY_THREADS, else the cores this process may use, at most four."""
    chosen = os.environ.get("ASSAY_THREADS", "")
    if chosen:
        if not chosen.isdecimal() or int(chosen) < 1:
            raise UsageError(f"ASSAY_THREADS must be an integer >= 1, got {chosen!r}")
        return int(chosen)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(4, cores or 1)
