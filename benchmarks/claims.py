"""Claims with known labels: sentences of `notes` with one change, and SciFact's."""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from assay.answers.contradiction.sentence import opposite_words
from assay.data.load import load_dataset
from assay.data.text_file import Record, TextFile, archive_files, plain_file, records, short_repr
from assay.errors import DataError
from assay.text import sentences

SUPPORTED, CONTRADICTED = "supported", "contradicted"


@dataclass(frozen=True, slots=True)
class LabeledClaim:
    """A claim, its sources, and whether they support it.

    `label` is `supported`, `contradicted`, `unrelated`, or `unsupported` where the set does not say
    which. Claims of one `group` share a source and belong on one side of a split. `kind` says
    what was changed, where a rule made the claim.
    """

    claim: str
    sources: tuple[str, ...]
    label: str
    group: str
    kind: str = ""

    @property
    def supported(self) -> bool:
        """Whether the sources support the claim."""
        return self.label == SUPPORTED


def notes_claims() -> list[LabeledClaim]:
    """For each change that a sentence of a reference answer of `notes` allows: the sentence and
    what the change makes of it.
    """
    notes = load_dataset("notes")
    names = names_in([each.text for each in notes.documents.values()])
    rng = random.Random(0)
    claims: list[LabeledClaim] = []
    for reference in notes.answers.values():
        sources = tuple(
            text
            for doc_id in reference.documents
            for text in (notes.documents[doc_id].title, notes.documents[doc_id].text)
        )
        for sentence in sentences(reference.answer or ""):
            for kind in KINDS:
                changed = contradict(sentence, rng, (kind,), names)
                if changed is not None:
                    group = reference.query_id
                    claims.append(LabeledClaim(sentence, sources, SUPPORTED, group, kind))
                    claims.append(LabeledClaim(changed[0], sources, CONTRADICTED, group, kind))
    return claims


def scifact_claims(path: Path) -> list[LabeledClaim]:
    """SciFact's claims with their labels, from BEIR's archive or its unpacked folder."""
    files = _beir_files(path)
    documents = {record.identifier("_id"): record for record in records(files["corpus.jsonl"])}
    claims = []
    for record in records(files["queries.jsonl"]):
        labels: Any = record.fields.get("metadata") or {}
        for doc_id, evidence in labels.items() if isinstance(labels, dict) else ():
            if doc_id not in documents:
                continue
            document = documents[doc_id]
            label = _scifact_label(record, evidence)
            sources = (document.text("title"), document.text("text"))
            claims.append(LabeledClaim(record.text("text"), sources, label, doc_id))
    if not claims:
        raise DataError("has no claim with a label in queries.jsonl", file=path)
    return claims


def _scifact_label(record: Record, evidence: Any) -> str:
    """The label of a claim's evidence in one document, which is that of its first sentences."""
    first = evidence[0] if isinstance(evidence, list) and evidence else None
    label = first.get("label") if isinstance(first, dict) else None
    if not isinstance(label, str):
        raise record.refusal(
            "the evidence under 'metadata' must be a list of objects with a 'label', got "
            f"{short_repr(evidence)}"
        )
    return CONTRADICTED if label == "CONTRADICT" else SUPPORTED


def _beir_files(path: Path) -> dict[str, TextFile]:
    names = ("corpus.jsonl", "queries.jsonl")
    if path.is_dir():
        return {name: plain_file(path / name) for name in names}
    files = {name.partition("/")[2]: file for name, file in archive_files(path).items()}
    for name in names:
        if name not in files:
            raise DataError(f"has no {name}", file=path)
    return files


_IRREGULAR = {
    "rise": ("rises", "rose", "rising"),
    "fall": ("falls", "fell", "falling"),
    "grow": ("grows", "grew", "growing"),
    "shrink": ("shrinks", "shrank", "shrinking"),
    "begin": ("begins", "began", "beginning"),
    "win": ("wins", "won", "winning"),
    "lose": ("loses", "lost", "losing"),
    "leave": ("leaves", "left", "leaving"),
    "buy": ("buys", "bought", "buying"),
    "sell": ("sells", "sold", "selling"),
    "stop": ("stops", "stopped", "stopping"),
    "forbid": ("forbids", "forbade", "forbidding"),
}
_VERB_LIST = """
    increase decrease promote inhibit enhance impair activate suppress induce improve worsen
    raise lower elevate reduce stimulate upregulate downregulate accelerate facilitate hinder
    strengthen weaken expand shrink cause prevent extend shorten support oppose enable disable
    protect harm repress allow forbid maintain disrupt rise fall grow succeed fail accept reject
    approve open close begin end start stop win lose gain add remove include exclude arrive
    leave pass buy sell import export alleviate aggravate diminish delay
"""
_VERBS = frozenset(_VERB_LIST.split())
_AUXILIARY = "is|are|was|were|can|could|will|would|has|have|had|should|may|might|must"
_NEGATED = re.compile(
    rf"\b(?:(does|do|did) not|(does|do|did)n't) (\w+)|\b({_AUXILIARY})(?: not|n't)\b",
    re.IGNORECASE,
)
_PLAIN = re.compile(rf"\b({_AUXILIARY})\b(?! not|n't)", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,:/-])\d+(?:\.\d+)?(?![\w:/-]|[.,]\d)")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}\b")
_SWAPPED_UNITS = {
    "seconds": "minutes", "minutes": "hours", "minute": "hour", "min": "hours", "hours": "minutes",
    "hour": "minute", "days": "weeks", "day": "week", "weeks": "months", "months": "weeks",
    "years": "months", "mm": "cm", "cm": "mm", "m": "km", "km": "m", "mg": "g", "g": "kg",
    "kg": "g", "ml": "liters", "mb": "GB", "gb": "MB", "euros": "dollars", "dollars": "euros",
}  # fmt: skip


