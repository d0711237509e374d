"""A pool of passages that a model or people grade: how it is chosen, its table, people's grades.

pool = choose_pairs([{"q1": ["d7", "d2"]}], dataset, dataset.judgments_in("test"))
write_pool(Path("runs/pools/tea.csv"), pool.pairs)      # people fill in the column `label`, or
GradedPool(Path("runs/pools/tea.csv")).save("Ann", {("q1", "d7"): 3})     # grade in the web UI
"""

import os
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from threading import RLock
from typing import NamedTuple

import orjson

from assay.data.dataset import Dataset, Document, Judgments
from assay.data.qrels import row_grade
from assay.data.table import cell_text, csv_row, read_table, text_cell
from assay.data.text_file import write_file
from assay.errors import DataError, UsageError
from assay.files import complete_lines, cut_file, open_to_append
from assay.locks import FileLock
from assay.metrics.statistics import Estimate, cohen_kappa, estimate_mean, weighted_kappa
from assay.net.json import parse_object

GRADES = (0, 1, 2, 3)
"""Irrelevant, related, relevant in part, and the answer."""
MAX_PASSAGE = 8_000
"""Characters of a passage that are shown; spreadsheets cut cells at 32,767."""
POOL_COLUMNS = ("query_id", "query", "doc_id", "title", "passage", "label")
MIN_GRADED = 30
"""Below this many labels a kappa says little."""
_SEED = 42
_COLUMN_NAMES: Mapping[str, tuple[str, ...]] = {
    "query_id": ("query_id", "qid"),
    "query": ("query", "question", "query_text"),
    "doc_id": ("doc_id", "document_id", "docid", "id"),
    "passage": ("passage", "text", "content", "document"),
    "label": ("label", "grade", "relevance"),
    "title": ("title",),
}
PairName = tuple[str, str]
"""Query id and document id."""
PairLabels = Mapping[PairName, int]


class PassagePair(NamedTuple):
    """A query and a passage that was retrieved for it; `title` is shown to people."""

    query_id: str
    query: str
    doc_id: str
    passage: str
    title: str = ""

    @property
    def name(self) -> PairName:
        """Query id and document id."""
        return self.query_id, self.doc_id


class GradingPool(NamedTuple):
    """What is to be graded, each pair once, and people's labels of some of the pairs."""

    pairs: Sequence[PassagePair]
    labels: PairLabels


def choose_pairs(
    rankings: Sequence[Mapping[str, Sequence[str]]],
    dataset: Dataset,
    judgments: Judgments,
    *,
    depth: int = 10,
    check: int = 50,
    texts: bool = True,
) -> GradingPool:
    """The unjudged documents that systems returned, and judged ones to check the model by.

    Parameters:
        rankings: for each system its ranking of each query.
        depth: how many documents of each ranking are taken.
        check: how many judged pairs are drawn, as many of each grade if there are enough.
        texts: False if people look documents up by their ids: passages may then be empty.
    """
    if texts:
        dataset.require_documents("grading passages by a model")
    documents = dataset.documents
    wanted: dict[PairName, None] = {}
    judged: dict[int, list[PairName]] = {}
    for query_id in dict.fromkeys(query_id for ranking in rankings for query_id in ranking):
        if query_id not in dataset.queries:
            continue
        known = judgments.get(query_id, {})
        for doc_id, grade in known.items():
            if check and (not documents or doc_id in documents):
                judged.setdefault(grade, []).append((query_id, doc_id))
        for ranking in rankings:
            for doc_id in ranking.get(query_id, ())[:depth]:
                if doc_id not in known and (not documents or doc_id in documents):
                    wanted[query_id, doc_id] = None
    labels = _draw(judged, check)
    no_text = Document("", "", "")
    pairs = []
    for query_id, doc_id in [*wanted, *labels]:
        document = documents.get(doc_id, no_text)
        query = dataset.queries[query_id].text
        pairs.append(PassagePair(query_id, query, doc_id, document.full_text, document.title))
    return GradingPool(pairs, labels)


