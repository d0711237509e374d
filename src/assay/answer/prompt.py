"""Prompts: files with a version, and material between delimiters that it cannot close.

A run records exactly what was asked, by the ids of its prompts. Material from elsewhere (questions,
documents, answers) may say "ignore the question". It goes into a prompt between delimiters, and
text that looks like a delimiter is broken; the prompts of judges and writers use delimiters with a
code that is made from the material itself. So a model can tell
material from instructions; whether it does is up to the model.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template

from assay.answer.passages import Passage

ABSTAIN = "NOT FOUND"
"""What prompts/answer_question.txt asks for where the documents have no answer."""

_HEADER = re.compile(r"version: (\d+)\n---\n")
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
    """The prompt of `prompts/NAME.txt`."""
    written = (files("assay.answer") / "prompts" / f"{name}.txt").read_text(encoding="utf-8")
    header = _HEADER.match(written)
    if header is None:
        raise AssertionError(f"prompts/{name}.txt must begin with 'version: N' and '---'")
    return Prompt(name, int(header[1]), written[header.end() :].strip())


def delimiter_code(*material: str) -> str:
    """The same for the same material, and unpredictable for the author of any part of it."""
    digest = hashlib.sha256("\x1f".join(material).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:_CODE_LENGTH]


def delimited(kind: str, code: str, text: str) -> str:
    """The text between its delimiters, with everything that looks like one broken."""
    return f"<{kind} {code}>\n{_DELIMITER.sub('‹', text).strip()}\n</{kind} {code}>"


def _delimiter_pattern(*words: str) -> re.Pattern[str]:
    """Match the `<` of anything that could be read as one of these delimiters.

    Any number of blanks, slashes and invisible characters may be in between. No `<` is among them
    and the match is possessive, so a text is read once, however many blanks it has.
    """
    return re.compile(rf"<(?=[^\w<>]*+(?:{'|'.join(words)})\b)", re.IGNORECASE)


_DELIMITER = _delimiter_pattern("question", "answer", "fact", "statement", "document")
_DOCUMENT_DELIMITER = _delimiter_pattern("document", "question", "title")

_QUESTION = load_prompt("answer_question")
_SYSTEM = load_prompt("answer_system")
SYSTEM = _SYSTEM.template
"""The system prompt for a cited answer."""


def question_prompt(question: str, passages: Sequence[Passage]) -> str:
    """The prompt for a cited answer: documents and question first, the instructions last.

    The same text for the same input: an MCP client may be asked in two rounds that have to agree.
    """
    documents = "\n\n".join(_document(place, each) for place, each in enumerate(passages, 1))
    return _QUESTION.fill(documents=documents, question=_quoted(question))


def answer_prompts() -> dict[str, str]:
    """Names and ids of the prompts for an answer, for the record of a run."""
    return {prompt.name: prompt.id for prompt in (_SYSTEM, _QUESTION)}


def _document(place: int, passage: Passage) -> str:
    title = f"<title>{_quoted(passage.title)}</title>\n" if passage.title else ""
    return f'<document number="{place}">\n{title}{_quoted(passage.text)}\n</document>'


def _quoted(text: str) -> str:
    """Text without our own delimiters; everything else stays as it was written."""
    return _DOCUMENT_DELIMITER.sub("‹", text)
