"""The answers of a run as people read them in a terminal, 80 columns wide."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.report.labelled import labelled
from assay.report.numbers import count, counted, figure, interval, percent

_TRIED = {"gold": "the right documents", "no_context": "no document", "distractors": "distractors"}


def render_answers(answers: Mapping[str, Any]) -> RenderableType:
    """Figures, then whose fault the wrong ones are, in one sentence and in numbers."""
    parts: list[RenderableType] = [_figures(answers["statistics"]), Text()]
    parts.append(labelled(_facts(answers)))
    if answers["diagnosis"]:
        parts += [Text(), Text(answers["diagnosis"]["sentence"], style="bold")]
    return Group(*parts)


def _figures(statistics: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("answers", min_width=19)
    for heading in ("mean", "95% interval", "ceiling", "questions"):
        table.add_column(heading, justify="right")
    for index, (name, row) in enumerate(statistics.items()):
        table.add_row(
            name,
            figure(row["mean"]),
            interval(row["low"], row["high"]),
            figure(row["ceiling"]),
            count(row["n"]),
            style="bold" if index == 0 else "",
        )
    return table


def _facts(answers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    asked = f"{count(answers['answered'])} of {count(answers['questions'])} answered"
    if answers["unanswerable"]:
        asked += f"; {count(answers['unanswerable'])} have no answer in the documents"
    yield "questions", asked
    if "correctness" in answers["statistics"]:
        yield "right if", answers["correctness_by"]
    elif not answers["trouble"]:
        yield "right if", "not decided: the references have no key facts; add --judge"
    if answers["trouble"]:
        yield "not judged", answers["trouble"]
    if judge := answers["judge"]:
        yield "judge", "; ".join(_judge(judge))
    if invented := answers["invented_citations"]["ids"]:
        yield "citations", f"{counted(invented, 'document')} cited that do not exist"
    if diagnosis := answers["diagnosis"]:
        kinds = sorted(diagnosis["counts"].items(), key=lambda item: -item[1])
        if kinds:
            yield "wrong", "; ".join(f"{kind} {count(number)}" for kind, number in kinds)
    if answers.get("note"):
        yield "note", answers["note"]
    for name, tried in (answers["counterfactuals"] or {}).items():
        if tried["asked"]:
            right = f"{tried['right']} of {tried['asked']} right"
            yield "again", f"with {_TRIED[name]}: {right}"


def _judge(judge: Mapping[str, Any]) -> Iterator[str]:
    yield f"{judge['provider']}, {counted(judge['votes'], 'vote')} each"
    if judge["flip_rate"] is not None:
        yield f"contradicts itself on {percent(judge['flip_rate'])}"
    if judge["undecided"]:
        yield f"undecided on {counted(judge['undecided'], 'question')}"
    if judge["unparseable_votes"]:
        yield f"{counted(judge['unparseable_votes'], 'vote')} could not be read"
    if cost := judge.get("spending", {}).get("cost"):
        yield f"{cost:.2f} US dollars"
