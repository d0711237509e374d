"""A pool of passages that a model or people grade: how it is chosen, its table, people's grades.

pool = choose_pairs([{"q1": ["d7", "d2"]}], dataset, dataset.judgments_in("test"))
write_pool(Path("runs/pools/tea.csv"), pool.pairs)      # people fill in the column `label`, or
GradedPool(Path("runs/pools/tea.csv")).save("Ann", ("q1", "d7"), 3)     # grade in the web UI
"""

import os
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import orjson

from assay.data.dataset import Dataset, Document, Judgments
from assay.data.qrels import parse_grade
from assay.data.table import cell_text, csv_table, plain_cell, read_table, text_cell
from assay.data.text_file import Findings, write_file
from assay.errors import DataError, UsageError
from assay.files import FileLock, complete_lines, open_to_append
from assay.metrics.statistics import Estimate, cohen_kappa, estimate_mean, weighted_kappa
from assay.net.json import parse_object

# Irrelevant, related, relevant in part, and the answer: the scale of TREC's deep learning track.
GRADES = (0, 1, 2, 3)
# Characters of a passage that are shown; spreadsheets cut cells at 32,767.
MAX_PASSAGE = 8_000
POOL_COLUMNS = ("query_id", "query", "doc_id", "title", "passage", "label")
MIN_GRADED = 30  # below this many labels a kappa says little
_SEED = 42  # fixed: a pool that is made again of the same runs must check the same documents
PairName = tuple[str, str]  # query id and document id
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
    """The unjudged documents that systems returned, and `check` judged ones to check the model by.

    `rankings` has for each system its ranking of each query, of which `depth` documents are taken.
    Without `texts`, people look documents up by their ids: passages may be empty.
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
    # As many of each grade as there are, at most `check` in all; the same in any order of the runs.
    chooser, labels = random.Random(_SEED), dict[PairName, int]()
    for names in judged.values():
        names.sort()
        chooser.shuffle(names)
    while len(labels) < check and any(judged.values()):
        for grade, names in judged.items():
            if names and len(labels) < check:
                labels[names.pop()] = grade
    no_text = Document("", "", "")
    found = ((name, documents.get(name[1], no_text)) for name in [*wanted, *labels])
    pairs = [
        PassagePair(query_id, dataset.queries[query_id].text, doc_id, each.full_text, each.title)
        for (query_id, doc_id), each in found
    ]
    return GradingPool(pairs, labels)


def read_pool(path: Path, *, texts: bool = True) -> GradingPool:
    """The pairs of a table with query, doc_id and passage, and people's labels of some of them.

    Without `texts` a passage may be missing.
    """
    pairs: dict[PairName, PassagePair] = {}
    labels: dict[PairName, int] = {}
    findings = Findings()
    for row in findings.sound(read_table(path)):
        cells = {key: cell_text(plain_cell(row.find(key)) or "") for key in POOL_COLUMNS}
        for key in ("query", "doc_id", "passage") if texts else ("query", "doc_id"):
            if not cells[key]:
                row.fail(f"has no {key}, a column that a pool needs")
        label = cells.pop("label")
        pair = PassagePair(**cells | {"query_id": cells["query_id"] or cells["query"]})
        if pairs.setdefault(pair.name, pair) != pair:
            row.fail(
                f"document {pair.doc_id!r} has another text or query for {pair.query_id!r} before; "
                "rename one of the two"
            )
        if label:
            with findings.errors_collected(row):
                labels[pair.name] = parse_grade(label)
    if not pairs:
        raise DataError("has no passages to grade", file=path)
    return GradingPool(list(pairs.values()), labels)


def write_pool(path: Path, pairs: Iterable[PassagePair]) -> None:
    """Write the table with an empty column `label`, query by query."""
    write_file(path, pool_table(sorted(pairs, key=lambda pair: pair.query_id), {}))


def pool_table(
    pairs: Iterable[PassagePair], labels: PairLabels, comments: Mapping[PairName, str] | None = None
) -> bytes:
    """The table that a person fills in, with the labels and comments that there are, as CSV."""
    rows = []
    for pair in pairs:
        cells = (pair.query_id, pair.query, pair.doc_id, pair.title, pair.passage[:MAX_PASSAGE])
        remark = [] if comments is None else [text_cell(comments.get(pair.name, ""))]
        rows.append((*map(text_cell, cells), labels.get(pair.name, ""), *remark))
    return csv_table(POOL_COLUMNS if comments is None else (*POOL_COLUMNS, "comment"), rows)


def combine_labels(graders: Sequence[PairLabels]) -> dict[PairName, int]:
    """One grade for each document: the median, the lower one of two in the middle."""
    grades: dict[PairName, list[int]] = {}
    for labels in graders:
        for name, grade in labels.items():
            grades.setdefault(name, []).append(grade)
    return {name: sorted(found)[(len(found) - 1) // 2] for name, found in grades.items()}


@dataclass(frozen=True, slots=True)
class GradeAgreement:
    """How a model's grades agree with people's.

    `agreement` and `kappa` (Cohen 1960) are about relevant or not, `weighted_kappa` (Cohen 1968)
    about the grades, if labels are from 0 to 3. `confusion` counts by label, then by grade.
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


class GraderAgreement(NamedTuple):
    """Two people on the documents that both graded, as in `GradeAgreement`."""

    both: int
    same: float
    kappa: float | None
    weighted_kappa: float | None


def grader_agreement(a: PairLabels, b: PairLabels) -> GraderAgreement | None:
    """How far two graders agree; None if they graded no document in common."""
    pairs = [(a[name], b[name]) for name in a if name in b]
    if not pairs:
        return None
    first, second = zip(*pairs, strict=True)
    same = sum(x == y for x, y in pairs) / len(pairs)
    kappa = cohen_kappa([grade > 0 for grade in first], [grade > 0 for grade in second])
    return GraderAgreement(len(pairs), same, kappa, weighted_kappa(first, second))


