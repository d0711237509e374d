"""Questions by templates, without a model: candidates of each kind in an order the seed decides.

Every template gives its reference answer with the words of the documents that prove it. What a
template cannot prove, it does not ask.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, zip_longest
from typing import TypeVar

from assay.data.dataset import Document, Fact
from assay.labels.questions.made_questions import MadeQuestion, QuestionKind, Quote
from assay.labels.questions.source_documents import (
    MeasuredPart,
    SourceSentence,
    mentions_unit,
    sentences_of,
)
from assay.search.bm25_index import Bm25Index
from assay.text import normalize, stems

MOST_DOCUMENTS = 5000
"""From how many documents, drawn by the seed, questions are made."""

_HOLDERS = 100
"""A name that so many documents have is too common to be asked about."""
_TRIED = 5
_MIN_STEMS = 4
_APART = 1.1
_SAID = 0.5
_UNITS_ASKED, _UNIT_USED, _TITLE_STEMS = 8, 2, 2
_UNIT_NAMES = {
    "min": "minutes",
    "h": "hours",
    "m": "meters",
    "g": "grams",
    "l": "liters",
    "%": "percent",
}

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
        """By turns: a name that no document says this about, and a unit that a document lacks."""
        both = zip_longest(self._swapped_names(), self._absent_units())
        return (each for each in chain.from_iterable(both) if each is not None)

    def _swapped_names(self) -> Iterator[MadeQuestion]:
        """A gap in a sentence whose name is replaced by one that no document says this about.

        The gap is a quantity, a date or the other one of two names: of a longer list, all others
        would still tell which list is meant. One question for each sentence.
        """
        everybody = sorted({name for each in self._statements for name in each.names})
        for statement in self._shuffled(self._statements, "unanswerable"):
            parts = [each.text for each in statement.quantities]
            parts += [each for each, _ in statement.dates]
            pair = len(statement.names) == 2
            for name in statement.names if pair else statement.names[:1]:
                if pair and not parts:
                    parts = [each for each in statement.names if each != name]
                gap = next((each for each in parts if name not in each and each not in name), None)
                other = gap and self._stranger(statement, name, gap, everybody)
                if gap and other:
                    yield MadeQuestion(
                        QuestionKind.UNANSWERABLE,
                        f"Fill the gap: {statement.without(gap).replace(name, other)}",
                        (),
                        (Quote(statement.document_id, statement.text),),
                        how="template swapped name",
                        hops=0,
                        changed=f"{name} -> {other}",
                    )
                    break

    def _stranger(
        self, statement: SourceSentence, name: str, gap: str, everybody: Sequence[str]
    ) -> str | None:
        """A name that may stand in place of another, about which nobody says such a thing."""
        draw = random.Random(f"{self._seed}:{statement.text}:{name}")
        alike = [each for each in everybody if len(each.split()) == len(name.split())]
        for other in draw.sample(alike, min(_TRIED, len(alike))):
            changed = statement.without(gap).replace(name, other)
            if other not in statement.document.full_text and not self._is_said(changed, other):
                return other
        return None

    def _absent_units(self) -> Iterator[MadeQuestion]:
        """How many of a unit a document states that has no such unit, nor has any other document
        with the words of its title.
        """
        used = Counter(part.unit for each in self._statements for part in each.quantities)
        units = [unit for unit, number in used.most_common(_UNITS_ASKED) if number >= _UNIT_USED]
        for document in self._drawn:
            title = " ".join(document.title.split())
            named = set(stems(title))
            if len(named) < _TITLE_STEMS:
                continue
            found = [self._documents[each] for each, _ in self._index.search(title, _HOLDERS)]
            about = [each for each in found if named <= set(stems(each.full_text))]
            draw = random.Random(f"{self._seed}:{document.id}:unit")
            lacking = [u for u in units if not any(mentions_unit(each, u) for each in about)]
            if document in about and len(about) < _HOLDERS and lacking:
                unit = draw.choice(lacking)
                yield MadeQuestion(
                    QuestionKind.UNANSWERABLE,
                    f"How many {_UNIT_NAMES.get(unit, unit)} does the document “{title}” state?",
                    (),
                    (Quote(document.id, document.title),),
                    how="template absent unit",
                    hops=0,
                    changed=f" -> {unit}",
                )

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
