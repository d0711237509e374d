"""`assay.score_answers`: the metrics of answers, and a judge, over rows that were logged elsewhere.

No agent is called: the rows become cases, which are evaluated as those of a run.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.answers.case import AnswerCase
from assay.answers.criteria import read_criteria
from assay.data.dataset import Dataset
from assay.data.logged_answers import LoggedAnswer, read_logged
from assay.data.table import memory_rows
from assay.data.text_file import Record
from assay.data.traces import read_log
from assay.errors import DataError, UsageError
from assay.evaluation.answers.answer_report import AnswerReport
from assay.evaluation.answers.asking_again import CounterfactualRunner
from assay.evaluation.answers.cases import cites_without_ids, logged_case
from assay.evaluation.answers.evaluate import evaluate_answers
from assay.evaluation.answers.judging import open_judge
from assay.evaluation.answers.nuggets import nuggets_of_log
from assay.evaluation.api import judge_name
from assay.evaluation.gates import (
    check_answer_gate,
    parse_gate,
    require_calibrated,
    require_measured,
    with_calibration,
)
from assay.extras import data_frame
from assay.net.gather import run_coroutine
from assay.progress import Progress, silent
from assay.run.answers import AnswersReport
from assay.run.config import RunConfig
from assay.run.models import AnswerRow, GateResult

if TYPE_CHECKING:
    from pandas import DataFrame

    from assay.llm.providers.provider import LLMProvider

_SHOWN = 20  # rows that were refused
# No ceiling: how many contexts the application asked for is not known.
LOG_TOP_K = 1000
# Besides what no report measures without texts, such as faithfulness.
_METRICS_OF = {
    "contexts": ("context_precision", "context_recall", "nothing-shown"),
    "citations": ("citation_precision", "citation_recall", "multi_hop_coverage", "cites-nothing"),
    "references": ("abstention", "attempted"),
}


@dataclass(frozen=True)
class ScoredAnswers:
    """What `score_answers` found.

    Attributes:
        report: the figures with their intervals, as the section `answers` of a run's report.
        skipped: rows that could not be read, each with its line; they are in no figure.
        gates: how the gates ended.
    """

    report: AnswersReport
    skipped: tuple[str, ...] = ()
    gates: tuple[GateResult, ...] = ()
    _rows: Callable[[], Iterable[AnswerRow]] = field(default=lambda: (), repr=False)

    @property
    def metrics(self) -> dict[str, float]:
        """The mean of each metric, by name."""
        return self.report.metrics

    @property
    def gates_passed(self) -> bool:
        """Whether every gate passed."""
        return all(gate.passed for gate in self.gates)

    def rows(self) -> list[AnswerRow]:
        """One row for each question, with the values of all metrics that cover it."""
        return list(self._rows())

    def to_pandas(self) -> "DataFrame":
        """The rows as a pandas data frame. Needs pandas."""
        return data_frame(row.model_dump() for row in self._rows())


def score_answers(
    rows: object,
    *,
    columns: Mapping[str, str] | None = None,
    judge: "str | LLMProvider | None" = None,
    judge_set: Mapping[str, Any] | str = "",
    no_cache: bool = False,
    criteria: str | Path | None = None,
    references: str | Path | None = None,
    faithfulness: str = "",
    gates: str | Sequence[str] = (),
) -> ScoredAnswers:
    """Measure answers that were logged elsewhere. No agent is needed.

    A row has `question` and `answer`, and what is known of `contexts` (texts, or objects with
    `id` and `text`), `reference`, `citations` (ids of contexts, or places from 1; else `[2]` in
    the answer), `relevant` (ids or texts of the contexts that were needed), `facts` and
    `answerable`. The column names of ragas and deepeval are known too.

    Parameters:
        rows: a CSV, JSON lines, JSON or Parquet file, an iterable of dictionaries, or a data
            frame.
        columns: the names of columns that are called otherwise, `{"question": "prompt"}`.
        judge: the model that judges the answers, as the command line names it, or any object that
            can generate text. Without one, `facts` decide what is right.
        judge_set: how the judge is asked, `{"votes": 4, "timeout": 600}`; the keys are those of
            `--judge-set`.
        no_cache: ask the judge again for replies that are cached.
        criteria: a file or a folder of files with criteria of your own, which the judge rates by.
        references: a file of facts that the answers should state; rows are found in it by their
            id or their question.
        faithfulness: a three-class NLI cross-encoder, `onnx:DIR` or `st:NAME`, that measures which
            sentences are supported by the contexts.
        gates: one condition such as `faithfulness>=0.9`, or several.

    Raises:
        UsageError: an argument is wrong.
        DataError: no row can be read.
    """
    config = RunConfig(
        target="",
        answers=True,
        judge=judge_name(judge),
        judge_set=judge_set,  # type: ignore[arg-type]  # read by the model
        no_cache=no_cache,
        top_k=LOG_TOP_K,
        references=(str(references),) if references else (),
        criteria=str(criteria or ""),
        faithfulness=faithfulness,
        gates=(gates,) if isinstance(gates, str) else tuple(gates),
    )
    provider = None if judge is None or isinstance(judge, str) else judge
    source = read_log(Path(rows)) if isinstance(rows, str | Path) else memory_rows(rows)
    return run_coroutine(score_rows(source, config, columns=columns, provider=provider))


async def score_rows(
    rows: Iterable[Record | DataError],
    config: RunConfig,
    *,
    columns: Mapping[str, str] | None = None,
    provider: "LLMProvider | None" = None,
    progress: Progress = silent,
) -> ScoredAnswers:
    """The same over rows that are read already, with the settings of a run for the judge."""
    gates = [parse_gate(text, LOG_TOP_K) for text in config.gates]
    for gate in gates:
        if not gate.answers:
            raise UsageError(f"gate {gate.text!r} is on a ranking; rows of answers have none")
        require_measured(gate, config, answers=True)
    criteria = read_criteria(Path(config.criteria)) if config.criteria else []
    cases, skipped, unknown, note = _read(read_logged(rows, columns))
    asked = [case.question for case in cases]
    require_calibrated(gates, config, asked)
    nuggets = nuggets_of_log(Path(config.nuggets), cases) if config.nuggets else None
    documents = {name: each for case in cases for name, each in case.documents.items()}
    dataset = Dataset("log", documents, {}, {})
    async with open_judge(config, provider) as judge:
        asker = CounterfactualRunner(dataset, config, asyncio.Event(), progress)
        results = await evaluate_answers(cases, judge, asker, nuggets=nuggets, criteria=criteria)
    report = AnswerReport(cases, results, dataset, config, skip=unknown)
    section = report.section()
    note = "; ".join(filter(None, (section.note, note)))
    section = section.model_copy(update={"note": note or None})
    checked = [
        with_calibration(check_answer_gate(gate, section), gate, config, asked) for gate in gates
    ]
    if section.trouble:
        reason = f"not all answers were judged: {section.trouble}"
        checked = [each.failed_because(reason) for each in checked]
    return ScoredAnswers(section, tuple(skipped), tuple(checked), report.rows)


def _read(
    found: Iterable[LoggedAnswer | DataError],
) -> tuple[list[AnswerCase], list[str], set[str], str]:
    """The cases, the rows that were refused, what cannot be measured of the others, and why."""
    read = list(found)
    skipped = [str(each) for each in read if isinstance(each, DataError)]
    rows = [each for each in read if isinstance(each, LoggedAnswer)]
    if not rows:
        refused = f"{len(skipped)} were refused; the first: {skipped[0]}" if skipped else "none"
        raise DataError(f"no row could be scored: {refused}")
    by_id: dict[str, LoggedAnswer] = {}
    for number, row in enumerate(rows, start=1):
        by_id[f"{row.id}@{number}" if row.id in by_id else row.id] = row
    cases = [logged_case(row, query_id) for query_id, row in by_id.items()]
    unresolved = sum(map(cites_without_ids, rows))
    cites = not unresolved and any(row.citations is not None for row in rows)
    has = {
        "contexts": any(case.documents for case in cases),
        "citations": cites or any(case.citations for case in cases),
        "references": any(row.answerable is not None or row.reference for row in rows),
    }
    # An application that never cites has no citation precision of 0, but none.
    missing = [what for what, there in has.items() if not there]
    note = f"no row has {' and '.join(missing)}: the metrics that need them are left out"
    if unresolved:
        note = (
            f"{unresolved} rows cite ids, but their contexts have none: these citations are not "
            'measured; give contexts as {"id": ..., "text": ...}'
        )
    if len(skipped) > _SHOWN:
        skipped[_SHOWN:] = [f"and {len(skipped) - _SHOWN:,} more rows"]
    unknown = {name for what in missing for name in _METRICS_OF[what]}
    return cases, skipped, unknown, note if missing or unresolved else ""
