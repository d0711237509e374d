"""Prompts are files with a version, so that a run can say exactly what was asked.

Material from elsewhere (questions, documents, answers) goes into a prompt between marks that it
cannot close: they carry a code made from the material itself, and text that looks like a mark is
broken. What the model makes of it is the model's; that it can tell material from task is ours.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template

_HEADER = re.compile(r"version: (\d+)\n---\n")
_CODE_LENGTH = 8
_WORDS = ("question", "answer", "fact", "statement", "document")


@dataclass(frozen=True, slots=True)
class Prompt:
    name: str
    version: int
    template: str

    @property
    def id(self) -> str:
        """For the record of a run: the hash finds whoever edited and forgot the version."""
        digest = hashlib.sha256(self.template.encode()).hexdigest()[:_CODE_LENGTH]
        return f"{self.name}@{self.version}+{digest}"

    def fill(self, **values: str) -> str:
        """In one pass: a value that holds `$answer` stays as it is."""
        return Template(self.template).substitute(values)


@cache
def load_prompt(name: str) -> Prompt:
    written = (files("assay.answer") / "prompts" / f"{name}.txt").read_text(encoding="utf-8")
    header = _HEADER.match(written)
    if header is None:
        raise AssertionError(f"prompts/{name}.txt must begin with 'version: N' and '---'")
    return Prompt(name, int(header[1]), written[header.end() :].strip())


def mark_code(*material: str) -> str:
    """The same for the same material, and nothing that a writer of any part of it can foresee."""
    digest = hashlib.sha256("\x1f".join(material).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:_CODE_LENGTH]


def mark_opening(*words: str) -> re.Pattern[str]:
    """The `<` of whatever a reader could take for a mark of these words.

    Any number of blanks, slashes and signs that nobody sees may stand between. No `<` is among
    them and none is given back, so a text is read once, however many blanks it holds.
    """
    return re.compile(rf"<(?=[^\w<>]*+(?:{'|'.join(words)})\b)", re.IGNORECASE)


_MARK = mark_opening(*_WORDS)


def marked(kind: str, code: str, text: str) -> str:
    """The text between its marks, with everything that could pass for a mark broken."""
    return f"<{kind} {code}>\n{_MARK.sub('‹', text).strip()}\n</{kind} {code}>"
