"""Comparing a new run with an earlier one, found by its label, branch or folder.

A gate such as `ndcg@10>=main-0.01` asks for non-inferiority: the 95% interval of the paired
difference must lie above the margin, not only the difference itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from assay.answers.figures import improvement, parse_figure
from assay.data.dataset import Dataset
from assay.errors import RunError, UsageError, did_you_mean
from assay.evaluation.gates import Gate
from assay.evaluation.results import Results
from assay.metrics.scoring import Scores
from assay.metrics.statistics import compare_paired, fewest_queries
from assay.report.numbers import counted, difference, interval
from assay.run.find import LATEST, RUNS
from assay.run.folder import RunFolder, find_run, list_runs
from assay.run.label_fit import LabelFit, fit_of, new_share
from assay.run.listing import RunLine, read_summaries, run_signatures
from assay.run.models import Comparison, RunHeader
from assay.run.run_record import GateResult
from assay.run.state import RunState
from assay.targets.opening import redact_target

if TYPE_CHECKING:
    from assay.evaluation.evaluation import Evaluation


@dataclass(frozen=True)
class ReferenceRun:
    """The run to compare with, and its scores by query for each metric of a gate, by slug."""

    folder: RunFolder
    scores: Mapping[str, Mapping[str, float]]

    def label_fit(self, results: Results, dataset: Dataset) -> LabelFit | None:
        """Whether the labels still fit in the new run as they did in this one, if that is known."""
        report = self.folder.read_report()
        if report.labels is None or results.coverage is None:
            return None
        before = {doc_id for row in self.folder.read_rows() for doc_id in row.retrieved_docs}
        changed = report.dataset.fingerprint != dataset.fingerprint
        new_ids = new_share(before, results.returned_ids)
        return fit_of(report.labels, results.coverage, new_ids, documents_changed=changed)


def with_reference(
    evaluation: "Evaluation", out: Path, resumed: RunFolder | None = None
) -> "Evaluation":
    """The plan with the run that `compare_to` names, if it names one.

    Parameters:
        evaluation: the plan of the new run.
        out: where run folders are.
        resumed: the run that is finished, which is not compared with itself.

    Raises:
        RunError: there is no such run, and the first one is not allowed.
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
    folder = _find(evaluation, out, resumed)
    if folder is None and config.allow_first_run:
        return replace(evaluation, gates=[gate for gate in evaluation.gates if not gate.reference])
    if folder is None:
        raise RunError(
            f"no complete run under {out} on the same data has the label, branch or name "
            f"{config.compare_to!r}{_nearest(evaluation, out)}; list what there is with: assay "
            "runs; to go on without it the first time, set allow_first_run (--allow-first-run)"
        )
    gates = [gate for gate in evaluation.gates if gate.reference and gate.metric is not None]
    return replace(evaluation, reference=ReferenceRun(folder, _scores(folder, gates)))


def check_against(
    gate: Gate, scores: Scores, reference: ReferenceRun | None, fit: LabelFit | None = None
) -> GateResult:
    """Whether the interval of the paired difference is on the right side of the margin.

    Where the labels no longer fit, by `fit`, the gate does not pass, and no difference is given as
    the reason.
    """
    assert gate.metric is not None
    value = float(scores.values[gate.metric].mean())
    result = GateResult(gate=gate.text, value=value, passed=False)
    if reference is None:
        return result.failed_because("no run to compare with; add --compare-to")
    if fit is not None and fit.turned_over:
        return result.failed_because(fit.words)
    theirs = reference.scores[gate.metric.slug]
    ours = dict(zip(scores.query_ids, scores.values[gate.metric].tolist(), strict=True))
    shared = [query_id for query_id in ours if query_id in theirs]
    paired = compare_paired(
        np.array([theirs[each] for each in shared]), np.array([ours[each] for each in shared])
    )
    if paired.low is None or paired.high is None:
        return result.failed_because(
            f"{len(shared)} queries in common with {reference.folder.name}"
        )
    bound = paired.low if gate.sign in (">=", ">") else paired.high
    passed = gate.passes(bound)
    words = (
        f"{difference(paired.difference)} {interval(paired.low, paired.high)} against "
        f"{reference.folder.name}"
    )
    if not passed:
        side = "above" if gate.sign in (">=", ">") else "below"
        words += f"; the interval must lie {side} {difference(gate.bound)}"
    return result.model_copy(update={"passed": passed, "reason": words})


