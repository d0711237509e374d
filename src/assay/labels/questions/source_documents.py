"""The documents that questions are made of: read from files, and their sentences with quantities,
dates and names.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from assay.data.dataset import Document
from assay.data.text_file import Findings, Record, plain_file, read_by_id
from assay.data.trec_corpus import title_and_text
from assay.errors import DataError
from assay.files import read_text_file
from assay.llm.answerer import is_instruction
from assay.llm.prompt import without_markers
from assay.text import sentences, words

_PAGES = (".html", ".htm")
_KINDS = (".md", ".txt", *_PAGES)
_MAX_BYTES = 2 * 2**20
# A hard-wrapped line: a long one, with plain text on the next.
_WRAPPED_LINE = re.compile(r"(?<=[^\n]{60})\n(?=[^\s#>|*+-])")
_FORMS = "a data set, a corpus.jsonl, or a folder of .md, .txt and .html files"


def is_dataset(path: Path) -> bool:
    """Whether the path has questions too, so that it is read as a data set."""
    inside = path.is_dir() and next(path.glob("**/queries.jsonl*"), None) is not None
    return inside or path.suffix.lower() == ".zip"


def read_source_documents(path: Path) -> dict[str, Document]:
    """The documents of a corpus.jsonl or of a folder of text files, by id."""
    if not path.exists():
        raise DataError(f"does not exist; pass {_FORMS}", file=path)
    corpus = path / "corpus.jsonl" if path.is_dir() else path
    if corpus.is_file() and corpus.suffix == ".jsonl":
        return read_by_id(plain_file(corpus), "_id", _document, Findings())
    if not path.is_dir():
        raise DataError(f"has no readable documents; pass {_FORMS}", file=path)
    documents = {document.id: document for document in _notes(path)}
    if not documents:
        raise DataError(f"has no documents; pass {_FORMS}", file=path)
    return documents


def _document(record: Record, identifier: str) -> Document:
    return Document(identifier, record.text("title"), record.text("text"))


def _notes(folder: Path) -> Iterator[Document]:
    """The id is the path within the folder. Hidden files and folders are skipped."""
    for path in _files(folder):
        if path.suffix.lower() in _KINDS:
            content = _content(path)
            page = path.suffix.lower() in _PAGES
            title, text = title_and_text(content) if page else _title_and_text(content, path.stem)
            yield Document(path.relative_to(folder).as_posix(), title or path.stem, text)


def files_left_out(folder: Path) -> Counter[str]:
    """How many files of a folder of documents are of a kind that is not read, by suffix."""
    if not folder.is_dir() or (folder / "corpus.jsonl").is_file():
        return Counter()
    suffixes = (path.suffix.lower() for path in _files(folder))
    return Counter(each or "without a suffix" for each in suffixes if each not in _KINDS)


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and path.is_file():
            yield path


def _content(path: Path) -> str:
    if path.stat().st_size > _MAX_BYTES:
        raise DataError(f"is larger than {_MAX_BYTES // 2**20} MiB; split it", file=path)
    try:
        return _WRAPPED_LINE.sub(" ", read_text_file(path, encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read as UTF-8 text: {error}", file=path) from None


def _title_and_text(content: str, name: str) -> tuple[str, str]:
    """A heading of Markdown on the first line is the title, else the file's name is."""
    first, _, rest = content.lstrip().partition("\n")
    if first.startswith("# "):
        return first[2:].strip(), rest.strip()
    return name, content.strip()


_QUOTED = str.maketrans("’‘“”–—", "''\"\"--")
BLANK = "____"
"""What stands for the part of a sentence that is asked for."""

