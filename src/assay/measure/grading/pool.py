"""Grade a pool of passages into a file: resumable, bounded in cost, checked by controls."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from assay.data.dataset import Dataset, Document, Judgments
from assay.data.journal import Journal, check_writable
from assay.data.qrels import describe_model_judgments
from assay.data.text_file import Record
from assay.errors import UsageError
from assay.measure.answers.judge_controls import ControlResult
from assay.measure.grading.grade_file import (
    GradeRecord,
    grade_record,
    read_grade_records,
    record_of_row,
    write_grades,
    write_qrels,
)
from assay.measure.grading.grader import (
    PassageGrade,
    PassagePair,
    RelevanceGrader,
    ask_grade_controls,
    grade_pairs,
    unreliable_grades,
)
from assay.progress import Progress, silent

PairName = tuple[str, str]
_NO_TEXT = Document("", "", "")
"""Query id and document id."""


@dataclass(frozen=True)
class GradingPool:
    """What is to be graded.

    Attributes:
        pairs: queries with passages, each pair once.
        labels: people's labels of some of them, and of no others.
    """

    pairs: Sequence[PassagePair]
    labels: Mapping[PairName, int] = field(default_factory=dict)


@dataclass(frozen=True)
class GradingResult:
    """What was graded; `doubt` says why it is not believed, where that is so.

    `kept` are grades of an earlier run, `unreadable` pairs without a grade.
    """

    records: list[GradeRecord]
    kept: int
    unreadable: int
    unsteady: int
    controls: ControlResult | None
    doubt: str | None


def choose_pairs(
    rankings: Sequence[Mapping[str, Sequence[str]]],
    dataset: Dataset,
    judgments: Judgments,
    *,
    depth: int = 10,
    check: int = 50,
    seed: int = 42,
    texts: bool = True,
) -> GradingPool:
    """The unjudged documents that systems returned, and judged ones to check the model by.

    Args:
        rankings: for each system its ranking of each query.
        dataset: has the texts of queries and documents.
        judgments: what people have judged.
        depth: how many documents of each ranking are taken.
        check: how many judged pairs are drawn, as many of each grade where there are enough.
        seed: decides which ones.
        texts: whether texts are needed. People can look documents up by their ids: without it,
            those of a data set that has no documents are taken, and their passages are empty.
    """
    if texts:
        dataset.require_documents("grading passages by a model")
    documents, has_texts = dataset.documents, bool(dataset.documents)
    wanted: dict[PairName, None] = {}
    judged: dict[PairName, int] = {}
    asked = dict.fromkeys(query_id for each in rankings for query_id in each)
    for query_id in asked:
        if query_id not in dataset.queries:
            continue
        known = judgments.get(query_id, {})
        for doc_id, grade in known.items() if check else ():
            if not has_texts or doc_id in documents:
                judged[query_id, doc_id] = grade
        found = dict.fromkeys(
            doc_id for each in rankings for doc_id in each.get(query_id, ())[:depth]
        )
        for doc_id in found:
            if doc_id not in known and (not has_texts or doc_id in documents):
                wanted[query_id, doc_id] = None
    labels = _drawn(judged, check, seed)
    pairs = []
    texts_of: dict[str, tuple[str, str]] = {}
    for query_id, doc_id in [*wanted, *labels]:
        if doc_id not in texts_of:
            document = documents.get(doc_id, _NO_TEXT)
            texts_of[doc_id] = document.full_text, document.title
        pairs.append(
            PassagePair(query_id, dataset.queries[query_id].text, doc_id, *texts_of[doc_id])
        )
    return GradingPool(pairs, labels)


def _drawn(judged: Mapping[PairName, int], number: int, seed: int) -> dict[PairName, int]:
    """As many of each grade as there are, at most `number` in all."""
    chooser = random.Random(seed)
    by_grade: dict[int, list[PairName]] = {}
    for name in sorted(judged):
        by_grade.setdefault(judged[name], []).append(name)
    for names in by_grade.values():
        chooser.shuffle(names)
    drawn: dict[PairName, int] = {}
    while len(drawn) < number and any(by_grade.values()):
        for grade, names in by_grade.items():
            if names and len(drawn) < number:
                drawn[names.pop()] = grade
    return drawn


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

    A model that is not believed leaves no file. If it fails or the budget is used up, the grades so
    far stay in the journal beside `out`.

    Args:
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
    created = datetime.now(UTC).date().isoformat()
    asked = await ask_grade_controls(grader, pool.pairs, controls)
    if doubt := unreliable_grades([], asked):
        return GradingResult([], 0, 0, 0, asked, doubt)

    def made(found: PassageGrade) -> GradeRecord | None:
        label = pool.labels.get((found.pair.query_id, found.pair.doc_id))
        return grade_record(found, grader, created, label, relevant_from)

    def keep(found: PassageGrade) -> None:
        if (record := made(found)) is not None:
            journal.append(record.to_json())

    def is_known(pair: PassagePair) -> bool:
        name = (pair.query_id, pair.doc_id)
        return name in known and known[name].is_of(pair, grader)

    left = [pair for pair in pool.pairs if not is_known(pair)]
    grades = await grade_pairs(grader, left, on_grade=keep, progress=progress)
    before = [
        PassageGrade(pair, known[pair.query_id, pair.doc_id].votes)
        for pair in pool.pairs
        if is_known(pair)
    ]
    every = [*before, *grades]
    records = [record for each in every if (record := made(each)) is not None]
    doubt = unreliable_grades(every, asked)
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
        write_qrels(qrels_beside(out), records)
        journal.remove()
    return result


def qrels_beside(out: Path) -> Path:
    """Where the qrels of a table of grades are."""
    return out.with_suffix(".qrels")


def _earlier(out: Path, journal: Journal, resume: bool) -> dict[PairName, GradeRecord]:
    if resume:
        rows = [
            record_of_row(Record(str(journal.path), place, fields))
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
