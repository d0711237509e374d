"""People grade a pool: a journal of what several of them graded at once, beside its table.

In the web UI each grade is a line of `TABLE.journal.jsonl`, on disk before the page says that it
was saved. Writers take turns by a lock, so that graders at two browsers, or two servers over one
folder, lose nothing to each other.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from threading import RLock

from assay.data.journal import Journal
from assay.errors import DataError, UsageError
from assay.labels.pool import (
    GRADES,
    GraderAgreement,
    PairName,
    PassagePair,
    grader_agreement,
    pool_table,
    read_pool,
)
from assay.locks import FileLock
from assay.net.json import JsonObject

TABLE_GRADER = "table"
"""Who gave the labels that are in the column `label` of the table itself."""

_GRADER = re.compile(r"\w[\w .@'-]{0,39}")
_MAX_GRADERS = 50  # each is compared with each
_MAX_JOURNAL = 64 * 2**20  # half a million grades, which are held in memory
_UNDO = 1000


@dataclass
class _Grades:
    """What one person has said: the grades that hold, and how to take each back, oldest first."""

    labels: dict[PairName, int] = field(default_factory=dict)
    before: deque[tuple[PairName, int | None]] = field(default_factory=lambda: deque(maxlen=_UNDO))
    comments: dict[PairName, str] = field(default_factory=dict)

    def apply(self, name: PairName, grade: int | None, *, undo: bool) -> None:
        if undo and self.before:
            self.before.pop()
        elif not undo:
            self.before.append((name, self.labels.get(name)))
        if grade is None:
            self.labels.pop(name, None)
        else:
            self.labels[name] = grade


class GradedPool:
    """Safe to use from several threads and processes.

    Parameters:
        table: a table as `assay judge pool` writes it, a `.csv` file.

    Raises:
        DataError: the table or its journal cannot be read.
    """

    def __init__(self, table: Path) -> None:
        self.path = table
        pairs, self._given = read_pool(table, texts=False)
        self.pairs: list[PassagePair] = pairs
        self.place = {pair.name: place for place, pair in enumerate(pairs)}
        self._journal = Journal(table, limit=_MAX_JOURNAL)
        self._lock = RLock()
        self._start_over()

    def _start_over(self) -> None:
        self._offset = 0
        self._graders: dict[str, _Grades] = {}
        if self._given:
            self._graders[TABLE_GRADER] = _Grades(dict(self._given))

    def grades(self) -> dict[str, dict[PairName, int]]:
        """The grades that hold now, by grader."""
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
            return dict(self._graders[grader].comments) if grader in self._graders else {}

    def save(
        self, grader: str, labels: Mapping[PairName, int | None], comment: str | None = None
    ) -> None:
        """Keep grades of one person, with a comment on these documents; None takes one back.

        Raises:
            UsageError: a pair is not of this pool, a grade is not on the scale, or the name of the
                grader cannot be used.
            DataError: it could not be written.
        """
        check_grader(grader)
        for name, grade in labels.items():
            if name not in self.place:
                raise UsageError(f"document {name[1]!r} of query {name[0]!r} is not in this pool")
            check_grade(grade)
        with self._writing():
            if grader not in self._graders and len(self._graders) >= _MAX_GRADERS:
                raise UsageError(
                    f"this pool already has the grades of {_MAX_GRADERS} people, the most that it "
                    "may have; make another pool with: assay judge pool"
                )
            said = {} if comment is None else {"comment": comment}
            records = (_record(grader, name, grade) | said for name, grade in labels.items())
            self._append(*records)

    def undo(self, grader: str) -> PairName | None:
        """Take back what one person said last, and say of which pair; None if there is nothing."""
        with self._writing():
            before = self._graders[grader].before if grader in self._graders else None
            if not before:
                return None
            name, grade = before[-1]
            self._append({**_record(grader, name, grade), "undo": True})
            return name

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

    def _catch_up(self) -> None:
        """Read what was added since, by whomever; all of it where the journal was replaced."""
        if self._journal.size < self._offset:
            self._start_over()
        records, offset = self._journal.read_from(self._offset)
        lines = [(*self._checked(each), each.get("comment")) for each in records]
        # Only now: a damaged line is reported each time, and none of those around it is lost.
        self._offset = offset
        for grader, name, grade, undo, comment in lines:
            found = self._graders.setdefault(grader, _Grades())
            found.apply(name, grade, undo=undo)
            if isinstance(comment, str):
                found.comments[name] = comment
                if not comment:
                    del found.comments[name]

    def _checked(self, record: JsonObject) -> tuple[str, PairName, int | None, bool]:
        match record:
            case {"grader": str(grader), "query_id": str(query_id), "doc_id": str(doc_id)}:
                grade = record.get("grade")
                if grade is not None and (type(grade) is not int or grade not in GRADES):
                    raise self._damaged(f"the grade {grade!r:.80}")
                if not _GRADER.fullmatch(grader):
                    raise self._damaged(f"the grader {grader[:80]!r}")
                return grader, (query_id, doc_id), grade, record.get("undo") is True
        raise self._damaged("a line without grader, query_id and doc_id")

    def _damaged(self, what: str) -> DataError:
        return DataError(f"is damaged: it has {what}; delete that line", file=self._journal.path)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """With all grades read, as the only writer; a line that a killed one left half is cut."""
        lock = FileLock(self.path.with_name(f".{self.path.name}.lock"))
        try:
            with self._lock, lock:
                self._catch_up()
                if self._journal.size > self._offset:
                    self._journal.cut(self._offset)
                yield
                self._catch_up()
        except OSError as error:
            what = f"the grade was not saved: {error.strerror}"
            raise DataError(what, file=self._journal.path) from None

    def _append(self, *records: JsonObject) -> None:
        if records:
            self._journal.append(*records, synced=True)


def _record(grader: str, name: PairName, grade: int | None) -> JsonObject:
    query_id, doc_id = name
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"grader": grader, "query_id": query_id, "doc_id": doc_id, "grade": grade, "at": now}


def check_grade(grade: int | None) -> None:
    """Raise `UsageError` for a grade that is not on the scale; None is none at all."""
    if grade is not None and grade not in GRADES:
        raise UsageError(f"a grade is one of {', '.join(map(str, GRADES))}, got {grade}")


def check_grader(name: str) -> None:
    """Raise `UsageError` for a name that would not do in a list, an address or a file's name."""
    if not _GRADER.fullmatch(name):
        raise UsageError(
            f"a grader's name has 1 to 40 letters, digits, blanks or . @ ' -, got {name[:60]!r}"
        )
