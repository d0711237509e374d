"""Questions by templates, without a model: candidates of each kind in an order the seed decides.

Every template gives its reference answer with the words of the documents that prove it. What a
template cannot prove, it does not ask.
"""

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import TypeVar

from assay.answer.answerer import is_instruction
from assay.answer.prompt import without_markers
from assay.answer.questions.kinds import MadeQuestion, QuestionKind, Quote
from assay.data.dataset import Document, Fact
from assay.search.bm25_index import Bm25Index
from assay.text import normalize, sentences, stems

BLANK = "____"

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


def sentences_of(document: Document) -> Iterator[SourceSentence]:
    """The sentences of a document that a question can be made of."""
    for sentence in dict.fromkeys(sentences(without_markers(document.text))):
        fits = _SENTENCE.fullmatch(sentence) and len(sentence.split()) in _WORDS
        if fits and not is_instruction(sentence):
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


MOST_DOCUMENTS = 5000
"""From how many documents, drawn by the seed, questions are made."""

_HOLDERS = 100
"""A name that so many documents have is too common to be asked about."""
_TRIED = 5
_MIN_STEMS = 4
_APART = 1.1
_SAID = 0.5

Part = TypeVar("Part")


class TemplateQuestions:
    """Candidates for questions about documents.

    Parameters:
        documents: what to ask about, by id.
        index: BM25 over the same documents.
        seed: decides documents and sentences.
    """

    def __init__(self, documents: Mapping[str, Document], index: Bm25Index, seed: int) -> None:
        self._documents = documents
        self._index = index
        self._seed = seed

    def of_kind(self, kind: QuestionKind) -> Iterator[MadeQuestion]:
        """Candidates of one kind, the same for the same seed."""
        makers = {
            QuestionKind.KNOWN_ITEM: self._known_items,
            QuestionKind.MULTI_HOP: self._bridges,
            QuestionKind.COMPARISON: self._comparisons,
            QuestionKind.TEMPORAL: self._orders,
            QuestionKind.UNANSWERABLE: self._without_answer,
        }
        return makers[kind]()

    @cached_property
    def _drawn(self) -> list[Document]:
        ids = sorted(self._documents)  # the same sample in any order of the files
        random.Random(self._seed).shuffle(ids)
        return [self._documents[each] for each in ids[:MOST_DOCUMENTS]]

    @cached_property
    def _statements(self) -> list[SourceSentence]:
        return [each for document in self._drawn for each in sentences_of(document)]

    def _shuffled(self, statements: Sequence[SourceSentence], purpose: str) -> list[SourceSentence]:
        mixed = list(statements)
        random.Random(f"{self._seed}:{purpose}").shuffle(mixed)
        return mixed

    def _known_items(self) -> Iterator[MadeQuestion]:
        """A title, or the sentence with the rarest words: by turns, where a document has both."""
        titled: defaultdict[str, list[str]] = defaultdict(list)
        for document in self._documents.values():
            titled[normalize(document.title)].append(document.id)
        for place, document in enumerate(self._drawn):
            title = " ".join(document.title.split())
            good_title = len(set(stems(title))) >= 2
            sentence = self._distinctive(document)
            if good_title and (place % 2 == 0 or sentence is None):
                same = titled[normalize(document.title)]
                ids = (document.id, *(each for each in same if each != document.id))
                quotes = tuple(Quote(each, self._documents[each].title) for each in ids)
                yield MadeQuestion(
                    QuestionKind.KNOWN_ITEM, title, ids, quotes, how="template title"
                )
            elif sentence is not None:
                yield MadeQuestion(
                    QuestionKind.KNOWN_ITEM,
                    sentence,
                    (document.id,),
                    (Quote(document.id, sentence),),
                    how="template sentence",
                )

    def _distinctive(self, document: Document) -> str | None:
        """The sentence whose words are the rarest, by how far BM25 lifts its document."""
        said = [each for each in sentences_of(document) if len(set(stems(each.text))) >= _MIN_STEMS]

        def rarity(statement: SourceSentence) -> float:
            weights = self._index.model.query(statement.text).values
            return sum(weights) / len(weights) if weights else 0.0

        best = max(said, key=rarity, default=None)
        return best.text if best is not None else None

    def _comparisons(self) -> Iterator[MadeQuestion]:
        """Two documents that state quantities of one unit: which is more?"""
        by_unit: defaultdict[str, list[tuple[SourceSentence, MeasuredPart]]] = defaultdict(list)
        for statement in self._shuffled(self._statements, "comparison"):
            if len(statement.quantities) == 1:
                (quantity,) = statement.quantities
                by_unit[quantity.unit].append((statement, quantity))
        for one, two in _pairs(list(by_unit.values())):
            (first, less), (second, more) = sorted((one, two), key=lambda each: each[1].value)
            if more.value < _APART * less.value or more.value == less.value:
                continue
            shown = [first, second]
            random.Random(f"{self._seed}:{first.text}:{second.text}").shuffle(shown)
            gaps = [_in_document(each, (less if each is first else more).text) for each in shown]
            yield MadeQuestion(
                QuestionKind.COMPARISON,
                f"Which of the two gaps stands for more, and for how much? {gaps[0]} Or: {gaps[1]}",
                (second.document_id, first.document_id),
                (Quote(second.document_id, second.text), Quote(first.document_id, first.text)),
                f"{more.text}, which is more than {less.text}: {second.text}",
                (Fact(second.text, (more.text,)),),
                how="template quantities",
                hops=2,
            )

    def _orders(self) -> Iterator[MadeQuestion]:
        """Two documents that state dates: which came first?"""
        dated = [each for each in self._statements if len(each.dates) == 1]
        groups = [[(each, each.dates[0]) for each in self._shuffled(dated, "temporal")]]
        for one, two in _pairs(groups):
            (early, (first, at)), (late, (second, then)) = sorted(
                (one, two), key=lambda each: each[1][1]
            )
            if at == then:
                continue
            shown = [(early, first), (late, second)]
            random.Random(f"{self._seed}:{early.text}:{late.text}").shuffle(shown)
            gaps = [_in_document(statement, part) for statement, part in shown]
            yield MadeQuestion(
                QuestionKind.TEMPORAL,
                f"Which of the two came first, and on which date? {gaps[0]} Or: {gaps[1]}",
                (early.document_id, late.document_id),
                (Quote(early.document_id, early.text), Quote(late.document_id, late.text)),
                f"On {first}, before {second}: {early.text}",
                (Fact(early.text, (first,)),),
                how="template dates",
                hops=2,
            )

    def _bridges(self) -> Iterator[MadeQuestion]:
        """A name that one document leaves to be found, and what another states about it.

        Of the second document the question has nothing but a unit, so that it is found by the name
        alone; a name with two quantities of the unit in all documents is not asked about.
        """
        measured: defaultdict[str, list[tuple[SourceSentence, MeasuredPart]]] = defaultdict(list)
        named: defaultdict[str, list[SourceSentence]] = defaultdict(list)
        for statement in self._shuffled(self._statements, "multi-hop"):
            for name in statement.names:
                named[name].append(statement)
                if len(statement.quantities) == 1:
                    measured[name].append((statement, statement.quantities[0]))
        for name, known in measured.items():
            for target, quantity in known[:1]:
                source = self._source(name, quantity, target, named[name])
                if source is None or not self._only(name, quantity.unit, target):
                    continue
                unit = quantity.text.lstrip("0123456789., ") or quantity.unit
                yield MadeQuestion(
                    QuestionKind.MULTI_HOP,
                    f"A name is missing here: {_in_document(source, name)} How many {unit} does "
                    "another document state together with that name?",
                    (target.document_id, source.document_id),
                    (
                        Quote(target.document_id, target.text),
                        Quote(source.document_id, source.text),
                    ),
                    f"The name is {name}, and it is {quantity.text}: {target.text}",
                    (Fact(target.text, (quantity.text,)),),
                    how="template bridge",
                    hops=2,
                )

    def _source(
        self,
        name: str,
        quantity: MeasuredPart,
        target: SourceSentence,
        named: Sequence[SourceSentence],
    ) -> SourceSentence | None:
        """A sentence of another document that the name is left out of, and that tells no more."""
        held = target.document.full_text
        for each in named:
            other = each.document.full_text
            alone = each.document_id != target.document_id and quantity.text not in other
            if alone and each.text not in held and len(set(stems(each.text))) >= _MIN_STEMS:
                return each
        return None

    def _only(self, name: str, unit: str, target: SourceSentence) -> bool:
        """Whether no other sentence has the name with a quantity of the unit."""
        holders = self._holders(name)
        for document in holders or ():
            for each in sentences_of(document):
                units = [quantity.unit for quantity in each.quantities]
                if each.text != target.text and name in each.text and unit in units:
                    return False
        return holders is not None

    def _without_answer(self) -> Iterator[MadeQuestion]:
        """A gap in a sentence whose name is replaced by one that no document says this about."""
        everybody = sorted({name for each in self._statements for name in each.names})
        for statement in self._shuffled(self._statements, "unanswerable"):
            if not statement.names or not statement.quantities:
                continue
            name, quantity = statement.names[0], statement.quantities[0]
            if name in quantity.text or quantity.text in name:
                continue
            draw = random.Random(f"{self._seed}:{statement.text}")
            alike = [each for each in everybody if len(each.split()) == len(name.split())]
            for other in draw.sample(alike, min(_TRIED, len(alike))):
                changed = statement.without(quantity.text).replace(name, other)
                if other not in statement.document.full_text and not self._is_said(changed, other):
                    yield MadeQuestion(
                        QuestionKind.UNANSWERABLE,
                        f"Fill the gap: {changed}",
                        (),
                        (Quote(statement.document_id, statement.text),),
                        how="template swapped name",
                        hops=0,
                        changed=f"{name} -> {other}",
                    )
                    break

    def _is_said(self, sentence: str, name: str) -> bool:
        """Whether any sentence says something of the kind about the name."""
        wanted = set(stems(sentence)) - set(stems(name))
        holders = self._holders(name)
        for document in holders or ():
            for each in sentences_of(document):
                shared = wanted & set(stems(each.text))
                if name in each.text and len(shared) >= _SAID * len(wanted):
                    return True
        return holders is None

    def _holders(self, name: str) -> list[Document] | None:
        """All documents that have the name; None if they are too many to be read."""
        found = [self._documents[doc_id] for doc_id, _ in self._index.search(name, _HOLDERS)]
        return [each for each in found if name in each.full_text] if len(found) < _HOLDERS else None


def _in_document(statement: SourceSentence, part: str) -> str:
    """The sentence with a gap, after the title of its document."""
    title = " ".join(statement.document.title.split())
    gap = statement.without(part).rstrip(".")
    return f"{title}: {gap}." if title else f"{gap}."


def _pairs(
    groups: Sequence[list[tuple[SourceSentence, Part]]],
) -> Iterator[tuple[tuple[SourceSentence, Part], tuple[SourceSentence, Part]]]:
    """Two of one group from different documents, by turns from each group, as far apart as the
    rounds go: a sentence is used again only after all others.
    """
    for step in range(1, max(map(len, groups), default=0)):
        for start in range(0, max(map(len, groups), default=0), 2):
            for group in groups:
                one, two = start, start + step
                if two < len(group) and group[one][0].document_id != group[two][0].document_id:
                    yield group[one], group[two]
