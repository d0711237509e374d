"""From the calls of a run to its files: `report.json`, `answers.jsonl` and the page."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assay.data.dataset import Query
from assay.evaluation.call_log import CallLog
from assay.evaluation.evaluation_report import RowWriter, build_head
from assay.evaluation.report_page import write_report_page
from assay.evaluation.results import gather, metrics_for, unseen_places
from assay.evaluation.run_folder import RunFolder

if TYPE_CHECKING:
    from assay.evaluation.answers.examination import Examination
    from assay.evaluation.evaluation import Evaluation


def write_report(
    folder: RunFolder,
    evaluation: "Evaluation",
    log: CallLog,
    asked: Sequence[Query],
    examination: "Examination | None",
    *,
    state: str,
    seconds: float,
) -> dict[str, Any]:
    """The head of what was written. `asked` are the queries that the report speaks of."""
    config, dataset = evaluation.config, evaluation.dataset
    # Rankings are measured where there is something to rank; answers on every question.
    judged = {query.id for query in dataset.queries_in(config.split)}
    ranked = [query for query in asked if query.id in judged]
    if not ranked:
        raise KeyboardInterrupt(
            f"interrupted before the first answer; go on with: assay eval --resume {folder.path}"
        )
    gate_metrics = [gate.metric for gate in evaluation.gates if gate.metric is not None]
    metrics = metrics_for(config.top_k, gate_metrics)
    rows = RowWriter(folder.report, dataset, config)
    try:
        answers = None
        if examination is not None:
            answers = _write_answers(folder, evaluation, log, asked, examination)
        results = gather(log, ranked, dataset, config, metrics, rows.add)
        head = build_head(
            results,
            config,
            dataset,
            folder.read_header(),
            evaluation.gates,
            state=state,
            seconds=seconds,
            unseen=unseen_places(ranked, dataset, config.split),
            answers=answers,
        )
        head["planned_queries"] = sum(query.id in judged for query in evaluation.queries)
        rows.finish(head)
    finally:
        rows.close()
    write_report_page(folder, dataset)
    return head


def _write_answers(
    folder: RunFolder,
    evaluation: "Evaluation",
    log: CallLog,
    asked: Sequence[Query],
    examination: "Examination",
) -> dict[str, Any]:
    from assay.evaluation.answers.answer_report import AnswerReport
    from assay.evaluation.answers.cases import cases_of

    config, dataset = evaluation.config, evaluation.dataset
    calls = list(log.read([query.id for query in asked]))
    cases = cases_of(dataset, config.split, asked, calls, config.top_k)
    report = AnswerReport(cases, examination, dataset, config)
    folder.write_answers(report.rows())
    return report.head()
