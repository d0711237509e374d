"""A model grades a pool from 0 to 3 into a file: resumable, checked by controls.

The scale is that of TREC's deep learning track; asking for steps before one final grade is from
UMBRELA (Upadhyay et al. 2024) and Thomas et al. 2023, "Large language models can accurately predict
searcher preferences". A model's grade is never called a judgment of people: everything that is
written names the model.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

from assay.answers.judge import Judge
from assay.data.dataset import Judgments
from assay.data.journal import Journal, check_writable
from assay.data.qrels import MODEL_MADE, describe_model_judgments, write_trec_qrels
from assay.data.table import cell_text, csv_table, read_table, text_cell
from assay.data.text_file import Record, write_file
from assay.errors import UsageError
from assay.labels.pool import (
    GRADES,
    MAX_PASSAGE,
    GradingPool,
    PairName,
    PassagePair,
    good_row,
    grade_in,
)
from assay.llm.prompt import delimited, delimiter_code, load_prompt
from assay.llm.providers.provider import LLMProvider
from assay.metrics.answer_values import JudgeControls
from assay.net.gather import for_each, gather
from assay.net.json import JsonObject
from assay.progress import Progress, silent
from assay.text import stems, text_hash

PROMPT = "relevance_grade"
_WORDS = tuple(map(str, GRADES))
_AT_ONCE = 16
_UNLIKE = 0.1
_CANDIDATES = 200
_MIN_CONTROLS = 2
_ALL_THE_SAME = 20


@dataclass(frozen=True, slots=True)
class PassageGrade:
    """What the model said about a pair, once for each vote; None if it could not be read."""

    pair: PassagePair
    votes: tuple[int | None, ...]

    @property
    def grade(self) -> int | None:
        """The lower median of the votes; None if one of them could not be read."""
        read = sorted(vote for vote in self.votes if vote is not None)
        return read[(len(read) - 1) // 2] if read and len(read) == len(self.votes) else None

    @property
    def unsteady(self) -> bool:
        """Whether the votes are more than one grade apart."""
        read = [vote for vote in self.votes if vote is not None]
        return bool(read) and max(read) - min(read) > 1


class RelevanceGrader:
    """Grades passages with a model.

    Parameters:
        provider: the model.
        votes: how often to ask about each passage; every second vote shows the passage first.
    """

    def __init__(self, provider: LLMProvider, votes: int = 1) -> None:
        if votes < 1:
            raise UsageError(f"a grade needs at least 1 vote, got {votes!r}")
        self.provider = provider
        self.votes = votes
        self._judge = Judge(provider)

    @property
    def name(self) -> str:
        """The provider's name, `KIND:MODEL`."""
        return self.provider.name

    @property
    def prompt(self) -> str:
        """The id of the prompt, for provenance."""
        return load_prompt(PROMPT).id

    async def grade(self, query: str, passage: str) -> tuple[int | None, ...]:
        """The votes about one passage; None for a reply that is not one of the grades alone."""
        prompts = [grade_prompt(query, passage, vote) for vote in range(self.votes)]
        words = await gather(self._judge.choose(prompt, _WORDS) for prompt in prompts)
        return tuple(None if word is None else int(word) for word in words)


def grade_prompt(query: str, passage: str, vote: int = 0) -> str:
    """Asks for the grade of a passage, which comes first in every second vote."""
    shown = passage[:MAX_PASSAGE]
    code = delimiter_code(query, shown, str(vote))
    asked = f"Query:\n{delimited('question', code, query)}"
    found = f"Passage:\n{delimited('document', code, shown)}"
    first, second = (found, asked) if vote % 2 else (asked, found)
    return load_prompt(PROMPT).fill(code=code, first=first, second=second)


async def ask_grade_controls(
    grader: RelevanceGrader, pairs: Sequence[PassagePair], number: int
) -> JudgeControls | None:
    """Queries with passages of other queries, which share no words: these deserve 0 or 1.

    None if no two pairs are unlike enough, or `number` is 0.
    """
    controls = list(_control_pairs(pairs, number))
    if not controls:
        return None
    votes = await gather(grader.grade(each.query, each.passage) for each in controls)
    grades = [PassageGrade(*each).grade for each in zip(controls, votes, strict=True)]
    right = sum(grade is not None and grade < 2 for grade in grades)
    return JudgeControls(same=0, same_right=0, different=len(controls), different_right=right)


def _control_pairs(pairs: Sequence[PassagePair], number: int) -> Iterator[PassagePair]:
    by_query = {pair.query_id: pair for pair in pairs[:_CANDIDATES]}
    known = [(pair, set(stems(pair.query)), set(stems(pair.passage))) for pair in by_query.values()]
    for place, (pair, asked, _) in enumerate(known[:number]):
        for other, _, held in known[place + 1 :] + known[:place]:
            if asked and len(asked & held) <= _UNLIKE * len(asked):
                yield pair._replace(passage=other.passage, doc_id=other.doc_id)
                break


def unreliable_grades(
    grades: Sequence[PassageGrade], controls: JudgeControls | None = None
) -> str | None:
    """The reason to distrust these grades, or None."""
    mute = sum(each.grade is None for each in grades)
    if 2 * mute > len(grades):
        return (
            f"the model gave no readable grade for {mute} of {len(grades)} passages, where 0, 1, 2 "
            "or 3 was asked for; choose another model"
        )
    if controls is not None and controls.different >= _MIN_CONTROLS:
        wrong = controls.different - controls.different_right
        if 2 * wrong > controls.different:
            return (
                f"the model calls a passage about something else relevant in {wrong} of "
                f"{controls.different} controls, so that its grades mean nothing; choose another "
                "model (skip the self-test with --judge-set controls=0)"
            )
    given = {each.grade for each in grades if each.grade is not None}
    if len(grades) >= _ALL_THE_SAME and len(given) == 1:
        return (
            f"the model gave grade {given.pop()} to all {len(grades)} passages, so that its grades "
            "tell nothing apart; choose another model"
        )
    return None


