"""TREC collections: topics, and documents in `<DOC>` blocks (trectext, trecweb), JSON lines as
Anserini and Pyserini read them, tables, and MS MARCO's `collection.tsv`; a file or a folder.
"""

import html
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from assay.data.collection import DOC_IDS, TEXTS, read_documents
from assay.data.dataset import Dataset, Document, Query
from assay.data.qrels import judged_by_model, read_judgments
from assay.data.table import SUFFIXES, table_suffix
from assay.data.text_file import Findings, TextFile, files_below, plain_file, short_repr
from assay.errors import DataError

MAX_FILES = 100_000
MAX_BLOCK = 16 * 2**20
"""Characters of one document: one that is never closed must not fill the memory."""

_TITLES = ("title", "headline", "head", "ti", "hl")
_BODIES = ("text", "body", "leadpara", "lp", "summary", "abstract", "description", "graphic")
# Found in the text as it is: folded, ß and İ are two characters, and places would not be the same.
_DOC_BEGIN = re.compile(r"<doc>", re.IGNORECASE | re.ASCII)
_DOC_END = re.compile(r"</doc>", re.IGNORECASE | re.ASCII)
_COMMENT = re.compile(r"<!--[^<>]{0,10000}-->")
_TAG = re.compile(r"<[^<>]{0,2000}>")
_BLOCK_END = re.compile(
    r"</(?:p|h[1-6]|li|tr|div|dt|dd|section|article|blockquote|pre|title)\s*>|<br\s*/?>", re.I
)
_COLUMNS = ("doc_id", "text")
_FORMS = f"<DOC> blocks, or a table ({', '.join(SUFFIXES)})"
_TOPIC_FORMS = "<top> blocks, or an id, a tab and a text on each line"


def read_corpus(path: Path, findings: Findings | None = None) -> dict[str, Document]:
    """Documents by id from a file or from every file of a folder; `.gz` is decompressed.

    Raises:
        DataError: a document is wrong, or the format is unknown; the message names the line.
    """
    findings = Findings() if findings is None else findings
    found: dict[str, Document] = {}
    for each in _files(path):
        for doc_id, document in _read(each, findings).items():
            if found.setdefault(doc_id, document) is not document:
                raise DataError(f"document id {doc_id!r} is already in another file", file=each)
    if not found:
        raise DataError(f"has no documents; pass {_FORMS}", file=path)
    return found


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise DataError("does not exist", file=path)
    return files_below(path, MAX_FILES) if path.is_dir() else [path]


def _read(path: Path, findings: Findings) -> dict[str, Document]:
    if path.suffix == ".parquet":
        return read_documents([path], findings)
    file = plain_file(path)
    first = next(file.lines(), None)
    if first is None:
        findings.note("files without a document", repr(path.name))
        return {}
    start = first[1].lstrip()
    if start.startswith("<"):
        return _read_blocks(file, findings)
    if table_suffix(path) in (".csv", ".tsv") and not _is_header(start):
        return read_documents([path], findings, _COLUMNS)
    if table_suffix(path) in SUFFIXES:
        return read_documents([path], findings)
    raise DataError(
        f"is not a corpus: expected {_FORMS}, got {short_repr(start)}",
        file=path,
        line=first[0],
    )


def _is_header(line: str) -> bool:
    words = {word.strip(" \"'").casefold().replace("-", "_") for word in re.split(r"[\t,;]", line)}
    return bool(words & {*DOC_IDS, *TEXTS})


def _read_blocks(file: TextFile, findings: Findings) -> dict[str, Document]:
    documents: dict[str, Document] = {}
    for line, block in _blocks(file):
        try:
            document = _document(file, line, block)
            if documents.setdefault(document.id, document) is not document:
                raise DataError(
                    f"document {document.id!r} occurs twice; delete one of the two",
                    file=file.label,
                    line=line,
                )
        except DataError as error:
            findings.refuse(error)
            continue
        if not document.full_text:
            findings.note(f"{file.name}: documents with neither title nor text", repr(document.id))
    return documents


def _blocks(file: TextFile) -> Iterator[tuple[int, str]]:
    """First line and content of each `<DOC>`; what is between two of them is no document."""
    block: list[str] = []
    start = size = 0
    for line, text in file.lines():
        place = 0
        while start or (begin := _DOC_BEGIN.search(text, place)):
            if not start and begin:
                start, size, block, place = line, 0, [], begin.end()
            end = _DOC_END.search(text, place)
            block.append(text[place : end.start() if end else None])
            size += len(block[-1])
            if size > MAX_BLOCK:
                raise _unclosed(file, start, f"within {MAX_BLOCK // 2**20} million characters")
            if not end:
                break
            yield start, "\n".join(block)
            start, place = 0, end.end()
    if start:
        raise _unclosed(file, start, "before the file ends")


