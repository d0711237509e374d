"""Comparing a new run with an earlier one, found by its label, branch or folder.

A gate such as `ndcg@10>=main-0.01` asks for non-inferiority: the 95% interval of the paired
difference must lie above the margin, not only the difference itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from assay.errors import RunError, UsageError, did_you_mean
from assay.evaluation.gates import Gate
from assay.metrics.figures import improvement, parse_figure
from assay.metrics.scoring import Scores
from assay.metrics.statistics import compare_paired, min_queries
from assay.report.numbers import counted, difference, interval
from assay.run.comparison import ComparedRun
from assay.run.find import LATEST, RUNS
from assay.run.folder import RunFolder, find_run, list_runs
from assay.run.listing import RunLine, is_answered, read_summaries, run_signatures
from assay.run.models import Comparison, Report, RunHeader
from assay.run.run_record import GateResult
from assay.run.state import RunState
from assay.targets.opening import redact_target

if TYPE_CHECKING:
    from assay.evaluation.evaluation import Evaluation


@dataclass(frozen=True)
class ReferenceRun:
    """The run to compare with.

    Attributes:
        folder: its folder.
        run: its scores; None if it cannot be a reference.
        shared: how many queries of the new run it was asked too.
        problem: why the new run cannot be compared with it; else empty.
        skipped: newer runs of the same name, and why each is not the reference.
    """

    folder: RunFolder
    run: ComparedRun | None = None
    shared: int = 0
    problem: str = ""
    skipped: tuple[str, ...] = ()


def with_reference(
    evaluation: "Evaluation", out: Path, resumed: RunFolder | None = None
) -> "Evaluation":
    """The plan with the run that `compare_to` names, if it names one.

    A run of that name that cannot be compared with fails the gates of the new run, which is made
    all the same: it is the reference of the next one.

    Parameters:
        evaluation: the plan of the new run.
        out: where run folders are.
        resumed: the run that is finished, which is not compared with itself.

    Raises:
        RunError: no run has that name, and the first one is not allowed.
        UsageError: the run does not have what a gate compares, or there is a baseline too.
    """
    config = evaluation.config
    if not config.compare_to:
        return evaluation
    if config.baseline:
        raise UsageError(
            "a run is compared with --baseline or with --compare-to (in Python baseline= and "
            "compare_to=); omit one of them"
        )
    reference = _find(evaluation, out, resumed)
    if reference is None and config.allow_first_run:
        return replace(evaluation, gates=[gate for gate in evaluation.gates if not gate.reference])
    if reference is None:
        raise RunError(
            f"no run under {out} has the label, branch or name {config.compare_to!r}"
            f"{_suggestion(config.compare_to, out)}; list runs with: assay runs; to continue "
            "without one the first time, add --allow-first-run"
        )
    if not reference.problem:
        reference = _opened(reference, evaluation)
    return replace(evaluation, reference=reference)


def reference_gates(evaluation: "Evaluation") -> list[GateResult]:
    """A failed gate if the run that `compare_to` names cannot be compared with; else none."""
    reference = evaluation.reference
    if reference is None or not reference.problem:
        return []
    name = f"compared with {evaluation.config.compare_to}"
    return [GateResult(gate=name, value=None, passed=False, reason=reference.problem)]


def check_against(gate: Gate, scores: Scores, reference: ReferenceRun | None) -> GateResult:
    """Whether the interval of the paired difference is on the right side of the margin."""
    assert gate.metric is not None
    value = float(scores.values[gate.metric].mean())
    result = GateResult(gate=gate.text, value=value, passed=False)
    if reference is None or reference.run is None:
        problem = reference.problem if reference else "no run to compare with; add --compare-to"
        return result.failed_because(problem)
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


def reference_note(evaluation: "Evaluation") -> str:
    """What to tell of the run to compare with before the first query; mostly nothing."""
    config, reference = evaluation.config, evaluation.reference
    if not config.compare_to:
        return ""
    if reference is not None:
        problem = reference.problem and f"warning: cannot compare: {reference.problem}"
        skipped = f"warning: compared with {reference.folder.name}: {'; '.join(reference.skipped)}"
        return problem or (skipped if reference.skipped else "")
    left_out = len(config.gates) - len(evaluation.gates)
    gates = f", and {left_out} of {len(config.gates)} gates, which name it," if left_out else ""
    return (
        f"warning: no run of {config.compare_to!r} yet: the comparison{gates} is left out of this "
        "run"
    )


def _find(evaluation: "Evaluation", out: Path, resumed: RunFolder | None) -> ReferenceRun | None:
    """The newest usable run of that label or branch, preferably of the same target and plan.

    A branch may have runs of several targets, and which was evaluated last is chance. A label may
    have runs with other samples and on other data.
    """
    name = evaluation.config.compare_to
    if name == LATEST or RUNS.at(name, out):
        folder = find_run(name, out)
        return ReferenceRun(folder, problem=_unusable(folder.name, folder.read_report()))
    own = "" if resumed is None else resumed.name
    target = redact_target(evaluation.config.target)
    skipped: list[tuple[RunFolder, str]] = []
    best: tuple[tuple[bool, int, bool], RunFolder] | None = None
    for folder, line in _newest_first(out):
        if line.name == own or name not in (line.label, line.branch):
            continue
        try:
            header, state = folder.read_header(), folder.state()
            if header.baseline_of is not None or state == RunState.RUNNING:
                continue
            if problem := _unusable(folder.name, folder.read_report()):
                skipped += [(folder, problem)] if best is None else []
                continue
        except RunError:  # a damaged or unfinished run is not one to compare with
            skipped += [(folder, f"{folder.name} has no report")] if best is None else []
            continue
        wanted_target = line.label == name or header.config.target == target
        same_documents = header.dataset.fingerprint == evaluation.dataset.fingerprint
        fit = (wanted_target, -_differences(header, evaluation), same_documents)
        if best is None or fit > best[0]:
            best = (fit, folder)
        if fit == (True, 0, True):
            break
    if best is not None:
        return ReferenceRun(best[1], skipped=tuple(problem for _, problem in skipped))
    if skipped:
        folder, problem = skipped[0]
        return ReferenceRun(folder, problem=f"{problem}, and no other run has that name")
    return None


def _unusable(name: str, report: Report) -> str:
    """Why a run is not a reference; empty if it is one."""
    if report.state != RunState.COMPLETE:
        return f"{name} is {report.state}"
    answered, asked = report.summary.successful_queries, report.summary.total_queries
    if report.answers and report.config.answers:
        answered, asked = report.answers.answered, report.answers.questions
    return (
        "" if is_answered(answered, asked) else f"{name} answered {answered:,} of {asked:,} queries"
    )


def _opened(reference: ReferenceRun, evaluation: "Evaluation") -> ReferenceRun:
    """With the scores of the queries that the new run asks too, by the labels of now."""
    folder, config, dataset = reference.folder, evaluation.config, evaluation.dataset
    run = ComparedRun.read(folder)
    for gate in evaluation.gates:
        if gate.reference and gate.metric and gate.metric.slug not in run.report.metrics:
            raise UsageError(
                f"run {folder.name!r} has no {gate.metric}, which a gate compares; choose a metric "
                "that both runs have"
            )
    if (top_k := run.report.config.top_k) != config.top_k:
        problem = f"{folder.name} asked for {top_k} documents a query, not {config.top_k}"
        return replace(reference, problem=problem)
    asked = evaluation.queries
    shared = {query.id for query in asked if run.has_query(query.id, query.text)}
    enough = min(min_queries(), len(asked))
    if len(shared) < enough:
        problem = (
            f"{len(shared)} of {len(asked)} queries are in {folder.name}; at least {enough} "
            "must be, so this run is the reference of the next one"
        )
        return replace(reference, shared=len(shared), problem=problem)
    scores = {query_id: row for query_id, row in run.scores.items() if query_id in shared}
    run = replace(run, scores=scores)
    if run.report.dataset.labels != dataset.labels_fingerprint:
        run = run.rescored(dataset, config.split)
    return replace(reference, run=run, shared=len(shared))


_NEWEST = 100
"""Runs that are looked at before all others are listed: mostly, the one is among them."""


def _newest_first(out: Path) -> Iterator[tuple[RunFolder, RunLine]]:
    """With the lines of the cached list: there may be very many runs, and few have the name."""
    signatures = run_signatures(out)
    folders = [each for each in list_runs(out) if each.name in signatures][::-1]
    for part in (folders[:_NEWEST], folders[_NEWEST:]):
        wanted = {folder.name: signatures[folder.name] for folder in part}
        lines = read_summaries(out, wanted, gone=(), facts=False) if part else {}
        for folder in part:
            yield folder, lines[folder.name][0]


def _suggestion(wanted: str, out: Path) -> str:
    lines = (line for _, line in _newest_first(out))
    names = {each for line in lines for each in (line.label, line.branch) if each}
    return did_you_mean(wanted, names).replace(". Did", " (did").replace("?", "?)")


def _differences(header: RunHeader, evaluation: "Evaluation") -> int:
    """How many settings that decide what is asked and measured differ from the plan."""
    ours, theirs, dataset = evaluation.config, header.config, evaluation.dataset
    same_data = header.dataset.fingerprint == dataset.fingerprint
    differs = [not (same_data or header.dataset.labels == dataset.labels_fingerprint)]
    for name in ("split", "top_k", "num_queries", "seed", "shard_index", "num_shards"):
        if name != "seed" or ours.num_queries is not None:
            differs.append(getattr(theirs, name) != getattr(ours, name))
    return sum(differs)
