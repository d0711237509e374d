"""The searches of an agent and the trials of a run, as a few lines for a terminal."""

from collections.abc import Iterator

from assay.report.numbers import count, counted, difference, figure, percent, with_interval
from assay.run.searches import SearchFigure, SearchReport, TrialsReport


def search_lines(search: SearchReport) -> Iterator[tuple[str, str]]:
    """What the searches were worth, each line with its name."""
    source = (
        "reported by the agent" if not search.recorded else f"attributed by {search.attribution}"
    )
    yield (
        "searches",
        f"{search.calls.mean:.1f} a question (p95 {search.calls.p95:.0f}), "
        f"{count(round(search.tokens.mean))} tokens shown; {source}",
    )
    if search.searched < search.questions:
        silent = search.questions - search.searched
        yield "", f"{count(silent)} of {count(search.questions)} questions without a search"
    if search.unattributed:
        words = counted(search.unattributed, "search belongs", "searches belong")
        yield "", f"{words} to no question: ask one at a time with --concurrency 1"
    figures = search.figures
    complete = percent(figures["evidence_complete"].mean)
    yield "evidence", f"{_figure(figures['evidence_recall'])} seen, complete for {complete}"
    if quadrants := search.quadrants:
        yield (
            "",
            f"answers: {quadrants.read_it} read it, {quadrants.knew_it} knew it without, "
            f"{quadrants.did_not_read} did not read it, {quadrants.never_saw} never saw it",
        )
    if "search_loss" in figures:
        never, dropped = figures["search_loss"].mean, figures["selection_loss"].mean
        yield (
            "loss",
            f"of {figure(never + dropped)} lost, {figure(never)} was never seen, "
            f"{figure(dropped)} was seen and dropped or misranked",
        )
    if gain := figures.get("loop_gain"):
        yield "loop", _loop(gain, search.calls.mean)
    yield "effort", "; ".join(_effort(search))
    if blame := search.blame:
        reasons = ", ".join(f"{number} {reason}" for reason, number in blame.counts.items())
        some = (
            "" if blame.examined == blame.documents else f" (of {count(blame.examined)} examined)"
        )
        yield "missing", f"{counted(blame.documents, 'document')}: {reasons}{some}"


def _effort(search: SearchReport) -> Iterator[str]:
    figures = search.figures
    if "redundancy" in figures:
        yield f"{percent(figures['redundancy'].mean)} shown twice"
    if "overrun" in figures:
        yield f"{percent(figures['overrun'].mean)} of searches after the last new evidence"
    if "kept" in figures:
        yield f"{percent(figures['kept'].mean)} of the evidence kept"
    if search.per_right:
        yield f"{search.per_right['calls']:.1f} searches a right answer"


def _loop(gain: SearchFigure, calls: float) -> str:
    if gain.low is None or gain.high is None or gain.low <= 0 <= gain.high:
        verdict = "no significant gain"
    else:
        verdict = "a gain" if gain.mean > 0 else "a loss"
    worth = f"{difference(gain.mean)} [{difference(gain.low)}, {difference(gain.high)}]"
    return f"{worth} over one search with the question, at {calls:.1f} calls: {verdict}"


def trial_lines(trials: TrialsReport) -> Iterator[tuple[str, str]]:
    """How far the trials agree."""
    yield (
        "trials",
        f"{trials.repeat} a question; lists overlap {percent(trials.agreement)}; {trials.advice}",
    )
    if trials.pass_all and trials.pass_any:
        number = trials.repeat
        passed = (
            f"pass^{number} {_figure(trials.pass_all)}, pass@{number} {_figure(trials.pass_any)}"
        )
        yield "", passed
    if trials.flaky:
        yield "", f"flaky: {', '.join(trials.flaky)}"


def _figure(found: SearchFigure) -> str:
    return with_interval(found.mean, found.low, found.high)
