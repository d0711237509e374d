"""TREC topics with their qrels: queries in `<top>` blocks, in XML, or as `id <tab> text`."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

from assay.data.dataset import Dataset, Query
from assay.data.qrels import judged_by_model, read_judgments
from assay.data.text_file import Findings, TextFile, plain_file
from assay.errors import DataError

_BEGIN = re.compile(r"<(?:top|topic)(?:\s[^>]{0,1000})?>", re.IGNORECASE)
_END = re.compile(r"</(?:top|topic)>", re.IGNORECASE)
_NUMBER = re.compile(r"""number\s?=\s?["']?([^"'>\s]+)""", re.IGNORECASE)
_NUM = re.compile(r"<num>\s*(?:Number:)?\s*([^\s<]+)", re.IGNORECASE)
# Of the older topics no field is closed: a text ends where the next tag begins.
_TEXT = re.compile(r"<(?:title|query)>\s*(?:Topic:)?([^<]*)", re.IGNORECASE)
_MAX_BLOCK = 10_000  # lines


def read_trec(topics: Path, qrels: Path, split: str = "test") -> Dataset:
    """Queries and judgments of a TREC collection, without its documents.

    Raises:
        DataError: a topic or a judgment is wrong; the message names its line.
    """
    findings = Findings()
    file = plain_file(topics)
    queries: dict[str, Query] = {}
    for line, query_id, text in _topics(file):
        if not text:
            raise DataError(f"topic {query_id!r} has no text", file=file.label, line=line)
        if query_id in queries:
            raise DataError(
                f"topic {query_id!r} occurs twice; delete one of the two",
                file=file.label,
                line=line,
            )
        queries[query_id] = Query(query_id, text)
    if not queries:
        raise DataError("has no topics", file=topics)
    judgments = read_judgments(plain_file(qrels), findings)
    for query_id in [each for each in judgments if each not in queries]:
        what = f"{qrels.name}: judgments dropped, because their topic is not in {topics.name}"
        findings.note(what, f"topic {query_id!r}", count=len(judgments.pop(query_id)))
    made = judged_by_model(qrels)
    return Dataset(topics.stem, {}, queries, {split: judgments}, {}, findings.messages, made)


def _topics(file: TextFile) -> Iterator[tuple[int, str, str]]:
    """Line, id and text of each topic."""
    block: list[str] = []
    start, plain = 0, None
    for line, text in file.lines():
        if plain is None:
            plain = not text.lstrip().startswith("<")
        if plain:
            query_id, tab, words = text.partition("\t")
            if not tab:
                raise DataError(
                    "is no topic: write <top> blocks, or an id, a tab and a text",
                    file=file.label,
                    line=line,
                )
            yield line, query_id.strip(), words.strip()
            continue
        if not block and _BEGIN.search(text):
            block, start = [text], line
        elif block:
            block.append(text)
        if block and (_END.search(text) or len(block) > _MAX_BLOCK):
            yield start, *_fields(file, start, "\n".join(block))
            block = []
    if block:
        raise DataError("this topic is not closed by </top>", file=file.label, line=start)


def _fields(file: TextFile, line: int, block: str) -> tuple[str, str]:
    begin = _BEGIN.search(block)
    number = _NUM.search(block) or _NUMBER.search(begin[0] if begin else "")
    if number is None:
        raise DataError("this topic has no <num>", file=file.label, line=line)
    text = _TEXT.search(block)
    return html.unescape(number[1]), " ".join(html.unescape(text[1]).split()) if text else ""
