"""`judge.jsonl` of a run: what the judge was asked about each answer, and what it replied.

A private run has no such file: prompts quote questions, answers and documents.
"""

from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from assay.errors import RunError
from assay.files import read_lines
from assay.metrics.answer_values import JudgeCall

FILE = "judge.jsonl"
MAX_PROMPT = 8_000
MAX_REPLY = 2_000
MAX_CALLS = 100_000
_CUT = " [cut]"


class JudgeLog:
    """Appends a line for each call; starts over an earlier file of the same run."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._path.unlink(missing_ok=True)
        self._calls = 0

    def add(self, call: JudgeCall) -> None:
        """Keep a call about an answer; controls belong to no answer and are not kept."""
        if not call.query_id or self._calls >= MAX_CALLS:
            return
        self._calls += 1
        reply = None if call.reply is None else _cut(call.reply, MAX_REPLY)
        kept = call.model_copy(update={"prompt": _cut(call.prompt, MAX_PROMPT), "reply": reply})
        with self._path.open("ab") as file:
            file.write(kept.model_dump_json().encode() + b"\n")


def _cut(text: str, limit: int) -> str:
    # A lone surrogate of an agent's answer is not UTF-8, which JSON must be.
    kept = text if len(text) <= limit else text[: limit - len(_CUT)] + _CUT
    return kept.encode("utf-8", "replace").decode("utf-8")


def read_judge_calls(folder: Path, query_id: str) -> Iterator[JudgeCall]:
    """The calls about one answer, in the order in which they were answered."""
    path = folder / FILE
    if not path.exists():
        return
    for number, line in enumerate(read_lines(path), start=1):
        try:
            call = JudgeCall.model_validate_json(line)
        except ValidationError:
            raise RunError(f"{path}:{number}: not a call of the judge; delete that line") from None
        if call.query_id == query_id:
            yield call
