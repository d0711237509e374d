"""The searches that an agent makes for one question, what it used, and `steps.jsonl`, their file.

    step = SearchStep(tool="search", query="sleep and diet", doc_ids=("MED-10", "MED-7"))
    for step in StepLog(folder / "steps.jsonl").read("PLAIN-12"): ...

A line of the file is one search: query_id, trial (0 without --repeat), t (from 1), source, tool,
query, ids, scores, ms, bytes, tokens. The searches of one question are written in one piece, before
its call; if a question is asked again after a kill, its last piece counts.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import orjson

from assay.errors import RunError
from assay.files import complete_lines, open_file
from assay.net.json import JsonObject, parse_json, parse_object

# How a search was attributed to its question; `reported` is the agent's own account.
SearchSource = Literal["token", "traceparent", "one at a time", "reported"]
MAX_STEPS = 1000  # searches of one question that are kept; the recorder refuses more
_BYTES_PER_TOKEN = 4  # an estimate for English: the tokenizer of the agent's model is unknown


@dataclass(frozen=True, slots=True)
class SearchStep:
    """One search: what was asked, and which documents were shown, best first.

    `bytes` is the size of what was shown, `tokens` the estimate of it; 0 if only ids are known.
    `failed` is whether the tool gave no answer, which is not the same as none found.
    """

    tool: str
    query: str
    doc_ids: tuple[str, ...]
    scores: tuple[float, ...] = ()
    ms: float | None = None
    bytes: int = 0
    source: SearchSource = "reported"
    failed: bool = False

    @property
    def tokens(self) -> int:
        """About how many tokens the agent's model had to read."""
        return -(-self.bytes // _BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class AnswerUsage:
    """What an agent says that one answer took."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None

    def to_json(self) -> dict[str, int | float]:
        """The figures that the agent gave."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def served_line(step: SearchStep, traceparent: str) -> bytes:
    """A line of the file of `assay serve mcp --record`: a search that knows no question."""
    record = {"traceparent": traceparent, **_record(step)}
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def read_served(content: bytes) -> Iterator[tuple[str, SearchStep]]:
    """The searches in lines of such a file, each with its trace."""
    for line in content.splitlines():
        record = parse_object(line) or {}
        yield str(record.get("traceparent", "")), _read_step(record)


def trace_id_of(traceparent: str) -> str:
    """The id of a W3C trace, `00-TRACE-SPAN-01`; empty for anything else."""
    parts = traceparent.split("-")
    return parts[1] if len(parts) == 4 else ""


def step_lines(query_id: str, trial: int, steps: Iterable[SearchStep]) -> bytes:
    """The lines of `steps.jsonl` for one question."""
    records = (
        {"query_id": query_id, "trial": trial, "t": t, "source": step.source, **_record(step)}
        for t, step in enumerate(steps, start=1)
    )
    return b"".join(orjson.dumps(each, option=orjson.OPT_APPEND_NEWLINE) for each in records)


def _record(step: SearchStep) -> JsonObject:
    record: JsonObject = {
        "tool": step.tool,
        "query": step.query,
        "ids": step.doc_ids,
        "scores": step.scores,
        "ms": step.ms,
        "bytes": step.bytes,
        "tokens": step.tokens,
    }
    return record | ({"failed": True} if step.failed else {})


class StepLog:
    """Reads the searches of a question when they are asked for; only offsets are held."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pieces: dict[tuple[str, int], tuple[int, int]] = {}
        if not path.exists():
            return
        for number, (end, line) in enumerate(complete_lines(path), start=1):
            try:
                record = parse_json(line)
                key, t = (str(record["query_id"]), int(record["trial"])), int(record["t"])
            except (KeyError, TypeError, ValueError):
                raise RunError(f"{path}:{number}: not a search record; delete that line") from None
            offset, count = self._pieces.get(key, (0, 0))
            # A piece begins with t = 1: one that follows is of a later attempt, and replaces it.
            self._pieces[key] = (end - len(line), 1) if t == 1 else (offset, count + 1)

    def read(self, query_id: str, trial: int = 0) -> tuple[SearchStep, ...]:
        """The searches of the last attempt at a question, in order."""
        offset, count = self._pieces.get((query_id, trial), (0, 0))
        if not count:
            return ()
        with open_file(self._path) as lines:
            lines.seek(offset)
            return tuple(_read_step(parse_json(lines.readline())) for _ in range(count))


def _read_step(record: JsonObject) -> SearchStep:
    return SearchStep(
        tool=str(record.get("tool", "")),
        query=str(record.get("query", "")),
        doc_ids=tuple(map(str, record.get("ids") or ())),
        scores=tuple(map(float, record.get("scores") or ())),
        ms=record.get("ms"),
        bytes=int(record.get("bytes") or 0),
        source=record.get("source", "reported"),
        failed=record.get("failed") is True,
    )
