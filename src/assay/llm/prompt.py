"""Prompts and replies: files with a version, delimited material, and citations that exist.

Material from elsewhere may say "ignore the question". It goes between delimiters, and what looks
like one in it is broken, so that a model can tell material from instructions.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template

from assay.llm.passages import EXTRACTIVE, Answer, Passage, not_found

ABSTAIN = "NOT FOUND"  # what prompts/answer_question.txt asks for without an answer
EMPTY_REPLY = "the model's reply was empty"
NO_CITATION = "the answer cites no source"
NO_MODEL = f"{EXTRACTIVE}:none"  # as `writer_origin` takes it
# 32 bits: an author of a document who tries to guess it has one try in each prompt.
_CODE_LENGTH = 8


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template from a file of the folder `prompts`."""

    name: str
    version: int
    template: str

    @property
    def id(self) -> str:
        """For the record of a run; the hash reveals an edit without a new version."""
        digest = hashlib.sha256(self.template.encode()).hexdigest()[:_CODE_LENGTH]
        return f"{self.name}@{self.version}+{digest}"

    def fill(self, **values: str) -> str:
        """The text with its values, in one pass: a value with `$answer` in it stays as it is."""
        return Template(self.template).substitute(values)


@cache
def load_prompt(name: str) -> Prompt:
    """The prompt of `prompts/NAME.txt`, which begins with `version: N` and `---`."""
    written = (files("assay.llm") / "prompts" / f"{name}.txt").read_text(encoding="utf-8")
    head, _, template = written.partition("\n---\n")
    return Prompt(name, int(head.removeprefix("version: ")), template.strip())


def writer_origin(name: str, prompts: Iterable[str], note: str) -> dict[str, str]:
    """Who wrote something, for its provenance: the provider (`KIND:MODEL`), prompts, and a note."""
    provider, _, model = name.partition(":")
    ids = ", ".join(load_prompt(each).id for each in prompts)
    return {"provider": provider, "model": model, "prompt": ids or "none", "note": note}


def delimiter_code(*material: str) -> str:
    """The same for the same material, and unpredictable for the author of any part of it."""
    digest = hashlib.sha256("\x1f".join(material).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:_CODE_LENGTH]


def delimited(kind: str, code: str, text: str) -> str:
    """The text between its delimiters, with everything that looks like one broken."""
    return f"<{kind} {code}>\n{_DELIMITER.sub('‹', text).strip()}\n</{kind} {code}>"


def numbered(kind: str, code: str, texts: Iterable[str]) -> str:
    """Texts of one kind with their numbers, from 1, each between its delimiters."""
    return "\n\n".join(
        f"{kind.capitalize()} {place}:\n{delimited(kind, code, text)}"
        for place, text in enumerate(texts, 1)
    )


# The `<` of anything that could be read as a delimiter, with any number of blanks, slashes and
# invisible characters in between. No `<` is among them and the match is possessive, so a text is
# read once, however many blanks it has.
_DELIMITER = re.compile(
    r"<(?=[^\w<>]*+(?:question|answer|fact|statement|document|title)\b)", re.IGNORECASE
)

SYSTEM = load_prompt("answer_system").template  # for a cited answer


def question_prompt(question: str, passages: Sequence[Passage]) -> str:
    """The prompt for a cited answer: documents and question first, the instructions last.

    The same text for the same input: an MCP client may be asked in two rounds that have to agree.
    """
    documents = []
    for place, passage in enumerate(passages, 1):
        title, text = (_DELIMITER.sub("‹", part) for part in (passage.title, passage.text))
        shown = f"<title>{title}</title>\n{text}" if title else text
        documents.append(f'<document number="{place}">\n{shown}\n</document>')
    return load_prompt("answer_question").fill(
        documents="\n\n".join(documents), question=_DELIMITER.sub("‹", question)
    )


