"""The answers of a run on its page: how many are right, whose fault the others are, and why."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from assay.report import plots
from assay.report.html_questions import (
    RIGHT,
    TRIED,
    UNDECIDED,
    WRONG,
    QuestionPainter,
    Row,
    ShownQuestion,
    verdict_of,
)
from assay.report.numbers import count, counted, percent

EXAMPLES = 4
"""Questions shown of each kind of failure: a page shows all kinds, not all questions."""


@dataclass
class Examples:
    """The first few rows of each verdict and failure, in one pass over as many as there are."""

    by_kind: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def read(self, rows: Iterable[Row]) -> "Examples":
        for row in rows:
            kind = kind_of(row)
            self.counts[kind] += 1
            if len(self.by_kind[kind]) < EXAMPLES:
                self.by_kind[kind].append(row)
        return self

    def kinds(self) -> list[str]:
        """Failures first, the most frequent one first; then what is undecided, then right."""
        last = {UNDECIDED: 1, RIGHT: 2}
        return sorted(self.counts, key=lambda kind: (last.get(kind, 0), -self.counts[kind], kind))


@dataclass(frozen=True, slots=True)
class QuestionGroup:
    """Questions that went the same way; `href` leads to all of them, where there is a page."""

    kind: str
    number: int
    questions: Sequence[ShownQuestion]
    href: str


def answers_view(
    answers: Mapping[str, Any], rows: Iterable[Row], painter: QuestionPainter, links: str = ""
) -> dict[str, Any]:
    """What the template `answers_body.html` shows. `links`: where questions have pages."""
    found = Examples().read(rows)
    statistics = answers["statistics"]
    return {
        **answers,
        "correctness": statistics.get("correctness"),
        "score_line": _score_line(statistics.get("correctness")),
        "picture": _picture(answers["diagnosis"]),
        "points": _points(answers["diagnosis"]),
        "outside": _outside(answers["diagnosis"]),
        "kinds": _kinds(answers["diagnosis"], links),
        "tried": _tried(answers["counterfactuals"]),
        "judge_facts": judge_facts(answers["judge"]) if answers["judge"] else [],
        "groups": [
            QuestionGroup(
                kind,
                found.counts[kind],
                [painter.paint(row) for row in found.by_kind[kind]],
                _href(links, kind),
            )
            for kind in found.kinds()
        ],
        "links": links,
    }


def kind_of(row: Row) -> str:
    """What failed, else the verdict."""
    diagnosis = row.get("diagnosis")
    return str(diagnosis["failure"]) if diagnosis else verdict_of(row)


def judge_facts(judge: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is known of the judge and of how far to believe it."""
    facts = [
        ("Model", str(judge["provider"])),
        ("Votes for each answer", count(judge["votes"])),
        ("Answers judged", count(judge["judged"])),
        ("Contradicts itself on", percent(judge["flip_rate"])),
        ("Undecided on", counted(judge["undecided"], "question")),
        ("Votes that could not be read", count(judge["unparseable_votes"])),
    ]
    if spent := judge.get("spending"):
        facts += [
            ("Calls", f"{count(spent['calls'])}, and {count(spent['cached'])} from the cache"),
            ("Tokens", f"{count(spent['input_tokens'])} in, {count(spent['output_tokens'])} out"),
            ("Cost", _cost(spent["cost"])),
        ]
    return facts


def _cost(dollars: float | None) -> str:
    if dollars is None:
        return "price not known"
    return "under 0.01 US dollars" if 0 < dollars < 0.01 else f"{dollars:.2f} US dollars"


def _score_line(row: Mapping[str, Any] | None) -> Markup | None:
    if row is None:
        return None
    return plots.score_line(row["mean"], row["low"], row["high"], row["ceiling"])


def _picture(diagnosis: Mapping[str, Any] | None) -> Markup | None:
    if diagnosis is None or not sum(diagnosis["quadrants"].values()):
        return None
    return plots.mosaic(diagnosis["quadrants"])


def _points(diagnosis: Mapping[str, Any] | None) -> Markup | None:
    if diagnosis is None or not diagnosis["wrong"]:
        return None
    return plots.point_bars(diagnosis["points"])


def _outside(diagnosis: Mapping[str, Any] | None) -> int:
    """Questions that are neither: there is no answer to find, or the agent failed."""
    if diagnosis is None:
        return 0
    return int(diagnosis["questions"] - sum(diagnosis["quadrants"].values()))


def _kinds(diagnosis: Mapping[str, Any] | None, links: str) -> list[tuple[str, int, str]]:
    counts = diagnosis["counts"] if diagnosis else {}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(kind, number, _href(links, kind)) for kind, number in ordered]


def _tried(counterfactuals: Mapping[str, Any] | None) -> list[tuple[str, int, int]]:
    """In which context, how many were right, of how many that were asked again."""
    tried = counterfactuals or {}
    return [
        (words, tried[name]["right"], tried[name]["asked"])
        for name, words in TRIED.items()
        if name in tried and tried[name]["asked"]
    ]


def _href(links: str, kind: str) -> str:
    if not links:
        return ""
    name = "verdict" if kind in (RIGHT, WRONG, UNDECIDED) else "diagnosis"
    return f"{links}?{urlencode({name: kind})}"