def _draw(by_grade: Mapping[int, list[PairName]], number: int) -> dict[PairName, int]:
    """As many of each grade as there are, at most `number` in all."""
    chooser = random.Random(_SEED)
    for names in by_grade.values():
        names.sort()  # the same sample in any order of the runs
        chooser.shuffle(names)
    drawn: dict[PairName, int] = {}
    while len(drawn) < number and any(by_grade.values()):
        for grade, names in by_grade.items():
            if names and len(drawn) < number:
                drawn[names.pop()] = grade
    return drawn


def read_pool(path: Path, *, texts: bool = True) -> GradingPool:
    """The pairs of a table with query, doc_id and passage, and people's labels of some of them.

    Without `texts` a passage may be missing. Raises `DataError` for a row that is wrong, or a pair
    that is there twice with different texts.
    """
    pairs: dict[PairName, PassagePair] = {}
    labels: dict[PairName, int] = {}
    for row in read_table(path):
        if isinstance(row, DataError):
            raise row
        found = {}
        for key, columns in _COLUMN_NAMES.items():
            given = (row.fields[name] for name in columns if row.fields.get(name) is not None)
            found[key] = cell_text(str(next(given, "")))
        for key in ("query", "doc_id", *(("passage",) if texts else ())):
            if not found[key].strip():
                names = ", ".join(_COLUMN_NAMES[key])
                raise row.refusal(f"has no {key} (a column {names}), which a pool needs")
        query_id, title = found["query_id"] or found["query"], found["title"].strip()
        pair = PassagePair(query_id, found["query"], found["doc_id"], found["passage"], title)
        if pairs.setdefault(pair.name, pair) != pair:
            raise row.refusal(
                f"document {pair.doc_id!r} has another text or query for {pair.query_id!r} before; "
                "rename one of the two"
            )
        if found["label"].strip():
            labels[pair.name] = row_grade(row, found["label"].strip())
    if not pairs:
        raise DataError("has no passages to grade", file=path)
    return GradingPool(list(pairs.values()), labels)


def write_pool(path: Path, pairs: Iterable[PassagePair]) -> None:
    """Write the table with an empty column `label`, query by query."""
    write_file(path, pool_table(sorted(pairs, key=lambda pair: pair.query_id)))


