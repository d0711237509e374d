"""From texts to token ids, in this process or in several that feed one GPU.

BERT's tokenizers look at each word by itself, so a word that was split once never has to be split
again. Looking words up is about ten times as fast as running the tokenizer, and words beyond the
model's limit are never looked at.
"""

import json
import os
import pickle
import re
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from assay.errors import SearchError
from assay.text import strip_controls

# The tokenizer deletes these, which joins the words around them; Python would split there.
_JOINING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_BYTES = 4
_MAX_WORD = 64
_WORDS_KEPT = 500_000
_TEXTS_IN_A_TASK = 512
_WORKER = "from assay.search.token_ids import work; work()"
_SIZE = struct.Struct("<Q")


class WordPieces:
    """Token ids of texts, exactly as `tokenizer` gives them.

    Safe to use from several threads: an entry is the same in each thread.

    Parameters:
        tokenizer: one for which `splits_words` is true, with its truncation switched off.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._pieces: dict[str, bytes] = {}
        first, *last = tokenizer.encode("", add_special_tokens=True).ids
        self._first, self._last = _packed([first]), _packed(last)

    def encode(self, text: str, max_tokens: int) -> NDArray[np.int32]:
        """At most `max_tokens` ids, those of the marks around the text included."""
        room = max_tokens - (len(self._first) + len(self._last)) // _BYTES
        return np.frombuffer(self._first + self._words(text, room) + self._last, np.int32)

    def count(self, text: str) -> int:
        """How many tokens the text has, without marks and without a limit."""
        if _JOINING.search(text):
            return len(self._split(text)) // _BYTES
        return len(self._join(text.split())) // _BYTES

    def known(self, word: str) -> int:
        """How many tokens a word has that was split before; 0 for any other text."""
        return len(self._pieces.get(word, b"")) // _BYTES

    def _words(self, text: str, room: int) -> bytes:
        if _JOINING.search(text):
            return self._split(text)[: room * _BYTES]
        found = b""
        while text and len(found) < room * _BYTES:
            # A word has one piece or more; only a few odd characters have none.
            words = text.split(None, room)
            text = words.pop() if len(words) > room else ""
            found += self._join(words)
        return found[: room * _BYTES]

    def _join(self, words: Sequence[str]) -> bytes:
        pieces = self._pieces
        try:
            return b"".join([pieces[word] for word in words])
        except KeyError:
            return b"".join([pieces.get(word) or self._split(word) for word in words])

    def _split(self, word: str) -> bytes:
        packed = _packed(self._tokenizer.encode(word, add_special_tokens=False).ids)
        if len(word) <= _MAX_WORD:
            if len(self._pieces) >= _WORDS_KEPT:
                self._pieces = {}
            self._pieces[word] = packed
        return packed


def _packed(ids: Sequence[int]) -> bytes:
    return np.array(ids, np.int32).tobytes()


def splits_words(tokenizer: Tokenizer) -> bool:
    """Whether the tokenizer is one of BERT's, which treats each word by itself."""
    parts = json.loads(tokenizer.to_str())
    kinds = [(parts.get(part) or {}).get("type") for part in ("normalizer", "pre_tokenizer")]
    added = [one["content"] for one in parts.get("added_tokens", []) if not one.get("special")]
    return (
        kinds == ["BertNormalizer", "BertPreTokenizer"]
        and not added
        and (parts["model"].get("type") == "WordPiece")
    )