def _unclosed(file: TextFile, line: int, where: str) -> DataError:
    return DataError(
        f"this document is not closed by </DOC> {where}; is the file complete?",
        file=file.label,
        line=line,
    )


def _document(file: TextFile, line: int, block: str) -> Document:
    numbers = _spans(block, ("docno",))
    doc_id = _plain(block[numbers[0].start : numbers[0].end]) if numbers else ""
    if not doc_id:
        raise DataError("this document has no <DOCNO>", file=file.label, line=line)
    rest = _without(block, ("docno", "dochdr", "script", "style"))
    title = _elements(rest, _TITLES[:1]) or _elements(rest, _TITLES[1:])
    text = _elements(rest, _BODIES) or _plain(_without(rest, _TITLES))
    return Document(doc_id, title, text)


class _Span(NamedTuple):
    """An element of a block: where it begins, where its content does, and both ends."""

    opening: int
    start: int
    end: int
    closing: int


def _spans(block: str, names: Sequence[str]) -> list[_Span]:
    """The elements of these names in order, of nested ones the outermost.

    Markup of the web may open a million elements and close none: each name is searched for once.
    """
    found: list[_Span] = []
    for name in names:
        opening = re.compile(rf"<{name}(?:\s[^<>]{{0,2000}})?>", re.IGNORECASE | re.ASCII)
        ending, position = re.compile(rf"</{name}", re.IGNORECASE | re.ASCII), 0
        while (begin := opening.search(block, position)) is not None:
            end = ending.search(block, begin.end())
            closing = block.find(">", end.end()) + 1 if end else 0
            if end is None or not closing:
                break
            found.append(_Span(begin.start(), begin.end(), end.start(), closing))
            position = closing
    outermost: list[_Span] = []
    for span in sorted(found):
        if not outermost or span.opening >= outermost[-1].closing:
            outermost.append(span)
    return outermost


def _elements(block: str, names: Sequence[str]) -> str:
    parts = (_plain(block[span.start : span.end]) for span in _spans(block, names))
    return " ".join(filter(None, parts))


def _without(block: str, names: Sequence[str]) -> str:
    parts, position = list[str](), 0
    for span in _spans(block, names):
        parts.append(block[position : span.opening])
        position = span.closing
    return " ".join([*parts, block[position:]])


def title_and_text(page: str) -> tuple[str, str]:
    """Title and text of an HTML page, with a line for each paragraph, heading, item and row."""
    shown = _without(page, ("head", "script", "style", "template"))
    lines = filter(None, map(_plain, _BLOCK_END.split(shown)))
    return _elements(page, ("title",)), "\n".join(lines)


def _plain(content: str) -> str:
    return " ".join(html.unescape(_TAG.sub(" ", _COMMENT.sub(" ", content))).split())


_BEGIN = re.compile(r"<(?:top|topic)(?:\s[^>]{0,1000})?>", re.IGNORECASE)
_END = re.compile(r"</(?:top|topic)>", re.IGNORECASE)
_NUMBER = re.compile(r"""number\s?=\s?["']?([^"'>\s]+)""", re.IGNORECASE)
_NUM = re.compile(r"<num>\s*+(?:Number:\s*+)?([^\s<]+)", re.IGNORECASE)
# Of the older topics no field is closed: a text ends where the next tag begins.
_TEXT = re.compile(r"<(?:title|query)>\s*(?:Topic:)?([^<]*)", re.IGNORECASE)
_MAX_BLOCK = 10_000  # lines


def read_trec(topics: Path, qrels: Path) -> Dataset:
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
        raise DataError(f"has no topics; pass {_TOPIC_FORMS}", file=topics)
    judgments = read_judgments(plain_file(qrels), findings)
    for query_id in [each for each in judgments if each not in queries]:
        what = f"{qrels.name}: judgments dropped, because their topic is not in {topics.name}"
        findings.note(what, f"topic {query_id!r}", count=len(judgments.pop(query_id)))
    made = judged_by_model(qrels)
    return Dataset(topics.stem, {}, queries, {"test": judgments}, {}, findings.messages, made)


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
                    f"is not a topic: write {_TOPIC_FORMS}",
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
