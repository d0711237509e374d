"""`assay.score_answers`: the metrics of answers, and a judge, over rows that were logged elsewhere.

No agent is called. Rows are measured in batches as they are read, so that their contexts need not
be in memory together. They are kept if there is a judge, who is asked at the end, and up to a
limit for the findings, which compare answers with each other.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.answers.answer_metrics import (
    Columns,
)
from assay.answers.case import AnswerCase
from assay.answers.criteria import read_criteria
from assay.data.dataset import Dataset, Document
from assay.data.logged_answers import LoggedAnswer, read_logged
from assay.data.table import rows_of
from assay.data.text_file import Record
from assay.data.traces import read_log
from assay.errors import DataError, UsageError
from assay.evaluation.answers.answer_report import (
    AnswerReport,
    measure_results,
)
from assay.evaluation.answers.asking_again import CounterfactualRunner
from assay.evaluation.answers.cases import cites_without_ids, logged_case
from assay.evaluation.answers.evaluate import AnswerOptions, AnswerResults, evaluate_answers
from assay.evaluation.answers.judging import Verdict, open_judge, verdicts_by_facts
from assay.evaluation.answers.nugget_scores import NuggetSet, nuggets_by_rules
from assay.evaluation.api import judge_name
from assay.evaluation.gates import (
    Gate,
    check_answer_gate,
    parse_gate,
    require_calibrated,
    require_criterion,
    with_calibration,
)
from assay.extras import data_frame
from assay.metrics.figures import NUGGET_METRICS
from assay.net.gather import run_coroutine
from assay.progress import Progress, silent
from assay.run.answers import AnswersReport
from assay.run.config import RunConfig
from assay.run.models import AnswerRow, GateResult

if TYPE_CHECKING:
    from pandas import DataFrame

    from assay.llm.providers.provider import LLMProvider

_BATCH = 256
_KEPT_CHARACTERS = 20_000_000
"""Of contexts without a judge: what findings make of them takes several times as much memory."""
_SHOWN = 20
LOG_TOP_K = 1000
"""No ceiling: how many contexts the application asked for is not known."""
_CITING = ("citation_precision", "citation_recall", "multi_hop_coverage")
_OF_CONTEXTS = (
    "faithfulness",
    "judged_faithfulness",
    "model_faithfulness",
    "context_precision",
    "context_recall",
)


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
    source = read_log(Path(rows)) if isinstance(rows, str | Path) else rows_of(rows)
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
    gates = [_gate(text, config) for text in config.gates]
    criteria = read_criteria(Path(config.criteria)) if config.criteria else []
    log = _Log(judged=provider is not None or bool(config.judge or config.faithfulness))
    log.read(read_logged(rows, columns), progress)
    if not log.cases:
        if not log.refused:
            raise DataError("there are no rows to score; in a file of traces, none has a question")
        first = f"; the first: {log.skipped[0]}" if log.skipped else ""
        raise DataError(f"no row could be scored: {log.refused} were refused{first}")
    asked = [case.question for case in log.cases]
    require_calibrated(gates, config, asked)
    nuggets = None
    if config.nuggets:
        nuggets = NuggetSet.of_log(Path(config.nuggets), log.cases, gates)
    results, scores = AnswerResults(log.cases, log.verdicts), log.scores
    if nuggets is not None and not log.judged:
        results = replace(results, nuggets=nuggets_by_rules(log.cases, nuggets))
        scores = {**results.nuggets.scores(), **scores} if results.nuggets else scores
    dataset = Dataset("log", log.documents, {}, {})
    async with open_judge(config, provider) as judge:
        if log.judged:
            asker = CounterfactualRunner(dataset, config, asyncio.Event(), progress)
            options = AnswerOptions(nuggets, criteria)
            results = await evaluate_answers(log.cases, judge, asker, options)
            scores = measure_results(log.cases, results)
    scores = log.without_unknown(scores)
    report = AnswerReport(log.cases, results, dataset, config, scores, skip=log.unknown_checks)
    section = report.section()
    section = section.model_copy(update=log.corrections(section.note))
    checked = [
        with_calibration(check_answer_gate(gate, section), gate, config, asked) for gate in gates
    ]
    if section.trouble:
        reason = f"not all answers were judged: {section.trouble}"
        checked = [each.failed_because(reason) for each in checked]
    return ScoredAnswers(section, tuple(log.skipped), tuple(checked), lambda: _rows(report, log))


def _rows(report: AnswerReport, log: "_Log") -> Iterator[AnswerRow]:
    """Without a diagnosis where nobody said which contexts were needed."""
    for case, row in zip(log.cases, report.rows(), strict=True):
        undiagnosed = case.answerable and not case.needed
        yield row.model_copy(update={"diagnosis": None}) if undiagnosed else row


def _gate(text: str, config: RunConfig) -> Gate:
    gate = parse_gate(text, LOG_TOP_K)
    require_criterion(gate, config)
    if not gate.answers:
        raise UsageError(f"gate {text!r} is on a ranking; rows of answers have none")
    if gate.name in NUGGET_METRICS and not config.nuggets:
        raise UsageError(
            f"gate {text!r} needs facts; add --references FILE (references= in Python)"
        )
    return gate


@dataclass
class _Log:
    """The rows as cases. Rows that no model is to read are measured as they are read."""

    judged: bool
    cases: list[AnswerCase] = field(default_factory=list)
    characters: int = 0
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    scores: Columns = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    refused: int = 0
    cites: bool = False
    unresolved: int = 0
    has_contexts: bool = False
    says_answerable: bool = False

    def read(self, rows: Iterable[LoggedAnswer | DataError], progress: Progress) -> None:
        seen: set[str] = set()
        batch: list[AnswerCase] = []
        for number, row in enumerate(rows, start=1):
            if isinstance(row, DataError):
                self._skip(row)
                continue
            query_id = row.id if row.id not in seen else f"{row.id}@{number}"
            seen.add(query_id)
            batch.append(self._case(row, query_id))
            if len(batch) == _BATCH and not self.judged:
                self._measure(batch)
                batch = []
                progress("scoring rows", len(self.cases), 0)
        self._measure(batch)
        if self.unresolved and not any(case.citations for case in self.cases):
            self.cites = False
        if self.refused > len(self.skipped):
            self.skipped.append(f"and {self.refused - len(self.skipped):,} more rows")

    def _skip(self, error: DataError) -> None:
        self.refused += 1
        if len(self.skipped) < _SHOWN:
            self.skipped.append(str(error))

    def _case(self, row: LoggedAnswer, query_id: str) -> AnswerCase:
        case = logged_case(row, query_id)
        if cites_without_ids(row):
            self.unresolved += 1
        else:
            self.cites |= row.citations is not None or bool(case.citations)
        self.has_contexts |= bool(case.documents)
        self.says_answerable |= row.answerable is not None or bool(row.reference)
        return case

    def _measure(self, batch: Sequence[AnswerCase]) -> None:
        self.cases += batch
        if self.judged:
            return
        results = AnswerResults(batch, verdicts_by_facts(batch))
        self.verdicts |= results.verdicts
        for name, column in measure_results(batch, results).items():
            self.scores.setdefault(name, {}).update(column)
        self.characters += sum(len(each.text) for each in _documents(batch).values())
        if self.too_long:
            self.cases = [replace(case, documents={}) for case in self.cases]

    @property
    def unknown_checks(self) -> list[str]:
        """Checks of what no row says: one that never cites, or does not log its contexts."""
        logged = {"cites-nothing": self.cites, "nothing-shown": self.has_contexts}
        return [check for check, known in logged.items() if not known]

    @property
    def too_long(self) -> bool:
        """Whether there are more contexts than are kept."""
        return not self.judged and self.characters > _KEPT_CHARACTERS

    @property
    def documents(self) -> dict[str, Document]:
        """The contexts of all rows, or none if they are too long."""
        return _documents(self.cases)

    def without_unknown(self, scores: Columns) -> Columns:
        """Without the metrics of what no row has: an application that never cites has no citation
        precision of 0, but none.
        """
        left_out = {
            *(() if self.cites else _CITING),
            *(() if self.has_contexts else _OF_CONTEXTS),
            *(() if self.says_answerable else ("abstention", "attempted")),
        }
        return {name: each for name, each in scores.items() if name not in left_out}

    def corrections(self, note: str | None) -> dict[str, object]:
        """What a report of logged rows, which has this note, says otherwise than that of a run."""
        changes: dict[str, object] = {}
        if not any(case.answerable and case.needed for case in self.cases):
            changes["diagnosis"] = None
        notes = [note] if note else []
        if self.unresolved:
            notes.append(
                f"{self.unresolved} rows cite ids, but their contexts have none: these citations "
                'are not measured; give contexts as {"id": ..., "text": ...}'
            )
        logged = {
            "contexts": self.has_contexts,
            "citations": self.cites or self.unresolved,
            "references": self.says_answerable,
        }
        if missing := " and ".join(what for what, there in logged.items() if not there):
            notes.append(f"no row has {missing}: the metrics that need them are left out")
        if self.too_long:
            notes.append(
                f"the contexts have more than {_KEPT_CHARACTERS:,} characters: faults that show "
                "only beside them are not looked for; score fewer rows at a time"
            )
        return {**changes, "note": "; ".join(notes) or None}


def _documents(cases: Sequence[AnswerCase]) -> dict[str, Document]:
    return {doc_id: each for case in cases for doc_id, each in case.documents.items()}
