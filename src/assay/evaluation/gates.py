"""Conditions on a run's figures that decide the exit code: `ndcg@5>=0.30`, `success_rate>=0.99`.

One such as `ndcg@10>=main-0.01` asks for non-inferiority to an earlier run: the 95% interval of the
paired difference must lie above the margin, not only the difference itself.
"""

import math
import operator
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from assay.data.dataset import Dataset, Query
from assay.errors import AssayError, RunError, UsageError, did_you_mean
from assay.evaluation.plan import judgments_of
from assay.metrics.figures import (
    ANSWER_METRIC_WORDS,
    CRITERION_PREFIX,
    MAX_UNDECIDED,
    MODEL_METRICS,
    NUGGET_METRICS,
    OUTCOME_METRICS,
    POISON_METRICS,
    answer_metric_name,
    improvement,
    parse_figure,
)
from assay.metrics.metric import Metric, parse_metric
from assay.metrics.scoring import Scores, score_rankings
from assay.metrics.searches import SEARCH_FIGURES
from assay.metrics.statistics import compare_paired, min_queries
from assay.report.numbers import counted, difference, figure, interval
from assay.run.comparison import ComparedRun
from assay.run.config import RunConfig
from assay.run.folder import LATEST, RunFolder, find_run, folder_at, list_runs, runs_named
from assay.run.models import (
    Comparison,
    GateResult,
    Report,
    RunState,
    is_answered,
)
from assay.targets.target_kinds import redact_target

if TYPE_CHECKING:
    from assay.answers.calibration import CalibrationStatus
    from assay.evaluation.evaluation import Evaluation
    from assay.run.answers import AnswersReport


_SHAPE = re.compile(r"(?P<name>[^<>]*[^<>\s])\s*(?P<sign>[<>]=?)\s*(?P<bound>[^\s<>=].*)")
_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}