def regression_gate(comparison: Comparison) -> GateResult:
    """The gate of `--fail-on-regression`: no compared metric got significantly worse (Holm).

    Its figure is the difference of the first metric. Where the labels no longer fit, it fails and
    calls nothing a regression. With too few queries it cannot fail, and says so.
    """
    first, *_ = comparison.metrics.values()
    result = GateResult(gate="no regression", value=first.difference, passed=True)
    if comparison.labels is not None and comparison.labels.turned_over:
        return result.failed_because(comparison.labels.words)
    worse = [
        f"{parse_figure(name)} {difference(each.difference)} {interval(each.low, each.high)}"
        for name, each in comparison.metrics.items()
        if each.significant and improvement(parse_figure(name), each.difference) < 0
    ]
    enough = fewest_queries(len(comparison.metrics))
    if not worse and first.n < enough:
        return result.noted(
            f"{counted(first.n, 'query', 'queries')} cannot show a regression, however large; "
            f"use at least {enough}, or a gate with a bound"
        )
    if not worse:
        return result
    return result.failed_because(f"regression: {', '.join(worse)} against {comparison.run}")


def without_reference(evaluation: "Evaluation") -> str:
    """What to tell of a run that found no earlier one to compare with; nothing if it did."""
    config = evaluation.config
    if not config.compare_to or evaluation.reference is not None:
        return ""
    left_out = len(config.gates) - len(evaluation.gates)
    gates = f", and {left_out} of {len(config.gates)} gates, which name it," if left_out else ""
    return (
        f"warning: no complete run of {config.compare_to!r} on the same data yet: the "
        f"comparison{gates} is left out of this run"
    )


def _find(evaluation: "Evaluation", out: Path, resumed: RunFolder | None) -> RunFolder | None:
    """The newest run of that label; of a branch, the newest of the same target if it has one.

    A branch may have runs of several targets, and which was evaluated last is chance.
    """
    name = evaluation.config.compare_to
    if name == LATEST or RUNS.at(name, out):
        return find_run(name, out)
    own = "" if resumed is None else resumed.name
    target = redact_target(evaluation.config.target)
    second_best: dict[tuple[bool, bool], RunFolder] = {}
    for folder, line in _newest_first(out):
        if (
            line.name == own
            or line.state != RunState.COMPLETE
            or name not in (line.label, line.branch)
        ):
            continue
        wanted_target = line.label == name or line.target == target
        if not wanted_target and (False, True) in second_best:
            continue
        try:
            header = folder.read_header()
            comparable = header.baseline_of is None and not _differences(header, evaluation)
            if comparable and folder.state() == RunState.COMPLETE:
                same_documents = header.dataset.fingerprint == evaluation.dataset.fingerprint
                if wanted_target and same_documents:
                    return folder
                second_best.setdefault((wanted_target, same_documents), folder)
        except RunError:  # a damaged run is none to compare with
            continue
    # Without the same documents, the questions and labels are the same.
    return second_best[max(second_best)] if second_best else None


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


def _nearest(evaluation: "Evaluation", out: Path) -> str:
    """What the newest run of that name has otherwise, or which name may have been meant."""
    wanted, names = evaluation.config.compare_to, set[str]()
    for folder, line in _newest_first(out):
        own = {each for each in (line.label, line.branch) if each}
        names |= own
        if wanted not in own or line.baseline_of is not None:
            continue
        try:
            header, state = folder.read_header(), folder.state()
        except RunError:
            continue
        differs = [f"is {state}"] if state != RunState.COMPLETE else []
        differs += _differences(header, evaluation)
        return f" ({folder.name} {' and '.join(differs)})" if differs else ""
    return did_you_mean(wanted, names).replace(". Did", " (did").replace("?", "?)")


def _differences(header: RunHeader, evaluation: "Evaluation") -> list[str]:
    """What a run has otherwise than the plan, so that the two do not compare, in words."""
    ours, theirs, dataset = evaluation.config, header.config, evaluation.dataset
    same_data = header.dataset.fingerprint == dataset.fingerprint
    same_labels = header.dataset.labels == dataset.labels_fingerprint
    differs = [] if same_data or same_labels else ["has other questions or labels"]
    for name in ("split", "top_k", "num_queries", "seed", "shard_index", "num_shards"):
        had, has = getattr(theirs, name), getattr(ours, name)
        if had != has and (name != "seed" or ours.num_queries is not None):
            shown = "all" if had is None else had
            differs.append(f"has {name} {shown}, not {'all' if has is None else has}")
    return differs


def _scores(folder: RunFolder, gates: Sequence[Gate]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    metrics = [gate.metric for gate in gates if gate.metric is not None]
    for row in folder.read_rows() if metrics else ():
        for metric in metrics:
            if metric.key not in row.scores:
                raise UsageError(
                    f"run {folder.name!r} has no {metric}, which a gate compares; choose a metric "
                    "that both runs have"
                )
            found.setdefault(metric.slug, {})[row.query_id] = row.scores[metric.key]
    return found