@dataclass(frozen=True, slots=True)
class TokenIds:
    """Token ids of several texts, one after the other."""

    ids: NDArray[np.int32]
    lengths: NDArray[np.int32]

    def padded(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The ids of these texts as a rectangle, and a mask that is 0 where it is padded."""
        lengths = self.lengths[rows]
        columns = np.arange(int(lengths.max(initial=1)))
        mask = columns < lengths[:, None]
        starts = (np.cumsum(self.lengths) - self.lengths)[rows]
        places = np.minimum(starts[:, None] + columns, max(0, len(self.ids) - 1))
        return np.where(mask, self.ids[places], 0).astype(np.int64), mask.astype(np.int64)


class TokenReader:
    """Turns texts into token ids, quickly for BERT's tokenizers.

    Parameters:
        tokenizer: as JSON, so that it can be sent to another process.
        max_tokens: where a text is cut, marks included.
    """

    def __init__(self, tokenizer: str, max_tokens: int) -> None:
        self._tokenizer = Tokenizer.from_str(tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._max_tokens = max_tokens
        self._pieces = WordPieces(self._tokenizer) if splits_words(self._tokenizer) else None
        if self._pieces is None:
            self._truncating = Tokenizer.from_str(self._tokenizer.to_str())
            self._truncating.enable_truncation(max_tokens)

    def encode(self, texts: Sequence[str]) -> TokenIds:
        """The ids of each text, cut at the limit, one after the other."""
        rows = self.rows(texts)
        lengths = np.array([len(row) for row in rows], np.int32)
        return TokenIds(np.concatenate([np.zeros(0, np.int32), *rows]), lengths)

    def rows(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """The ids of each text, cut at the limit."""
        clean = [strip_controls(text) for text in texts]
        if self._pieces is not None:
            return [self._pieces.encode(text, self._max_tokens) for text in clean]
        encoded = self._truncating.encode_batch_fast(clean)
        return [np.array(one.ids, np.int32) for one in encoded]

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has, without marks and without a limit."""
        if (pieces := self._pieces) is not None:
            # Most texts that are counted are single words, which are known.
            return [pieces.known(text) or pieces.count(strip_controls(text)) for text in texts]
        clean = [strip_controls(text) for text in texts]
        encoded = self._tokenizer.encode_batch_fast(clean, add_special_tokens=False)
        return [len(one.ids) for one in encoded]


class TokenProcesses:
    """Several processes that tokenize.

    They are started as programs of their own rather than by `multiprocessing`, which would run the
    user's script once more in each of them.

    Parameters:
        tokenizer: as JSON.
        max_tokens: where a text is cut, marks included.
        processes: how many to start.
    """

    def __init__(self, tokenizer: str, max_tokens: int, processes: int) -> None:
        self._setup = (tokenizer, max_tokens)
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="assay-tokenize")
        self._own = threading.local()
        self._started: list[subprocess.Popen[bytes]] = []

    def encode(self, texts: Sequence[str], texts_at_once: int) -> Iterator[TokenIds]:
        """Token ids in the order of the texts, `texts_at_once` of them at a time.

        At most three times as many are read ahead.
        """
        tasks_at_once = max(1, texts_at_once // _TEXTS_IN_A_TASK)
        starts = iter(range(0, len(texts), _TEXTS_IN_A_TASK))
        running: deque[Future[TokenIds]] = deque()
        ready: list[TokenIds] = []
        while True:
            while len(running) < 3 * tasks_at_once and (start := next(starts, None)) is not None:
                running.append(self._threads.submit(self._ask, texts, start))
            if not running:
                break
            ready.append(running.popleft().result())
            if len(ready) == tasks_at_once:
                yield _joined(ready)
                ready = []
        if ready:
            yield _joined(ready)

    def close(self) -> None:
        """End the processes."""
        for process in self._started:
            process.kill()  # a thread that waits for its answer ends as well
        self._threads.shutdown(cancel_futures=True)
        for process in self._started:
            with suppress(BrokenPipeError), process:  # closes the pipes and waits
                pass

    def _ask(self, texts: Sequence[str], start: int) -> TokenIds:
        process: subprocess.Popen[bytes] | None = getattr(self._own, "process", None)
        if process is None:
            process = self._own.process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _send(process.stdin, list(texts[start : start + _TEXTS_IN_A_TASK]))
            answer = _receive(process.stdout)
        except (OSError, EOFError) as error:
            raise SearchError(
                f"a process that tokenizes has ended ({error or type(error).__name__}); is there "
                "enough memory? ASSAY_THREADS sets how many of them are started"
            ) from None
        assert isinstance(answer, TokenIds)
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        here = str(Path.cwd())  # whose modules must not take the place of others
        packages = os.pathsep.join(path for path in sys.path if path not in ("", here))
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Its own table of words is quicker than the tokenizer's threads.
            env=os.environ | {"TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": packages},
        )
        self._started.append(process)
        assert process.stdin is not None
        _send(process.stdin, self._setup)
        return process


def work() -> None:
    """What such a process does: read texts from stdin, write token ids to stdout, to the end."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    try:
        reader = TokenReader(*_receive(source))
        while True:
            _send(target, reader.encode(_receive(source)))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return


def _send(stream: IO[bytes], value: object) -> None:
    content = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    stream.write(_SIZE.pack(len(content)) + content)
    stream.flush()


def _receive(stream: IO[bytes]) -> Any:
    head = stream.read(_SIZE.size)
    if len(head) < _SIZE.size:
        raise EOFError
    return pickle.loads(stream.read(_SIZE.unpack(head)[0]))


def _joined(parts: Sequence[TokenIds]) -> TokenIds:
    return TokenIds(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.lengths for part in parts]),
    )