@dataclass(frozen=True, slots=True)
class GradeRecord:
    """A grade with its provenance; `label` is a person's, if there is one.

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
        label = "" if self.label is None else self.label
        return {**asdict(self), "votes": " ".join(map(str, self.votes)), "label": label}


COLUMNS = tuple(each.name for each in fields(GradeRecord))


def _record_of(row: Record) -> GradeRecord:
    """A grade as `GradeRecord.to_json` wrote it."""
    missing = [name for name in COLUMNS if name not in row.fields]
    if missing:
        raise row.refusal(f"has no {missing[0]!r}: this is not a table of grades")
    texts = {name: str(row.fields[name]) for name in COLUMNS}
    label = texts.pop("label")
    votes = tuple(grade_in(row, each) for each in texts.pop("votes").split())
    numbers = {name: grade_in(row, texts.pop(name)) for name in ("grade", "model_grade")}
    known = grade_in(row, label) if label.strip() else None
    return GradeRecord(**texts, **numbers, votes=votes, label=known)  # type: ignore[arg-type]


def read_grade_records(path: Path) -> list[GradeRecord]:
    """The grades of a table that `write_grades` wrote."""
    rows = (good_row(row) for row in read_table(path))
    return [_record_of(replace(row, fields=_cells(row.fields, cell_text))) for row in rows]


def _cells(row: Mapping[str, object], change: Callable[[str], str]) -> dict[str, object]:
    return {key: change(each) if isinstance(each, str) else each for key, each in row.items()}


def write_grades(path: Path, records: Sequence[GradeRecord]) -> None:
    """Write the table and, beside it, the same grades as qrels; each all or nothing."""
    rows = (_cells(each.to_json(), text_cell) for each in records)
    write_file(path, csv_table(COLUMNS, ([row[name] for name in COLUMNS] for row in rows)))
    judged = ((r.query_id, f"{MODEL_MADE}{r.judged_by}", r.doc_id, r.grade) for r in records)
    write_trec_qrels(qrels_beside(path), judged, instead="the table of grades")


def qrels_beside(out: Path) -> Path:
    """Where the qrels of a table of grades are."""
    return out.with_suffix(".qrels")


@dataclass(frozen=True)
class GradingResult:
    """What was graded; `doubt` says why it is not believed.

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
    found: dict[PairName, PassageGrade] = {}

    async def grade(pair: PassagePair) -> None:
        found[pair.name] = PassageGrade(pair, await grader.grade(pair.query, pair.passage))
        if record := _record(found[pair.name], grader, pool, relevant_from):
            journal.append(record.to_json())
        progress("grading passages", len(found), len(pool.pairs))

    for pair in pool.pairs:
        if pair.name in known and known[pair.name].is_of(pair, grader):
            found[pair.name] = PassageGrade(pair, known[pair.name].votes)
    kept = len(found)
    await for_each([pair for pair in pool.pairs if pair.name not in found], grade, _AT_ONCE)
    grades = [found[pair.name] for pair in pool.pairs]
    records = [made for each in grades if (made := _record(each, grader, pool, relevant_from))]
    doubt = unreliable_grades(grades, asked)
    if doubt and journal.path.exists():
        doubt = (
            f"{doubt}. Its grades stay in {str(journal.path)!r}: pass --resume with the other "
            "model, which keeps no grade of this one, or delete the file"
        )
    if doubt is None:
        write_grades(out, records)
        journal.remove()
    unsteady = sum(each.unsteady for each in grades)
    return GradingResult(records, kept, len(grades) - len(records), unsteady, asked, doubt)


def _record(
    found: PassageGrade, grader: RelevanceGrader, pool: GradingPool, relevant_from: int
) -> GradeRecord | None:
    """What a model said about a pair; None if it could not be read."""
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
        label=pool.labels.get(pair.name),
    )


def _earlier(out: Path, journal: Journal, resume: bool) -> dict[PairName, GradeRecord]:
    if not resume:
        for path in (out, journal.path):
            if path.exists():
                raise UsageError(
                    f"{str(path)!r} already exists: pass --resume to keep its grades and add the "
                    "missing ones, or delete it"
                )
        return {}
    known = read_grade_records(out) if out.exists() else []
    for place, row in enumerate(journal.read(), start=1):
        known.append(_record_of(Record(str(journal.path), place, row)))
    return {(each.query_id, each.doc_id): each for each in known}


def fill_judgments(people: Judgments, records: Sequence[GradeRecord]) -> tuple[Judgments, str]:
    """People's judgments, with a model's if they have none; and a phrase about which are whose."""
    filled = {query_id: dict(grades) for query_id, grades in people.items()}
    models: dict[str, int] = {}
    for each in records:
        grades = filled.setdefault(each.query_id, {})
        if each.doc_id not in grades:
            grades[each.doc_id] = each.grade
            models[each.judged_by] = models.get(each.judged_by, 0) + 1
    return filled, describe_model_judgments(models, sum(map(len, filled.values())))