# [1], [1, 3], [1-3], [doc 1], 【1】, [1][3] and [1], [3]: models write all of them. Adjacent ones
# are one marker. Blanks are bounded, because a text may have a million of them.
_GAP = r"\s{0,3}"
_PLACE = (
    rf"(?:(?:doc(?:ument)?|source|passage)s?[.:]?{_GAP})?(?:\d{{1,3}}{_GAP}[-–]{_GAP})?\d{{1,9}}"
)
_INSIDE = rf"{_GAP}{_PLACE}(?:{_GAP}[,;]{_GAP}{_PLACE})*{_GAP}"
_ONE = rf"(?:\[{_INSIDE}\]|【{_INSIDE}(?:†[^】\[]{{0,40}})?】)"
_MARKER = re.compile(rf"(\s?)({_ONE}(?:{_GAP}[,;]?{_GAP}{_ONE})*)", re.IGNORECASE)
# [note-7] and [d1, d2], ids of documents: letters first and a digit somewhere. The text of a link,
# [Python3](https://...), is a part of the sentence.
_ID = r"(?=[\w.:/#-]{0,80}\d)[^\W\d_][\w.:/#-]{0,80}"
_ID_MARKER = re.compile(rf"\s?[\[【]{_ID}(?:{_GAP}[,;]{_GAP}{_ID})*[\]】](?!\()")
# After † comes a name that the model chose, digits included.
_NUMBERS = re.compile(r"†[^】]*|(\d+)(?:\s*[-–]\s*(\d+))?")
_MAX_RANGE = 20
# Alone, with citations, or with a reason that cites nothing and does not continue with "but".
ABSTAINED = re.compile(
    rf"\W*{ABSTAIN}\b(?:\W*(?:{_ONE}\W*)*|\s*?(?:[^\w\s]|\n)(?:(?!\b(?:but|however)\b|[\[【]).)*)",
    re.IGNORECASE | re.DOTALL,
)


def read_generated(text: str, passages: int, *, model: str, stop_reason: str) -> Answer:
    """The answer in a model's reply to a prompt with so many `passages`.

    Citations of sources that do not exist are removed, with a warning.
    """
    if not any(map(str.isalnum, without_markers(text))):
        return not_found(model, EMPTY_REPLY)
    if ABSTAINED.fullmatch(text):
        return not_found(model)
    cited: list[int] = []
    invented: set[int] = set()

    def keep(match: re.Match[str]) -> str:
        numbers = _numbers(match)
        real = [number for number in numbers if 1 <= number <= passages]
        cited.extend(real)
        invented.update(set(numbers) - set(real))
        return match[1] + "".join(f"[{number}]" for number in real) if real else ""

    cleaned = _MARKER.sub(keep, text).strip()
    warnings = [] if cited else [NO_CITATION]
    if invented:
        names = ", ".join(f"[{number}]" for number in sorted(invented))
        warnings.insert(0, f"citations of sources that do not exist were removed: {names}")
    places = tuple(dict.fromkeys(cited))
    return Answer(cleaned, places, model, stop_reason, warnings=tuple(warnings))


_LISTED = re.compile(
    r"^\W{0,8}(?:sources?|references?|citations?)\b[\s\S]*|^\[\^\w{1,20}\]:.*",
    re.IGNORECASE | re.MULTILINE,
)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]{1,300}`", re.DOTALL)


def cited_marks(text: str, shown: Sequence[str], named: Mapping[str, str]) -> dict[str, str]:
    """The citation marks of a text, code left out, with their documents: "" for an unknown number.

    Numbers are places among the documents `shown` if all of them can be; else they are names, if
    any of them is one. A name is a mark in brackets, in quotes, set off by commas, in a footnote
    or in the list of sources.
    """
    prose = _CODE.sub(" ", text)
    places = dict.fromkeys(n for each in _MARKER.finditer(prose) for n in _numbers(each))
    fit = all(1 <= place <= len(shown) for place in places)
    if fit or not any(str(place) in named for place in places):
        marks = {str(n): shown[n - 1] if 1 <= n <= len(shown) else "" for n in places}
    else:
        marks = {str(n): named.get(str(n), "") for n in places}
    listed = "\n".join(match[0] for match in _LISTED.finditer(prose))
    for name, doc_id in named.items():
        # Numbers were read; "007" is another name than "7".
        if name not in prose or (name.isdigit() and (name[0] != "0" or fit)):
            continue
        said = re.escape(name)
        if re.search(rf"[\[【(“\"*_,;]\s?{said}\s?[\]】)”\"*_,;]", prose) or re.search(
            rf"(?<![\w-]){said}(?![\w-])", listed
        ):
            marks[name] = doc_id
    return marks


def _numbers(marker: re.Match[str]) -> list[int]:
    """`3`, or all of `1-3`; for an invalid range, such as `3-1` or `1-900`, both ends."""
    found: list[int] = []
    for numbers in _NUMBERS.finditer(marker[2]):
        ends = [int(number) for number in numbers.groups() if number]
        is_range = len(ends) == 2 and 0 < ends[1] - ends[0] <= _MAX_RANGE
        found += range(ends[0], ends[1] + 1) if is_range else ends
    return found


def without_markers(text: str) -> str:
    """The text without citation markers: places, as in `[2]`, and ids, as in `[note-7]`."""
    return _ID_MARKER.sub("", _MARKER.sub("", text))
