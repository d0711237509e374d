"""A model grades a pool into a file: resumable, bounded in cost, checked by controls."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

from assay.answers.judge_controls import JudgeControls
from assay.data.dataset import Judgments
from assay.data.journal import Journal, check_writable
from assay.data.qrels import MODEL_MADE, describe_model_judgments, write_trec_qrels
from assay.data.table import cell_text, csv_table, read_table, text_cell
from assay.data.text_file import Record, write_file
from assay.errors import UsageError
from assay.labels.grading.grader import (
    PairName,
    PassageGrade,
    PassagePair,
    RelevanceGrader,
    ask_grade_controls,
    grade_pairs,
    unreliable_grades,
)
from assay.labels.grading.pool import GradingPool, good_row, grade_in
from assay.net.json import JsonObject
from assay.progress import Progress, silent
from assay.text import text_hash


@dataclass(frozen=True, slots=True)
class GradeRecord:
    """A grade with its provenance; `label` is a person's, where there is one.

    `model_grade` is what the model said, `grade` what metrics use: 0 below the grade from which a
    passage counts as relevant.
    """

    query_id: str
    query: str
    doc_id: str
    grade: int
    model_grade: int
    judged_by: str
    prompt: str
    votes: tuple[int, ...]
    passage_sha256: str
    created: str
    label: int | None = None

    def is_of(self, pair: PassagePair, grader: RelevanceGrader) -> bool:
        """Whether asking the grader about the pair would be asking the same again."""
        ours = (self.judged_by, self.prompt, len(self.votes))
        same = ours == (grader.name, grader.prompt, grader.votes)
        return same and self.passage_sha256 == text_hash(pair.passage)

    def to_json(self) -> JsonObject:
        """A line of the journal, or a row of the table."""
        values = {name: getattr(self, name) for name in COLUMNS}
        label = "" if self.label is None else self.label
        return {**values, "votes": " ".join(map(str, self.votes)), "label": label}


COLUMNS = tuple(each.name for each in fields(GradeRecord))


def _record_of(row: Record) -> GradeRecord:
    """A grade as `GradeRecord.to_json` wrote it."""
    missing = [name for name in COLUMNS if name not in row.fields]
    if missing:
        raise row.refusal(f"has no {missing[0]!r}: this is not a table of grades")
    texts = {name: str(row.fields[name]) for name in COLUMNS}
    return GradeRecord(
        query_id=texts["query_id"],
        query=texts["query"],
        doc_id=texts["doc_id"],
        grade=grade_in(row, texts["grade"]),
        model_grade=grade_in(row, texts["model_grade"]),
        judged_by=texts["judged_by"],
        prompt=texts["prompt"],
        votes=tuple(grade_in(row, each) for each in texts["votes"].split()),
        passage_sha256=texts["passage_sha256"],
        created=texts["created"],
        label=grade_in(row, texts["label"]) if texts["label"].strip() else None,
    )


def read_grade_records(path: Path) -> list[GradeRecord]:
    """The grades of a table that `write_grades` wrote."""
    return [_record_of(_without_apostrophes(good_row(row))) for row in read_table(path)]


def _without_apostrophes(row: Record) -> Record:
    """The row of a table as a line of the journal has it."""
    return replace(row, fields={key: _each(cell_text, cell) for key, cell in row.fields.items()})


def _each(change: Callable[[str], str], cell: object) -> object:
    return change(cell) if isinstance(cell, str) else cell


def write_grades(path: Path, records: Sequence[GradeRecord]) -> None:
    """Write the table and, beside it, the same grades as qrels; each all or nothing."""
    rows = (each.to_json() for each in records)
    cells = ([_each(text_cell, row[name]) for name in COLUMNS] for row in rows)
    write_file(path, csv_table(COLUMNS, cells))
    judged = ((r.query_id, f"{MODEL_MADE}{r.judged_by}", r.doc_id, r.grade) for r in records)
    write_trec_qrels(qrels_beside(path), judged, instead="the table of grades")


@dataclass(frozen=True)
class GradingResult:
    """What was graded; `doubt` says why it is not believed, where that is so.

    `kept` are grades of an earlier run, `unreadable` pairs without a grade.
    """

    records: list[GradeRecord]
    kept: int
    unreadable: int
    unsteady: int
    controls: JudgeControls | None
    doubt: str | None


async def grade_pool(
    grader: RelevanceGrader,
    pool: GradingPool,
    out: Path,
    *,
    resume: bool = False,
    relevant_from: int = 2,
    controls: int = 5,
    progress: Progress = silent,
) -> GradingResult:
    """Grade a pool; writes the table `out` and, beside it, qrels of the same name.

    A model that is not believed leaves no table. The grades that it gave stay in the journal beside
    `out`, as they do if it fails or the budget is used up; with `resume`, another model goes on.

    Parameters:
        grader: who grades.
        pool: what is graded.
        out: the table, a `.csv` file.
        resume: keep grades of `out` and its journal that were given by the same model, prompt and
            number of votes to the same text.
        relevant_from: the lowest grade that counts as relevant; lower ones become 0.
        controls: how many passages of other queries are put before the model first.
    """
    if out.suffix.lower() != ".csv":
        raise UsageError(f"grades are written to a .csv file, got {out.name!r}")
    check_writable(out)
    journal = Journal(out)
    known = _earlier(out, journal, resume)
    asked = await ask_grade_controls(grader, pool.pairs, controls)
    if doubt := unreliable_grades([], asked):
        return GradingResult([], 0, 0, 0, asked, doubt)

    def made(found: PassageGrade) -> GradeRecord | None:
        label = pool.labels.get(found.pair.name)
        return _record_of_grade(found, grader, label, relevant_from)

    def keep(found: PassageGrade) -> None:
        if (record := made(found)) is not None:
            journal.append(record.to_json())

    before, left = _divided(pool, known, grader)
    grades = await grade_pairs(grader, left, on_grade=keep, progress=progress)
    every = [*before, *grades]
    records = [record for each in every if (record := made(each)) is not None]
    doubt = unreliable_grades(every, asked)
    if doubt and journal.path.exists():
        doubt = (
            f"{doubt}. Its grades stay in {str(journal.path)!r}: pass --resume with the other "
            "model, which keeps no grade of this one, or delete the file"
        )
    result = GradingResult(
        records=records,
        kept=len(before),
        unreadable=len(every) - len(records),
        unsteady=sum(each.unsteady for each in every),
        controls=asked,
        doubt=doubt,
    )
    if doubt is None:
        write_grades(out, records)
        journal.remove()
    return result


def _divided(
    pool: GradingPool, known: Mapping[PairName, GradeRecord], grader: RelevanceGrader
) -> tuple[list[PassageGrade], list[PassagePair]]:
    """The grades that are known, and the pairs to ask about."""
    before, left = [], []
    for pair in pool.pairs:
        if pair.name in known and known[pair.name].is_of(pair, grader):
            before.append(PassageGrade(pair, known[pair.name].votes))
        else:
            left.append(pair)
    return before, left


def _record_of_grade(
    found: PassageGrade, grader: RelevanceGrader, label: int | None, relevant_from: int
) -> GradeRecord | None:
    """What a model said about a pair; None where it could not be read."""
    pair, grade = found.pair, found.grade
    if grade is None:
        return None
    return GradeRecord(
        query_id=pair.query_id,
        query=pair.query,
        doc_id=pair.doc_id,
        grade=grade if grade >= relevant_from else 0,
        model_grade=grade,
        judged_by=grader.name,
        prompt=grader.prompt,
        votes=tuple(vote for vote in found.votes if vote is not None),
        passage_sha256=text_hash(pair.passage),
        created=datetime.now(UTC).date().isoformat(),
        label=label,
    )


def qrels_beside(out: Path) -> Path:
    """Where the qrels of a table of grades are."""
    return out.with_suffix(".qrels")


def _earlier(out: Path, journal: Journal, resume: bool) -> dict[PairName, GradeRecord]:
    if resume:
        rows = [
            _record_of(Record(str(journal.path), place, fields))
            for place, fields in enumerate(journal.read(), start=1)
        ]
        known = [*(read_grade_records(out) if out.exists() else []), *rows]
        return {(each.query_id, each.doc_id): each for each in known}
    for path in (out, journal.path):
        if path.exists():
            raise UsageError(
                f"{str(path)!r} already exists: pass --resume to keep its grades and add the "
                "missing ones; to start over, delete it or choose another --out"
            )
    return {}


def fill_judgments(people: Judgments, records: Sequence[GradeRecord]) -> tuple[Judgments, str]:
    """People's judgments with a model's where they have none; and in words, which are whose."""
    filled = {query_id: dict(grades) for query_id, grades in people.items()}
    models: dict[str, int] = {}
    for each in records:
        grades = filled.setdefault(each.query_id, {})
        if each.doc_id not in grades:
            grades[each.doc_id] = each.grade
            models[each.judged_by] = models.get(each.judged_by, 0) + 1
    return filled, describe_model_judgments(models, sum(map(len, filled.values())))