def _negate(sentence: str, rng: random.Random, names: Sequence[str]) -> Iterator[str]:
    negated = _NEGATED.search(sentence)
    if negated is not None:
        yield _replaced(sentence, negated, _affirmed(negated))
        return
    plain = _PLAIN.search(sentence)
    if plain is not None:
        yield sentence[: plain.end()] + " not" + sentence[plain.end() :]
        return
    for match in re.finditer(r"\b[a-z]+s\b", sentence):
        if verb := _third_person().get(match[0]):
            yield _replaced(sentence, match, f"does not {verb}")
            return


def _affirmed(match: re.Match[str]) -> str:
    if match[4]:
        return match[4]
    auxiliary, verb = (match[1] or match[2]).lower(), match[3]
    if auxiliary == "do":
        return verb
    _, third, past, _ = _forms(verb)
    return third if auxiliary == "does" else past


def _oppose(sentence: str, rng: random.Random, names: Sequence[str]) -> Iterator[str]:
    for match in re.finditer(r"[A-Za-z]+", sentence):
        if other := _opposite_forms().get(match[0].lower()):
            yield _replaced(sentence, match, other.capitalize() if match[0][0].isupper() else other)


def _renumber(sentence: str, rng: random.Random, names: Sequence[str]) -> Iterator[str]:
    for match in _NUMBER.finditer(sentence):
        value = float(match[0])
        changed = value * rng.choice((2, 3, 5)) + rng.choice((1, 2, 3))
        yield _replaced(sentence, match, f"{changed:g}" if "." in match[0] else str(int(changed)))


def _change_unit(sentence: str, rng: random.Random, names: Sequence[str]) -> Iterator[str]:
    for match in re.finditer(r"(?<=\d)( ?)([A-Za-z]+)\b", sentence):
        if other := _SWAPPED_UNITS.get(match[2].lower()):
            yield _replaced(sentence, match, f" {other}")


def _rename(sentence: str, rng: random.Random, names: Sequence[str]) -> Iterator[str]:
    for match in _NAME.finditer(sentence):
        others = [name for name in names if name not in sentence]
        if others:
            yield _replaced(sentence, match, rng.choice(others))


def _replaced(sentence: str, match: re.Match[str], text: str) -> str:
    return sentence[: match.start()] + text + sentence[match.end() :]


_CHANGES: Mapping[str, Callable[[str, random.Random, Sequence[str]], Iterator[str]]] = {
    "negation": _negate,
    "opposite": _oppose,
    "number": _renumber,
    "unit": _change_unit,
    "name": _rename,
}
KINDS = tuple(_CHANGES)
"""What can be changed in a sentence."""


def contradict(
    sentence: str, rng: random.Random, kinds: Sequence[str] = KINDS, names: Sequence[str] = ()
) -> tuple[str, str] | None:
    """The sentence with one change that contradicts it, and the kind of change.

    Parameters:
        sentence: a true sentence.
        rng: chooses among the possible changes.
        kinds: the kinds of change to choose from.
        names: other names that may stand in place of one in the sentence.
    """
    made = [(kind, text) for kind in kinds for text in _CHANGES[kind](sentence, rng, names)]
    if not made:
        return None
    chosen = rng.choice(sorted({kind for kind, _ in made}))
    return rng.choice([text for kind, text in made if kind == chosen]), chosen


@cache
def _opposite_forms() -> dict[str, str]:
    """Every form of a word that has an opposite, with the same form of that."""
    found: dict[str, str] = {}
    for one, other in opposite_words():
        verbs = one in _VERBS and other in _VERBS
        pairs = zip(_forms(one), _forms(other), strict=True) if verbs else [(one, other)]
        for a, b in pairs:
            found.setdefault(a, b)
            found.setdefault(b, a)
    return found


@cache
def _third_person() -> dict[str, str]:
    return {_forms(verb)[1]: verb for verb in sorted(_VERBS)}


def _forms(verb: str) -> tuple[str, str, str, str]:
    """A verb, "increases", "increased", "increasing"; regular ones by rule."""
    if verb in _IRREGULAR:
        return (verb, *_IRREGULAR[verb])
    root = verb.removesuffix("e")
    third = verb + ("es" if re.search(r"(?:s|sh|ch|x|o)$", verb) else "s")
    return verb, third, f"{root}ed", f"{root}ing"


def names_in(texts: Sequence[str]) -> list[str]:
    """The names in some texts, each once, in alphabetical order."""
    return sorted({name for text in texts for name in _NAME.findall(text)})