# Who gave the labels that are in the column `label` of the table itself.
TABLE_GRADER = "table"

_GRADER = re.compile(r"\w[\w .@'-]{0,39}")
# Each is compared with each: a visitor could make the page take hours.
_MAX_GRADERS = 50
MAX_COMMENT = 1000
_MAX_JOURNAL = 64 * 2**20  # half a million grades, which are held in memory


class GradedPool:
    """The grades of several people, one JSON line each in `TABLE.journal.jsonl`.

        pool = GradedPool(Path("runs/pools/tea.csv"))
        pool.save("Ann", pool.pairs[0].name, 3)
        pool.grades()["Ann"]

    A grade is on disk when `save` returns; of several for one document the last one counts.
    """

    def __init__(self, table: Path) -> None:
        self.path = table
        pairs, self._given = read_pool(table, texts=False)
        self.pairs: Sequence[PassagePair] = pairs
        self.place = {pair.name: place for place, pair in enumerate(pairs)}
        self.journal = table.with_name(f"{table.name}.journal.jsonl")

    def grades(self) -> dict[str, dict[PairName, int]]:
        """The grades by grader."""
        return self._read()[0]

    def grades_of(self, grader: str) -> dict[PairName, int]:
        """Those of one person; empty before the first."""
        return self.grades().get(grader, {})

    def comments(self) -> dict[str, dict[PairName, str]]:
        """What graders remarked on documents, by grader."""
        return self._read()[1]

    def save(self, grader: str, name: PairName, grade: int, comment: str = "") -> None:
        """Keep a grade of one person, with a comment on the document."""
        check_grader(grader)
        if name not in self.place:
            raise UsageError(f"document {name[1]!r} of query {name[0]!r} is not in this pool")
        if grade not in GRADES:
            raise UsageError(f"a grade is one of {', '.join(map(str, GRADES))}, got {grade}")
        record = {
            "grader": grader,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "query_id": name[0],
            "doc_id": name[1],
            "grade": grade,
        }
        if comment:
            record["comment"] = comment[:MAX_COMMENT]
        line = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
        try:
            # Two browsers, or two servers over one folder, lose nothing to each other.
            with FileLock(self.path.with_name(f".{self.path.name}.lock")):
                graders, _, end = self._read()
                if grader not in graders and len(graders) >= _MAX_GRADERS:
                    raise UsageError(
                        f"this pool has the grades of {_MAX_GRADERS} people, the most that it may "
                        "have; make another pool with: assay judge pool"
                    )
                if end + len(line) > _MAX_JOURNAL:
                    raise self._unusable(f"would have more than {_MAX_JOURNAL:,} bytes")
                with os.fdopen(open_to_append(self.journal), "ab") as file:
                    file.truncate(end)  # without half a line of a writer that was killed
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as error:
            raise self._unusable(f"the grade was not saved: {error.strerror}") from None

    def next_ungraded(self, grader: str, after: int = -1) -> int | None:
        """The place of the next pair without a grade, from the start again after the last one."""
        graded = self.grades_of(grader)
        places = [*range(after + 1, len(self.pairs)), *range(min(after + 1, len(self.pairs)))]
        return next((place for place in places if self.pairs[place].name not in graded), None)

    def table(self, grader: str) -> bytes:
        """The table as this person would have filled it in, with a column for the comments."""
        grades, comments, _ = self._read()
        return pool_table(self.pairs, grades.get(grader, {}), comments.get(grader, {}))

    def agreement(self) -> list[tuple[str, str, GraderAgreement]]:
        """How far each two graders agree who graded some of the same documents."""
        grades = self.grades()
        pairs = ((a, b, grader_agreement(grades[a], grades[b])) for a, b in combinations(grades, 2))
        return [(a, b, agreement) for a, b, agreement in pairs if agreement is not None]

    def _read(self) -> tuple[dict[str, dict[PairName, int]], dict[str, dict[PairName, str]], int]:
        """Grades and comments by grader, and where the last complete line ends."""
        grades = {TABLE_GRADER: dict(self._given)} if self._given else {}
        comments: dict[str, dict[PairName, str]] = {}
        size = self.journal.stat().st_size if self.journal.exists() else 0
        if size > _MAX_JOURNAL:
            raise self._unusable(f"has more than {_MAX_JOURNAL:,} bytes")
        end = 0
        for after, line in complete_lines(self.journal) if size else ():
            end = after
            match record := parse_object(line) or {}:
                case {
                    "grader": str(grader),
                    "query_id": str(query_id),
                    "doc_id": str(doc_id),
                    "grade": int(grade),
                } if type(grade) is int and grade in GRADES and _GRADER.fullmatch(grader):
                    if (query_id, doc_id) in self.place:
                        grades.setdefault(grader, {})[query_id, doc_id] = grade
                        comment = record.get("comment")
                        said = comment[:MAX_COMMENT] if isinstance(comment, str) else ""
                        comments.setdefault(grader, {})[query_id, doc_id] = said
                case _:
                    what = f"has a line that is not a grade; delete it: {line[:80]!r}"
                    raise self._unusable(what)
        return grades, comments, end

    def _unusable(self, what: str) -> DataError:
        return DataError(what, file=self.journal)


def check_grader(name: str) -> None:
    """Raise `UsageError` for a name that would not do in a list, an address or a file's name."""
    if not _GRADER.fullmatch(name):
        raise UsageError(
            f"a grader's name has 1 to 40 letters, digits, blanks or . @ ' -, got {name[:60]!r}"
        )
