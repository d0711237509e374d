"""Carrying labels over to documents with new ids: after chunking, keying or crawling anew.

Judged documents are found again by their text: the same text, nearly the same, or a part of it or
around it where the documents were cut otherwise. What is found is a list of proposals; labels move
only for those that somebody accepts, one by one or by a threshold.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from assay.data.dataset import Dataset, Document, ReferenceAnswer
from assay.data.table import cell_text, csv_table, read_table, text_cell
from assay.data.text_file import Record, short_repr, write_file
from assay.errors import DataError, UsageError
from assay.text import words

How = Literal["same", "near", "part", "around", "none"]
"""The same text; nearly the same; a part of the judged text; a longer text around it; nothing."""

LEAST = 0.5
"""Below this score nothing is proposed."""

SURE = 0.95
"""From this score on, a near duplicate is proposed as accepted."""

_SHINGLE = 5
_CHARACTERS = 8
_COMMON = 200  # a shingle of so many judged documents is boilerplate, and tells none of them
_MOST = 50  # proposals for one document
_FEWEST_SHINGLES = 4  # fewer are found in any text
_FIRST_WORDS = 12

Shingles = frozenset[int]


@dataclass(frozen=True, slots=True)
class RekeyMatch:
    """A judged document of the old data set, and a document of the new one that may be it.

    Attributes:
        old_id, new_id: their ids; `new_id` is "" where nothing was found.
        how: what they have in common.
        score: 1 for the same text; the Jaccard similarity of shingles of five words for nearly the
            same; the share of the shorter text that is in the longer one for parts.
        judgments: how many judgments name the old document.
        old_text, new_text: the first words of both.
    """

    old_id: str
    new_id: str
    how: How
    score: float
    judgments: int
    old_text: str
    new_text: str

    @property
    def sure(self) -> bool:
        """Whether nobody needs to look: the same text, or nearly so."""
        return self.how == "same" or (self.how == "near" and self.score >= SURE)


@dataclass(frozen=True, slots=True)
class RekeyResult:
    """What was carried over.

    Attributes:
        dataset: the old questions and labels with the new documents.
        judgments, carried: how many judgments there were, and how many of them were carried.
        lost_queries: questions that have no relevant document any more.
    """

    dataset: Dataset
    judgments: int
    carried: int
    lost_queries: tuple[str, ...]


def find_matches(old: Dataset, documents: Mapping[str, Document]) -> list[RekeyMatch]:
    """Proposals for every judged document of `old`, in the order of its documents.

    Raises:
        UsageError: the old data set has no texts, or no judged document of it has one.
    """
    old.require_documents("finding documents again")
    counts = Counter(
        doc_id for split in old.judgments.values() for grades in split.values() for doc_id in grades
    )
    for answer in old.answers.values():
        counts.update(doc_id for doc_id in answer.documents if doc_id not in counts)
    judged = {doc_id: old.documents[doc_id] for doc_id in old.documents if doc_id in counts}
    if not judged:
        raise UsageError(
            f"data set {old.name!r} has no text of its {len(counts):,} judged documents, so they "
            "cannot be matched to the new ones; add their texts to its corpus.jsonl"
        )
    found = _same_texts(judged, documents)
    rest = {doc_id: each for doc_id, each in judged.items() if doc_id not in found}
    for doc_id, candidates in _similar_texts(rest, documents).items():
        found[doc_id] = candidates
    matches: list[RekeyMatch] = []
    for doc_id, document in judged.items():
        for new_id, how, score in found.get(doc_id) or [("", "none", 0.0)]:
            new_text = first_words(documents[new_id]) if new_id else ""
            seen = first_words(document)
            matches.append(RekeyMatch(doc_id, new_id, how, score, counts[doc_id], seen, new_text))
    lacking = (doc_id for doc_id in counts if doc_id not in judged)
    matches += [RekeyMatch(each, "", "none", 0.0, counts[each], "", "") for each in lacking]
    return matches


def carry_over(
    old: Dataset, documents: Mapping[str, Document], accepted: Iterable[tuple[str, str]]
) -> RekeyResult:
    """The old labels on new documents, by accepted pairs of old and new ids.

    Where several old documents became one, it has the highest of their grades.

    Raises:
        UsageError: a pair names a document that there is not.
    """
    renamed: dict[str, list[str]] = defaultdict(list)
    for old_id, new_id in accepted:
        if new_id not in documents:
            raise UsageError(
                f"{old_id!r} is mapped to {new_id!r}, which is not among the new documents; "
                "correct that line of the accepted list"
            )
        if new_id not in renamed[old_id]:
            renamed[old_id].append(new_id)
    total = carried = 0
    judgments: dict[str, dict[str, dict[str, int]]] = {}
    for split, judged in old.judgments.items():
        moved: dict[str, dict[str, int]] = {}
        for query_id, grades in judged.items():
            total += len(grades)
            kept: dict[str, int] = {}
            for doc_id, grade in grades.items():
                carried += doc_id in renamed
                for new_id in renamed.get(doc_id, ()):
                    kept[new_id] = max(grade, kept.get(new_id, grade))
            if kept:
                moved[query_id] = kept
        judgments[split] = moved
    answers = {key: _moved(each, renamed) for key, each in old.answers.items()}
    dataset = Dataset(old.name, documents, old.queries, judgments, answers, judged_by=old.judged_by)
    return RekeyResult(dataset, total, carried, tuple(_lost(old, judgments)))


def first_words(document: Document) -> str:
    """The beginning of a document, for people who compare two."""
    return " ".join(document.full_text.split()[:_FIRST_WORDS])[:200]


def _lost(old: Dataset, judgments: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Iterator[str]:
    for split, judged in old.judgments.items():
        for query_id, grades in judged.items():
            had = any(grade > 0 for grade in grades.values())
            has = any(grade > 0 for grade in judgments[split].get(query_id, {}).values())
            if had and not has:
                yield query_id


def _moved(answer: ReferenceAnswer, renamed: Mapping[str, Sequence[str]]) -> ReferenceAnswer:
    ids = [new_id for doc_id in answer.documents for new_id in renamed.get(doc_id, ())]
    return ReferenceAnswer(answer.query_id, answer.answer, answer.facts, tuple(dict.fromkeys(ids)))


_Candidate = tuple[str, How, float]


def _same_texts(
    judged: Mapping[str, Document], documents: Mapping[str, Document]
) -> dict[str, list[_Candidate]]:
    wanted = {_normal(each): doc_id for doc_id, each in judged.items() if each.full_text}
    twins: dict[str, list[str]] = defaultdict(list)
    for doc_id, document in documents.items():
        text = _normal(document)
        if text and text in wanted:
            twins[text].append(doc_id)
    found: dict[str, list[_Candidate]] = {}
    for doc_id, document in judged.items():
        same = twins.get(_normal(document), [])
        if doc_id in same:  # its own id still has its text: no other is meant
            same = [doc_id]
        if same:
            found[doc_id] = [(new_id, "same", 1.0) for new_id in same[:_MOST]]
    return found


def _similar_texts(
    judged: Mapping[str, Document], documents: Mapping[str, Document]
) -> dict[str, list[_Candidate]]:
    """New documents are read one by one against an index of the judged ones, which are few."""
    shingles = {doc_id: _shingles(each) for doc_id, each in judged.items()}
    holders: dict[int, list[str]] = defaultdict(list)
    for doc_id, each in shingles.items():
        for shingle in each:
            holders[shingle].append(doc_id)
    found: dict[str, list[_Candidate]] = defaultdict(list)
    for new_id, document in documents.items():
        own = _shingles(document)
        common: Counter[str] = Counter()
        for shingle in own:
            owners = holders.get(shingle, ())
            if 0 < len(owners) <= _COMMON:
                common.update(owners)
        for old_id, shared in common.items():
            candidate = _candidate(new_id, shared, len(shingles[old_id]), len(own))
            if candidate is not None:
                found[old_id].append(candidate)
    for candidates in found.values():
        candidates.sort(key=lambda each: (-each[2], each[0]))
        del candidates[_MOST:]
    return found


def _candidate(new_id: str, shared: int, old: int, new: int) -> _Candidate | None:
    similar = shared / (old + new - shared)
    if similar >= LEAST:
        return new_id, "near", similar
    part, around = shared / new, shared / old
    if part >= LEAST and part >= around and new >= _FEWEST_SHINGLES:
        return new_id, "part", part
    if around >= LEAST and old >= _FEWEST_SHINGLES:
        return new_id, "around", around
    return None


def _normal(document: Document) -> str:
    return " ".join(words(document.full_text))


def _shingles(document: Document) -> Shingles:
    """Hashes of five words in a row; of characters where a script has no spaces between words."""
    text = document.full_text
    found = words(text)
    if len(text) > 20 * max(len(found), 1):
        plain = "".join(found)
        count = max(1, len(plain) - _CHARACTERS + 1)
        return frozenset(hash(plain[at : at + _CHARACTERS]) for at in range(count))
    count = max(1, len(found) - _SHINGLE + 1) if found else 0
    return frozenset(hash(tuple(found[at : at + _SHINGLE])) for at in range(count))


COLUMNS = ("accept", "how", "score", "old_id", "new_id", "judgments", "old_text", "new_text")
_YES = ("yes", "y", "1", "true", "x", "ja", "oui")
_NO = ("no", "n", "0", "false", "", "nein", "non")


def write_matches(path: Path, matches: Iterable[RekeyMatch]) -> None:
    """Write the list, surely right ones accepted; replaced as a whole. Raises `DataError`."""
    rows = []
    for each in matches:
        accept = "yes" if each.sure else "no" if not each.new_id else ""
        texts = (text_cell(each.old_text), text_cell(each.new_text))
        ids = (text_cell(each.old_id), text_cell(each.new_id))
        rows.append((accept, each.how, f"{each.score:.3f}", *ids, each.judgments, *texts))
    write_file(path, csv_table(COLUMNS, rows))


def read_accepted(path: Path) -> list[tuple[str, str]]:
    """The pairs of old and new ids that the list accepts.

    Raises:
        DataError: a row is wrong, or undecided; the message names its line.
    """
    accepted: list[tuple[str, str]] = []
    for row in read_table(path):
        if isinstance(row, DataError):
            raise row
        if _decided(row):
            accepted.append((_id(row, "old_id"), _id(row, "new_id")))
    return accepted


def _decided(row: Record) -> bool:
    if "accept" not in row.fields:
        raise row.refusal(f"has no column 'accept'; the columns are {', '.join(COLUMNS)}")
    word = str(row.fields["accept"] or "").strip().casefold()
    if word not in (*_YES, *_NO):
        raise row.refusal(f"'accept' must be yes or no, got {short_repr(row.fields['accept'])}")
    return word in _YES


def _id(row: Record, name: str) -> str:
    value = cell_text(str(row.fields.get(name) or ""))
    if not value:
        raise row.refusal(f"is accepted and has no {name!r}; write it, or write no")
    return value