_WORDS = range(5, 41)
# No question, no row of a table, no code; and no half of a line that an editor broke.
_SENTENCE = re.compile(r"[^a-z|`{}<>=\\][^|`{}<>=\\]*[^?|`{}<>=\\]")
_UNITS = (
    "minutes?|min|hours?|h|seconds?|days?|weeks?|months?|years?|euros?|eur|dollars?|percent|%|km|"
    "kilometers?|meters?|m|cm|mm|kg|g|grams?|mg|liters?|l|ml|people|members|pages|pieces|points|"
    "degrees|kWh|kW|W|MB|GB"
)
_QUANTITY = re.compile(
    r"(?<![\w.,:/+–-])(?P<number>\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?) ?"
    rf"(?P<unit>{_UNITS})(?![\w/²³-])"
)
_ONE_UNIT = {
    "minute": "min", "minutes": "min", "hour": "h", "hours": "h", "euro": "euros", "eur": "euros",
    "percent": "%", "kilometer": "km", "kilometers": "km", "meter": "m", "meters": "m",
    "gram": "g", "grams": "g", "liter": "l", "liters": "l",
}  # fmt: skip
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_MONTH = "|".join(_MONTHS)
_DATE = re.compile(
    rf"\b(?P<day>\d{{1,2}})\.? (?P<month>{_MONTH}),? (?P<year>(?:19|20)\d\d)\b"
    rf"|\b(?P<month2>{_MONTH}) (?P<day2>\d{{1,2}}),? (?P<year2>(?:19|20)\d\d)\b"
    r"|\b(?P<iso>(?:19|20)\d\d-\d\d-\d\d)\b"
)
_NAME = re.compile(r"(?<=[a-zäöüß,;] )[A-ZÀ-Þ][\w-]{2,}(?: [A-ZÀ-Þ][\w-]{2,})*")
_NO_NAMES = frozenset(
    (*_MONTHS, "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
)


@dataclass(frozen=True, slots=True)
class MeasuredPart:
    """A number with a unit; `text` as it is in the sentence, `unit` in one spelling."""

    text: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class SourceSentence:
    """One sentence of a document that says something, with its parts."""

    document: Document
    text: str
    quantities: tuple[MeasuredPart, ...]
    dates: tuple[tuple[str, date], ...]
    names: tuple[str, ...]

    @property
    def document_id(self) -> str:
        """The id of its document."""
        return self.document.id

    def without(self, part: str) -> str:
        """The sentence with a gap in place of the part."""
        return self.text.replace(part, BLANK)


def quoted_in(quote: str, document: Document) -> bool:
    """Word for word: only white space, case and the style of quotation marks may differ."""
    return _plain(quote) in _plain(f"{document.title}\n{document.text}")


def _plain(text: str) -> str:
    return " ".join(text.translate(_QUOTED).casefold().split())


def plain_sentences(document: Document, lengths: range) -> list[str]:
    """The sentences of a document in prose, with so many words, each once."""
    return [
        sentence
        for sentence in dict.fromkeys(sentences(without_markers(document.text)))
        if _SENTENCE.fullmatch(sentence) and len(sentence.split()) in lengths
        if not is_instruction(sentence)
    ]


def sentences_of(document: Document) -> Iterator[SourceSentence]:
    """The sentences of a document that a question can be made of."""
    for sentence in plain_sentences(document, _WORDS):
        yield read_sentence(document, sentence)


def read_sentence(document: Document, sentence: str) -> SourceSentence:
    """A sentence with its parts; only such as occur once in it, so that a gap is unique."""
    quantities = [
        MeasuredPart(found[0], float(found["number"].replace(",", "")), _unit(found["unit"]))
        for found in _QUANTITY.finditer(sentence)
    ]
    dates = [(found[0], day) for found in _DATE.finditer(sentence) if (day := _date(found))]
    names = [
        found
        for found in dict.fromkeys(_NAME.findall(sentence))
        if found.split()[0] not in _NO_NAMES and found.rstrip("s") not in _NO_NAMES
    ]
    return SourceSentence(
        document,
        sentence,
        tuple(each for each in quantities if sentence.count(each.text) == 1),
        tuple(each for each in dates if sentence.count(each[0]) == 1),
        tuple(each for each in names if sentence.count(each) == 1),
    )


_SPELLINGS = {
    "euros": ("€", "euro", "euros", "eur", "cent", "cents"), "%": ("%", "percent", "per"),
    "km": ("km", "kilometer", "kilometers", "kilometre", "kilometres"),
    "m": ("m", "meter", "meters", "metre", "metres"), "min": ("min", "minute", "minutes"),
    "h": ("h", "hour", "hours", "hr", "hrs"), "g": ("g", "gram", "grams"),
    "l": ("l", "liter", "liters", "litre", "litres"),
}  # fmt: skip


def mentions_unit(document: Document, unit: str) -> bool:
    """Whether a document has a unit in any spelling, be it beside a number or not: "one euro"."""
    spellings = _SPELLINGS.get(unit, (unit, unit.removesuffix("s"), f"{unit}s"))
    text = document.full_text
    held = set(words(text))
    return any(each.lower() in held or (not each.isalpha() and each in text) for each in spellings)


def _unit(text: str) -> str:
    return _ONE_UNIT.get(text, text)


def _date(found: re.Match[str]) -> date | None:
    parts: Mapping[str, str | None] = found.groupdict()
    if parts["iso"]:
        year, month, day = map(int, parts["iso"].split("-"))
    else:
        year = int(parts["year"] or parts["year2"] or 0)
        month = _MONTHS.index(parts["month"] or parts["month2"] or "") + 1
        day = int(parts["day"] or parts["day2"] or 0)
    try:
        return date(year, month, day)
    except ValueError:
        return None
