"""A model grades a pool from 0 to 3 into a table and qrels, and is tested with controls first.

    result = await grade_pool(provider, pool, Path("grades.csv"))

The scale is that of TREC's deep learning track; asking for steps before one final grade is from
UMBRELA (Upadhyay et al. 2024) and Thomas et al. 2023, "Large language models can accurately predict
searcher preferences". A model's grade is never called a judgment of people: everything that is
written names the model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from assay.answers.judge import Judge, Judgment
from assay.data.dataset import Judgments
from assay.data.qrels import MODEL_MADE, trec_qrels
from assay.data.table import csv_table, text_cell
from assay.data.text_file import write_file
from assay.errors import UsageError
from assay.labels.pool import GRADES, MAX_PASSAGE, GradingPool, PassagePair
from assay.llm.prompt import delimited, delimiter_code, load_prompt
from assay.llm.providers.provider import LLMProvider
from assay.net.gather import gather, gather_for
from assay.net.json import JsonObject
from assay.progress import Progress, silent
from assay.text import stems, text_hash

# The lowest grade that counts as relevant: a passage of grade 1 is on the subject, and does not
# answer the query.
RELEVANT_FROM = 2
_PROMPT = "relevance_grade"
_WORDS = tuple(map(str, GRADES))
_MAX_SHARED = 0.1  # words of a query that a passage about something else may have
_CANDIDATES = 200  # each may be compared with each, by the stems of whole passages
_MIN_CONTROLS = 2  # one wrong answer alone may be an accident
_MIN_TO_DIFFER = 20  # so many passages do not all deserve the same grade


async def grade_passage(judge: Judge, pair: PassagePair, votes: int = 1) -> Judgment:
    """Ask `votes` times; the passage comes first every second time."""
    shown, prompts = pair.passage[:MAX_PASSAGE], []
    for vote in range(votes):
        code = delimiter_code(pair.query, shown, str(vote))
        asked = f"Query:\n{delimited('question', code, pair.query)}"
        found = f"Passage:\n{delimited('document', code, shown)}"
        first, second = (found, asked) if vote % 2 else (asked, found)
        prompts.append(load_prompt(_PROMPT).fill(code=code, first=first, second=second))
    return await judge.ask("grade", prompts, _WORDS)


def grade_of(judgment: Judgment) -> int | None:
    """The lower median of the votes; None if one of them could not be read."""
    if judgment.unreadable:
        return None
    return sorted(int(vote or 0) for vote in judgment.votes)[(len(judgment.votes) - 1) // 2]


def control_pairs(pairs: Sequence[PassagePair], number: int) -> Iterator[PassagePair]:
    """Queries with passages of other queries, which share no words: these deserve 0 or 1."""
    by_query = {pair.query_id: pair for pair in pairs[:_CANDIDATES]}
    known = [(pair, set(stems(pair.query)), set(stems(pair.passage))) for pair in by_query.values()]
    for place, (pair, asked, _) in enumerate(known[:number]):
        for other, _, held in known[place + 1 :] + known[:place]:
            if asked and len(asked & held) <= _MAX_SHARED * len(asked):
                yield pair._replace(passage=other.passage, doc_id=other.doc_id)
                break


@dataclass(frozen=True, slots=True)
class GradingResult:
    """The rows of the table; `doubt` says why the model is not believed, and nothing was written.

    In a row, `label` is a person's, `grade` what metrics use: 0 below `RELEVANT_FROM`.
    """

    records: Sequence[JsonObject] = ()
    unreadable: int = 0
    unsteady: int = 0
    doubt: str | None = None


async def grade_pool(
    provider: LLMProvider,
    pool: GradingPool,
    out: Path,
    *,
    votes: int = 1,
    controls: int = 5,
    people: Judgments | None = None,
    progress: Progress = silent,
) -> GradingResult:
    """Grade a pool into the table `out` and, beside it, qrels of the same name.

    The qrels have `people`'s judgments too, which win over the model's. `controls` passages of
    other queries are put before the model first; a model that is not believed leaves no file.
    """
    if out.suffix.lower() != ".csv" or out.exists():
        raise UsageError(f"grades are written to a new .csv file, got {str(out)!r}; see --out")
    judge = Judge(provider)
    asked = list(control_pairs(pool.pairs, controls))
    answers = await gather(grade_passage(judge, pair, votes) for pair in asked)
    right = sum((grade_of(each) or 0) < RELEVANT_FROM and not each.unreadable for each in answers)
    if len(asked) >= _MIN_CONTROLS and 2 * right < len(asked):
        wrong = f"{len(asked) - right} of {len(asked)} controls"
        return GradingResult(doubt=f"passages about something else are relevant in {wrong}")
    given = await gather_for(
        pool.pairs, lambda pair: grade_passage(judge, pair, votes), "grading passages", progress
    )
    grades = [grade_of(each) for each in given]
    if 2 * grades.count(None) > len(grades):
        return GradingResult(doubt="most replies were no readable grade (0, 1, 2 or 3)")
    if len(grades) >= _MIN_TO_DIFFER and len({*grades}) == 1:
        return GradingResult(doubt=f"grade {grades[0]} was given to all {len(grades)} passages")
    records: list[JsonObject] = [
        {
            "query_id": pair.query_id,
            "query": pair.query,
            "doc_id": pair.doc_id,
            "grade": grade if grade >= RELEVANT_FROM else 0,
            "model_grade": grade,
            "judged_by": provider.name,
            "prompt": load_prompt(_PROMPT).id,
            "votes": " ".join(map(str, judgment.votes)),
            "passage_sha256": text_hash(pair.passage),
            "created": datetime.now(UTC).date().isoformat(),
            "label": pool.labels.get(pair.name),
        }
        for pair, judgment, grade in zip(pool.pairs, given, grades, strict=True)
        if grade is not None
    ]
    rows = ([_cell(value) for value in record.values()] for record in records)
    write_file(out, csv_table([*records[0]], rows))
    maker = f"{MODEL_MADE}{provider.name}"
    judged = {(r["query_id"], r["doc_id"]): (maker, r["grade"]) for r in records}
    for query_id, known in (people or {}).items():
        judged |= {(query_id, doc_id): ("0", grade) for doc_id, grade in known.items()}
    lines = ((query, who, doc_id, grade) for (query, doc_id), (who, grade) in judged.items())
    write_file(out.with_suffix(".qrels"), trec_qrels(lines))
    unsteady = sum(each.flipped for each in given)
    return GradingResult(records, len(grades) - len(records), unsteady)


def _cell(value: object) -> object:
    return "" if value is None else text_cell(value) if isinstance(value, str) else value