SUMMARY_FIGURES = ("success_rate", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms")
_OTHER_FIGURES = f"{', '.join(SUMMARY_FIGURES)}, or a metric of answers such as correctness"

_SEARCH_FIGURE = re.compile(
    rf"{'|'.join(map(re.escape, SEARCH_FIGURES))}|calls\.(?:mean|p50|p95|max)|pass[@^]\d+"
)

CORRECTNESS = "correctness"
NUGGETS = "nuggets"
# Earlier runs that are read to find one that compares: each may have 100,000 rows.
_MAX_OPENED = 20
_BY_SENTENCES = "judged_faithfulness"
_NEVER = (
    "no labels calibrate the judge {judge} for {name}, which it decides by single sentences; "
    "write a criterion about it, which labels can calibrate (--criteria)"
)


@dataclass(frozen=True, slots=True)
class Gate:
    """`metric` is None if the gate is on one of SUMMARY_FIGURES, or on a metric of answers.

    With a `reference`, `bound` is the margin of the difference from that run. A gate on `search`
    is on a figure of recorded searches or of repeated trials.
    """

    text: str
    name: str
    metric: Metric | None
    sign: str
    bound: float
    answers: bool = False
    reference: str = ""
    search: bool = False

    def passes(self, value: float) -> bool:
        return bool(_COMPARE[self.sign](value, self.bound))


def parse_gate(text: str, top_k: int, compare_to: str = "") -> Gate:
    """A gate of a run that asks for `top_k` documents. Raises `UsageError`.

    `compare_to` is the run that a gate may be relative to, `ndcg@5>=main-0.01`.
    """
    problem = f"gate {text!r}"
    shape = _SHAPE.fullmatch(text.strip())
    if shape is None:
        raise UsageError(f"{problem} is not a condition; write, for example: ndcg@5>=0.30")
    name, sign, bound = shape["name"].strip(), shape["sign"], shape["bound"]
    reference = compare_to if compare_to and bound.startswith(compare_to) else ""
    if reference:
        bound = bound.removeprefix(reference).replace(" ", "") or "0"
    try:
        limit = float(bound)
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        other = f"{compare_to!r}" if compare_to else "the run of --compare-to"
        raise UsageError(f"{problem} must end in a number, or in {other} and a margin: main-0.01")
    gate = Gate(text, name.lower(), None, sign, limit, reference=reference)
    if _SEARCH_FIGURE.fullmatch(gate.name):
        gate = replace(gate, search=True)
    elif answer_metric := answer_metric_name(name):
        gate = replace(gate, name=answer_metric, answers=True)
    elif gate.name not in SUMMARY_FIGURES:
        known = (*ANSWER_METRIC_WORDS, *SUMMARY_FIGURES, *SEARCH_FIGURES)
        if hint := did_you_mean(name, known, cutoff=0.8):
            raise UsageError(f"{problem}: unknown metric {name!r}{hint}")
        metric = parse_metric(name, also=_OTHER_FIGURES)
        if metric.cutoff is not None and metric.cutoff > top_k:
            raise UsageError(
                f"{problem} needs {metric.cutoff} documents, but the run requests {top_k}; "
                f"add --top-k {metric.cutoff}"
            )
        gate = replace(gate, name=str(metric), metric=metric)
    if reference and gate.metric is None:
        raise UsageError(
            f"{problem}: only metrics of rankings are compared with a run, not {gate.name}"
        )
    return gate


def require_possible(gate: Gate, ceiling: float) -> None:
    """Raise `UsageError` for a gate that no system could pass."""
    if gate.sign in (">=", ">") and not gate.passes(ceiling):
        raise UsageError(
            f"gate {gate.text!r} can never pass: the best possible {gate.name} is "
            f"{figure(ceiling)}; lower it, or use a metric that can reach 1, such as ndcg"
        )


def check_gates(
    evaluation: "Evaluation", report: Report, scores: Scores, *, empty: bool
) -> list[GateResult]:
    """Every gate of a run, and a failed one if its reference cannot be compared with.

    Where every answer was `empty`, how often and how fast they came says nothing.
    """
    dataset, reference = evaluation.dataset, evaluation.reference
    asked = [query.text for query in dataset.queries.values()]
    checked = []
    for gate in evaluation.gates:
        if gate.reference:
            result = check_against(gate, scores, reference)
        else:
            result = check_gate(gate, report)
        if result.passed and empty and gate.name in SUMMARY_FIGURES:
            result = result.failed_because("no query got a document")
        if gate.metric is not None:
            result = result.noted(dataset.judged_by)
        else:
            result = with_calibration(result, gate, evaluation.config, asked)
        checked.append(result)
    if reference is not None and reference.problem:
        name = f"compared with {evaluation.config.compare_to}"
        checked.append(GateResult(gate=name, value=None, passed=False, reason=reference.problem))
    return checked


def check_gate(gate: Gate, report: Report) -> GateResult:
    """A figure that the run could not give, such as that of a failed judge, passes no gate."""
    if gate.answers and report.answers is not None:
        return check_answer_gate(gate, report.answers)
    value = _figure_of(gate, report)
    passed = value is not None and gate.passes(value)
    if gate.name in SUMMARY_FIGURES and not report.summary.successful_queries:
        passed = False  # a latency of nothing
    return GateResult(gate=gate.text, value=value, passed=passed)


def _figure_of(gate: Gate, report: Report) -> float | None:
    name, search, trials = gate.name, report.search, report.trials
    if gate.metric is not None:
        return report.metrics[gate.metric.slug]
    if not gate.search:
        return getattr(report.summary, name, None)
    if name.startswith("pass"):
        shares = {} if trials is None else {"^": trials.pass_all, "@": trials.pass_any}
        share = shares.get(name[4])
        return share.mean if share and trials and name[5:] == str(trials.repeat) else None
    if search is None:
        return None
    if name.startswith("calls."):
        return float(getattr(search.calls, name.removeprefix("calls.")))
    return search.figures[name].mean if name in search.figures else None


def check_answer_gate(gate: Gate, answers: "AnswersReport") -> GateResult:
    """A gate on a figure of answers; more than a tenth undecided does not pass it."""
    value = answers.metrics.get(gate.name)
    undecided, of = 0, answers.questions
    if gate.name == CORRECTNESS or gate.name in OUTCOME_METRICS:
        undecided = answers.undecided.number if answers.undecided else 0
        undecided += answers.judge.undecided if answers.judge else 0
    elif gate.name.startswith(CRITERION_PREFIX):
        for each in answers.criteria:
            if gate.name == f"{CRITERION_PREFIX}{each.name}":
                undecided, of = each.undecided, each.undecided + each.rated
    result = GateResult(gate=gate.text, value=value, passed=False)
    if undecided > MAX_UNDECIDED * of:
        return result.failed_because(f"{undecided} of {of} answers are undecided")
    return result.model_copy(update={"passed": value is not None and gate.passes(value)})


def gate_ceiling(
    gate: Gate, dataset: Dataset, config: RunConfig, queries: Sequence[Query]
) -> float:
    """The best value that a gate's figure can have in a planned run.

    Raises `UsageError` for a figure that this run will not have.
    """
    require_measured(gate, config, answers=config.answers)
    if gate.answers:
        return _ceiling_of_answers(gate, dataset, config, queries)
    if gate.name == "success_rate" or (gate.search and not gate.name.startswith("calls.")):
        return 1.0
    if gate.metric is None or gate.reference:
        return math.inf
    judgments = judgments_of(dataset, config, queries)
    known = dataset.corpus_ids
    scores = score_rankings({}, judgments, [gate.metric], known=known, top_k=config.top_k)
    return scores.mean_ceiling(gate.metric)


def require_measured(gate: Gate, config: RunConfig, *, answers: bool) -> None:
    """Raise `UsageError` for a gate on a figure that needs an option which was not given."""
    name, trials = gate.name, str(config.repeat)
    needed = [
        (name in POISON_METRICS, config.poison, "planted documents: --poison"),
        (gate.answers, answers, "answers: --answers"),
        (name in MODEL_METRICS, config.faithfulness, "a model: --faithfulness onnx:DIR"),
        (name in NUGGET_METRICS, config.nuggets, "facts: --references FILE"),
        (name.startswith(CRITERION_PREFIX), name in _criteria(config), "a criterion of --criteria"),
        (name == _BY_SENTENCES, config.judge, "a judge: --judge"),
        (name == "loop_gain", config.search, "the search tool: --search TARGET"),
        (name[:4] == "pass", answers and name[5:] == trials != "1", "--answers and --repeat N"),
    ]
    for concerns, given, option in needed:
        if concerns and not given:
            raise UsageError(f"gate {gate.text!r} needs {option}")


def _criteria(config: RunConfig) -> list[str]:
    if not config.criteria:
        return []
    from assay.answers.criteria import read_criteria

    return [each.metric for each in read_criteria(Path(config.criteria))]


def _ceiling_of_answers(
    gate: Gate, dataset: Dataset, config: RunConfig, queries: Sequence[Query]
) -> float:
    from assay.answers.answer_metrics import ANSWER_METRICS
    from assay.answers.outcome import is_decidable
    from assay.evaluation.answers.cases import cases_of

    cases = cases_of(dataset, config.split, queries, [None] * len(queries), config.top_k)
    if gate.name in ANSWER_METRICS:
        return ANSWER_METRICS[gate.name].mean_ceiling(cases, config.top_k)
    if not config.judge and (gate.name == CORRECTNESS or gate.name in OUTCOME_METRICS):
        undecided = sum(not is_decidable(case) for case in cases)
        if undecided > MAX_UNDECIDED * len(cases):
            raise UsageError(
                f"gate {gate.text!r}: {undecided} of {len(cases)} references have no key facts; "
                "add --judge, or facts"
            )
    return 1.0


def figure_calibration(
    name: str, config: RunConfig, questions: Collection[str]
) -> "CalibrationStatus | None":
    """Whether the judge behind a figure is calibrated; None if no judge decides the figure.

    `questions` are the texts of the data's questions, on which it must have been calibrated.
    """
    if not config.judge:
        return None
    from assay.answers import criteria
    from assay.answers.calibration import CalibrationStatus, calibration_status, read_calibrations
    from assay.answers.judge import correctness_prompts
    from assay.evaluation.answers import nuggets
    from assay.llm.prompt import load_prompt
    from assay.llm.providers.opening import open_model

    kind, model, prompts = name, config.judge, tuple[str, ...]()
    votes = config.judge_set.votes + config.judge_set.votes % 2
    with suppress(AssayError):  # a caller's own judge; a missing key is reported elsewhere
        model = open_model(config.judge).name
    if name == CORRECTNESS or name in OUTCOME_METRICS:
        kind, prompts = CORRECTNESS, correctness_prompts(votes)
    elif name in NUGGET_METRICS:
        kind, prompts = NUGGETS, (load_prompt(nuggets.PROMPT).id,)
    elif name.startswith(CRITERION_PREFIX) and config.criteria:
        votes, asked = criteria.VOTES, criteria.read_criteria(Path(config.criteria))
        prompts = next((each.prompts for each in asked if each.metric == name), ())
    elif name == _BY_SENTENCES:
        return CalibrationStatus(False, _NEVER.format(judge=model, name=name))
    else:
        return None
    file = config.judge_set.calibration
    known = read_calibrations(Path(file)) if file else []
    return calibration_status(known, kind, model, votes, prompts, questions)


def require_calibrated(
    gates: Sequence[Gate], config: RunConfig, questions: Collection[str]
) -> None:
    """Raise `UsageError` for a gate whose judge is not calibrated, if it is required to be."""
    if config.judge_set.calibration:
        from assay.answers.calibration import read_calibrations

        read_calibrations(Path(config.judge_set.calibration))  # a wrong file is an error at once
    for gate in gates if config.judge_set.require_calibrated else ():
        status = figure_calibration(gate.name, config, questions)
        if status is not None and not status.calibrated:
            label = "; label some answers of this data and pass --judge-set calibration=FILE"
            raise UsageError(
                f"gate {gate.text!r} is refused by --judge-set require_calibrated: {status.words}"
                + ("" if gate.name == _BY_SENTENCES else label)
            )


def with_calibration(
    result: GateResult, gate: Gate, config: RunConfig, questions: Collection[str]
) -> GateResult:
    """The gate with what is known of its judge; a calibrated judge's known error is subtracted."""
    status = figure_calibration(gate.name, config, questions)
    if status is None:
        return result
    figures = gate.name in (CORRECTNESS, "nugget_recall") or gate.name.startswith(CRITERION_PREFIX)
    # A gate that fails for another reason, such as undecided answers, stays failed.
    if result.reason or result.value is None or not (status.calibrated and status.bias and figures):
        return result.noted(status.words)
    corrected = min(1.0, max(0.0, result.value - status.bias))
    note = f"{status.words}; corrected from {figure(result.value)} by the judge's known error"
    update = {"value": corrected, "passed": gate.passes(corrected), "note": note}
    return result.model_copy(update=update)


@dataclass(frozen=True)
class ReferenceRun:
    """The run to compare with; without `run`, its scores, `problem` says why it cannot be."""

    folder: RunFolder
    run: ComparedRun | None = None
    problem: str = ""


def with_reference(
    evaluation: "Evaluation", out: Path, resumed: RunFolder | None, say: Callable[[str], None]
) -> "Evaluation":
    """The plan with the run under `out` that `compare_to` names, if it names one.

    If every run of that name has a problem, the gates of the new run fail, but it is made: it is
    the reference of the next one. Raises `RunError` if no run has that name and a first one is not
    allowed.
    """
    config = evaluation.config
    if not config.compare_to:
        return evaluation
    if config.baseline:
        raise UsageError("--baseline and --compare-to exclude each other; omit one of them")
    folders = _runs_to_compare(evaluation, out, resumed)
    if not folders and not config.allow_first_run:
        raise RunError(
            f"no run under {out} has the label, branch or name {config.compare_to!r}; list them "
            "with: assay runs, or add --allow-first-run"
        )
    if not folders:
        gates = [gate for gate in evaluation.gates if not gate.reference]
        left_out = f" and {len(evaluation.gates) - len(gates)} gates" if config.gates else ""
        say(f"warning: no run of {config.compare_to!r} yet: no comparison{left_out} in this run")
        return replace(evaluation, gates=gates)
    opened = (_open_reference(folder, evaluation) for folder in folders[:_MAX_OPENED])
    first = next(opened)
    reference = next((each for each in chain([first], opened) if not each.problem), first)
    if reference.problem:
        say(f"warning: cannot compare: {reference.problem}")
    return replace(evaluation, reference=reference)


def _runs_to_compare(
    evaluation: "Evaluation", out: Path, resumed: RunFolder | None
) -> list[RunFolder]:
    """The runs that `compare_to` names, the best reference first.

    A branch may have runs of several targets, and a label runs of other samples: those like the
    plan come first, and of these the newest.
    """
    config, data = evaluation.config, evaluation.dataset.fingerprint
    name, target = config.compare_to, redact_target(config.target)
    if name == LATEST or folder_at(name, out):
        return [find_run(name, out)]
    sample = attrgetter("split", "top_k", "num_queries", "seed", "num_shards", "shard_index")
    found: list[tuple[tuple[bool, ...], RunFolder]] = []
    for folder, header in runs_named(name, list(list_runs(out))):
        same_target = header.label == name or header.config.target == target
        same_sample = sample(header.config) == sample(config)
        fit = same_target, same_sample, header.dataset.fingerprint == data
        if resumed is None or folder.name != resumed.name:
            found.append((fit, folder))
    found.sort(key=itemgetter(0), reverse=True)
    return [folder for _, folder in found]


def _open_reference(folder: RunFolder, evaluation: "Evaluation") -> ReferenceRun:
    """With the scores of the queries that the new run asks too, by today's labels."""
    config, dataset, asked = evaluation.config, evaluation.dataset, evaluation.queries
    try:
        run = ComparedRun.read(folder)
    except RunError as error:
        return ReferenceRun(folder, problem=str(error))
    report = run.report
    answered, total = report.summary.successful_queries, report.summary.total_queries
    if report.answers and report.config.answers:
        answered, total = report.answers.answered, report.answers.questions
    shared = {query.id for query in asked if run.has_query(query.id, query.text)}
    enough = min(min_queries(), len(asked))
    compared = [gate.metric for gate in evaluation.gates if gate.reference and gate.metric]
    unknown = [metric for metric in compared if metric.slug not in report.metrics]
    problem = ""
    if report.state != RunState.COMPLETE:
        problem = f"{folder.name} is {report.state}"
    elif not is_answered(answered, total):
        problem = f"{folder.name} answered {answered:,} of {total:,} queries"
    elif report.config.top_k != config.top_k:
        problem = (
            f"{folder.name} asked for {report.config.top_k} documents a query, not {config.top_k}"
        )
    elif unknown:
        problem = f"{folder.name} has no {unknown[0]}, which a gate compares"
    elif len(shared) < enough:
        problem = (
            f"{len(shared)} of {len(asked)} queries are in {folder.name}; at least {enough} "
            "must be, so this run is the reference of the next one"
        )
    if problem:
        return ReferenceRun(folder, problem=problem)
    scores = {query_id: row for query_id, row in run.scores.items() if query_id in shared}
    run = replace(run, scores=scores)
    if report.dataset.labels != dataset.labels_fingerprint:
        run = run.rescored(dataset, config.split)
    return ReferenceRun(folder, run)


def check_against(gate: Gate, scores: Scores, reference: ReferenceRun | None) -> GateResult:
    """Whether the interval of the paired difference is on the right side of the margin."""
    assert gate.metric is not None
    assert reference is not None, "such a gate is left out of a first run"
    value = float(scores.values[gate.metric].mean())
    result = GateResult(gate=gate.text, value=value, passed=False)
    if reference.run is None:
        return result.failed_because(reference.problem)
    key, theirs = gate.metric.key, reference.run.scores
    ours = dict(zip(scores.query_ids, scores.values[gate.metric].tolist(), strict=True))
    shared = [query_id for query_id in ours if key in theirs.get(query_id, {})]
    paired = compare_paired(
        np.array([theirs[query_id][key] for query_id in shared]),
        np.array([ours[query_id] for query_id in shared]),
    )
    of = "" if len(shared) == len(ours) else f" on {len(shared)} of {len(ours)} queries"
    if paired.low is None or paired.high is None:
        return result.failed_because(f"no interval{of} against {reference.folder.name}")
    bound = paired.low if gate.sign in (">=", ">") else paired.high
    passed = gate.passes(bound)
    words = (
        f"{difference(paired.difference)} {interval(paired.low, paired.high)} against "
        f"{reference.folder.name}{of}"
    )
    if not passed:
        side = "above" if gate.sign in (">=", ">") else "below"
        words += f"; the interval must lie {side} {difference(gate.bound)}"
    return result.model_copy(update={"passed": passed, "reason": words})


def regression_gate(comparison: Comparison, asked: int | None = None) -> GateResult:
    """The gate of `--fail-on-regression`: no compared metric got significantly worse (Holm).

    Its figure is the difference of the first metric. A run of too few queries passes, and says so;
    one that shares too few of the queries that it was `asked` does not.
    """
    first, *_ = comparison.metrics.values()
    result = GateResult(gate="no regression", value=first.difference, passed=True)
    of = f" on {first.n} of {asked} queries" if asked and first.n < asked else ""
    worse = [
        f"{parse_figure(name)} {difference(row.difference)} {interval(row.low, row.high)}"
        for name, row in comparison.metrics.items()
        if row.significant and improvement(parse_figure(name), row.difference) < 0
    ]
    if worse:
        return result.failed_because(f"regression: {', '.join(worse)} against {comparison.run}{of}")
    enough = min_queries(len(comparison.metrics))
    if first.n < enough and of:
        return result.failed_because(f"compared{of}, which cannot show a regression")
    if first.n < enough:
        return result.noted(
            f"{counted(first.n, 'query', 'queries')} cannot show a regression, however large; "
            f"use at least {enough}, or a gate with a bound"
        )
    return result.noted(of.strip() and f"compared{of}")