def pool_table(pairs: Iterable[PassagePair], labels: PairLabels | None = None) -> bytes:
    """The table that a person fills in, with the labels that there are, as CSV."""
    # A document is found for many queries: its cells, most of the table, are written out once.
    cells: dict[tuple[str, ...], str] = {}
    lines = [csv_row(POOL_COLUMNS)]
    for pair in pairs:
        query, document = pair[:2], pair[2:]
        if query not in cells:
            cells[query] = csv_row(map(text_cell, query))
        if document not in cells:
            shown = (pair.doc_id, pair.title, pair.passage[:MAX_PASSAGE])
            cells[document] = csv_row(map(text_cell, shown))
        label = (labels or {}).get(pair.name, "")
        lines.append(f"{cells[query]},{cells[document]},{label}")
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def combine_labels(graders: Sequence[PairLabels]) -> dict[PairName, int]:
    """One grade for each document: the median, the lower one of two in the middle."""
    grades: dict[PairName, list[int]] = {}
    for labels in graders:
        for name, grade in labels.items():
            grades.setdefault(name, []).append(grade)
    return {name: sorted(found)[(len(found) - 1) // 2] for name, found in grades.items()}


def label_rows(labels: PairLabels) -> Iterator[tuple[str, str, str, int]]:
    """Labels of people as rows of qrels."""
    return ((query_id, "0", doc_id, grade) for (query_id, doc_id), grade in labels.items())


@dataclass(frozen=True, slots=True)
class GradeAgreement:
    """How a model's grades agree with people's.

    `agreement` is the share of pairs that both call relevant, or both not; `kappa` is that beyond
    chance (Cohen 1960), `weighted_kappa` that of the grades, with quadratic weights (Cohen 1968):
    None if one grade is all there is, or labels are on another scale than 0 to 3. `confusion`
    counts by label, then by grade.
    """

    labelled: int
    agreement: Estimate
    kappa: float | None
    weighted_kappa: float | None
    confusion: Mapping[str, Mapping[str, int]]


def grade_agreement(
    labels: Sequence[int], grades: Sequence[int], relevant_from: int = 2
) -> GradeAgreement:
    """Compare a model's grades with people's labels of the same pairs, at least one.

    A label above 0 is relevant, on whatever scale; a grade from `relevant_from` on.
    """
    people = [label > 0 for label in labels]
    model = [grade >= relevant_from for grade in grades]
    on_scale = all(0 <= label <= 3 for label in labels) and max(labels) == 3
    pairs = Counter(zip(labels, grades, strict=True))
    return GradeAgreement(
        labelled=len(labels),
        agreement=estimate_mean([a is b for a, b in zip(people, model, strict=True)]),
        kappa=cohen_kappa(people, model),
        weighted_kappa=weighted_kappa(labels, grades) if on_scale else None,
        confusion={
            str(label): {str(grade): pairs[label, grade] for grade in GRADES}
            for label in sorted(set(labels))
        },
    )


@dataclass(frozen=True, slots=True)
class GraderAgreement:
    """Two people on the documents that both graded; figures are None if there are none.

    `kappa` is about relevant or not, `weighted_kappa` about the grades.
    """

    both: int
    same: float | None = None
    kappa: float | None = None
    weighted_kappa: float | None = None


def grader_agreement(a: PairLabels, b: PairLabels) -> GraderAgreement:
    """How far two graders agree."""
    both = [name for name in a if name in b]
    if not both:
        return GraderAgreement(0)
    first, second = [a[name] for name in both], [b[name] for name in both]
    same = sum(x == y for x, y in zip(first, second, strict=True)) / len(both)
    kappa = cohen_kappa([grade > 0 for grade in first], [grade > 0 for grade in second])
    return GraderAgreement(len(both), same, kappa, weighted_kappa(first, second))


TABLE_GRADER = "table"
"""Who gave the labels that are in the column `label` of the table itself."""

_GRADER = re.compile(r"\w[\w .@'-]{0,39}")
_MAX_GRADERS = 50  # each is compared with each
_MAX_JOURNAL = 64 * 2**20  # half a million grades, which are held in memory


@dataclass(frozen=True, slots=True)
class _Grades:
    """The grades of one person, and comments on documents."""

    labels: dict[PairName, int] = field(default_factory=dict)
    comments: dict[PairName, str] = field(default_factory=dict)


class GradedPool:
    """The grades of several people, one JSON line each in `TABLE.journal.jsonl`.

    A grade is on disk before the page says that it was saved; of several for one document the last
    one counts. Writers take turns by a lock, so that two browsers, or two servers over one folder,
    lose nothing to each other. Raises `DataError` if the table or its journal cannot be read.
    """

    def __init__(self, table: Path) -> None:
        self.path = table
        pairs, self._given = read_pool(table, texts=False)
        self.pairs: Sequence[PassagePair] = pairs
        self.place = {pair.name: place for place, pair in enumerate(pairs)}
        self.journal = table.with_name(f"{table.name}.journal.jsonl")
        self._lock = RLock()
        self._start_over()

    def _start_over(self) -> None:
        self._offset = 0
        self._graders: dict[str, _Grades] = {}
        if self._given:
            self._graders[TABLE_GRADER] = _Grades(dict(self._given))

    def grades(self) -> dict[str, dict[PairName, int]]:
        """The grades by grader."""
        with self._lock:
            self._catch_up()
            return {
                grader: {name: grade for name, grade in found.labels.items() if name in self.place}
                for grader, found in self._graders.items()
            }

    def grades_of(self, grader: str) -> dict[PairName, int]:
        """Those of one person; empty before the first."""
        return self.grades().get(grader, {})

    def comments(self, grader: str) -> dict[PairName, str]:
        """What one person wrote about documents."""
        with self._lock:
            self._catch_up()
            return dict(self._graders.get(grader, _Grades()).comments)

    def save(self, grader: str, labels: PairLabels, comment: str | None = None) -> None:
        """Keep grades of one person, with a comment on these documents."""
        check_grader(grader)
        for name, grade in labels.items():
            if name not in self.place:
                raise UsageError(f"document {name[1]!r} of query {name[0]!r} is not in this pool")
            check_grade(grade)
        said = {"grader": grader, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        said |= {} if comment is None else {"comment": comment}
        lock = FileLock(self.path.with_name(f".{self.path.name}.lock"))
        try:
            with self._lock, lock:
                self._catch_up()
                if grader not in self._graders and len(self._graders) >= _MAX_GRADERS:
                    raise UsageError(
                        f"this pool has the grades of {_MAX_GRADERS} people, the most that it may "
                        "have; make another pool with: assay judge pool"
                    )
                self._append(
                    {**said, "query_id": query_id, "doc_id": doc_id, "grade": grade}
                    for (query_id, doc_id), grade in labels.items()
                )
                self._catch_up()
        except OSError as error:
            raise self._unusable(f"the grade was not saved: {error.strerror}") from None

    def next_ungraded(self, grader: str, after: int = -1) -> int | None:
        """The place of the next pair without a grade, from the start again after the last one."""
        graded = self.grades_of(grader)
        places = [*range(after + 1, len(self.pairs)), *range(min(after + 1, len(self.pairs)))]
        return next((place for place in places if self.name(place) not in graded), None)

    def name(self, place: int) -> PairName:
        """Query id and document id of a pair."""
        return self.pairs[place].name

    def table(self, grader: str) -> bytes:
        """The table as this person would have filled it in."""
        return pool_table(self.pairs, self.grades_of(grader))

    def agreement(self) -> list[tuple[str, str, GraderAgreement]]:
        """How far each two graders agree."""
        found = self.grades()
        return [(a, b, grader_agreement(found[a], found[b])) for a, b in combinations(found, 2)]

    def _size(self) -> int:
        return self.journal.stat().st_size if self.journal.exists() else 0

    def _catch_up(self) -> None:
        """Read the lines that were added since; all of them if the journal was replaced."""
        size = self._size()
        if size < self._offset:
            self._start_over()
        if size > _MAX_JOURNAL:
            raise self._unusable(f"has more than {_MAX_JOURNAL:,} bytes")
        if size == self._offset:
            return
        lines = complete_lines(self.journal, self._offset)
        read = [(end, *self._parsed(line)) for end, line in lines]
        # Only now: a damaged line is reported each time, and none of those around it is lost.
        for end, grader, name, grade, comment in read:
            self._offset = end
            found = self._graders.setdefault(grader, _Grades())
            found.labels.pop(name, None)
            if grade is not None:  # earlier versions took grades back
                found.labels[name] = grade
            if comment is not None:
                found.comments.pop(name, None)
            if comment:
                found.comments[name] = comment

    def _parsed(self, line: bytes) -> tuple[str, PairName, int | None, str | None]:
        match record := parse_object(line) or {}:
            case {"grader": str(grader), "query_id": str(query_id), "doc_id": str(doc_id)}:
                grade, comment = record.get("grade"), record.get("comment")
                known = grade is None or (type(grade) is int and grade in GRADES)
                if known and _GRADER.fullmatch(grader):
                    text = comment if isinstance(comment, str) else None
                    return grader, (query_id, doc_id), grade, text
        raise self._unusable(f"has a line that is not a grade; delete it: {line[:80]!r}")

    def _unusable(self, what: str) -> DataError:
        return DataError(what, file=self.journal)

    def _append(self, records: Iterable[Mapping[str, object]]) -> None:
        text = b"".join(orjson.dumps(each, option=orjson.OPT_APPEND_NEWLINE) for each in records)
        if self._offset + len(text) > _MAX_JOURNAL:
            raise self._unusable(f"would have more than {_MAX_JOURNAL:,} bytes")
        if self._size() > self._offset:  # half a line of a writer that was killed
            cut_file(self.journal, self._offset)
        descriptor = open_to_append(self.journal)
        try:
            while text:  # a disk that is nearly full takes a part, and says so at the next one
                text = text[os.write(descriptor, text) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_grade(grade: int) -> None:
    """Raise `UsageError` for a grade that is not on the scale."""
    if grade not in GRADES:
        raise UsageError(f"a grade is one of {', '.join(map(str, GRADES))}, got {grade}")


def check_grader(name: str) -> None:
    """Raise `UsageError` for a name that would not do in a list, an address or a file's name."""
    if not _GRADER.fullmatch(name):
        raise UsageError(
            f"a grader's name has 1 to 40 letters, digits, blanks or . @ ' -, got {name[:60]!r}"
        )
