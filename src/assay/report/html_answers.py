"""View model of a run's answers: how many are right, which half fails, and examples."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from markupsafe import Markup

from assay.answers.diagnosis import DiagnosisReport, Quadrants
from assay.llm.providers.provider import Spending
from assay.report import plots
from assay.report.html_queries import JudgedDocuments
from assay.report.html_questions import (
    CONTEXTS,
    RIGHT,
    UNDECIDED,
    WRONG,
    QuestionView,
    question_view,
    verdict_word,
)
from assay.report.numbers import count, counted, dollars, percent
from assay.run.answers import (
    AnswersReport,
    AnswerStatistic,
    CounterfactualCount,
    JudgeRecord,
)
from assay.run.models import AnswerRow

EXAMPLES = 4
"""Questions shown of each kind of failure: a page shows all kinds, not all questions."""


@dataclass
class ExampleRows:
    """The first rows of each verdict and failure, collected in one pass over any number."""

    referenced: bool = False
    by_kind: dict[str, list[AnswerRow]] = field(default_factory=lambda: defaultdict(list))
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, row: AnswerRow) -> None:
        """Count a row, and keep it where it is among the first of its kind."""
        kind = kind_of(row)
        self.referenced |= row.reference_answer is not None
        self.counts[kind] += 1
        if len(self.by_kind[kind]) < EXAMPLES:
            self.by_kind[kind].append(row)

    def kinds(self) -> list[str]:
        """Failures first, the most frequent one first; then what is undecided, then right."""
        last = {UNDECIDED: 1, RIGHT: 2}
        return sorted(self.counts, key=lambda kind: (last.get(kind, 0), -self.counts[kind], kind))


@dataclass(frozen=True, slots=True)
class QuestionGroup:
    """Questions with the same outcome; `href` links to all of them, where there is a page."""

    kind: str
    number: int
    questions: Sequence[QuestionView]
    href: str


@dataclass(frozen=True, slots=True)
class FailureKindLine:
    """How many answers failed in one way; `href` links to them."""

    kind: str
    number: int
    href: str


@dataclass(frozen=True, slots=True)
class AnswersView:
    """What the templates `answers_body.html` and `answers_questions.html` show.

    `outside` counts questions that the mosaic leaves out: those without an answer in the documents,
    those without expected ids and those where the agent failed. `links` is the address of the list
    of questions, `referenced` whether any question has a reference.
    """

    report: AnswersReport
    correctness: AnswerStatistic | None
    score_line: Markup | None
    mosaic: Markup | None
    points: Markup | None
    outside: int
    kinds: Sequence[FailureKindLine]
    contexts: Sequence[tuple[str, CounterfactualCount]]
    judge_facts: Sequence[tuple[str, str]]
    groups: Sequence[QuestionGroup]
    links: str
    referenced: bool


def answers_view(
    answers: AnswersReport, rows: Iterable[AnswerRow], judged: JudgedDocuments, links: str = ""
) -> AnswersView:
    """The view of a run's answers; `links` is where questions have pages."""
    found = ExampleRows()
    for row in rows:
        found.add(row)
    correctness, diagnosis = answers.statistics.get("correctness"), answers.diagnosis
    return AnswersView(
        report=answers,
        correctness=correctness,
        score_line=_score_line(correctness),
        mosaic=_mosaic(diagnosis),
        points=_point_bars(diagnosis),
        outside=diagnosis.questions - _inside(diagnosis.quadrants) if diagnosis else 0,
        kinds=_kinds(diagnosis, links),
        contexts=_contexts(answers),
        judge_facts=judge_facts(answers.judge) if answers.judge else [],
        groups=[
            QuestionGroup(
                kind,
                found.counts[kind],
                [question_view(row, judged) for row in found.by_kind[kind]],
                _href(links, kind),
            )
            for kind in found.kinds()
        ],
        links=links,
        referenced=found.referenced,
    )


def kind_of(row: AnswerRow) -> str:
    """What failed, else the verdict."""
    return row.diagnosis.failure if row.diagnosis else verdict_word(row)


def judge_facts(judge: JudgeRecord) -> list[tuple[str, str]]:
    """Which model judged, how reliably and at what cost, as labels and values."""
    facts = [
        ("Model", judge.provider),
        ("Votes for each answer", f"{count(judge.votes)}, half with the reference first"),
        ("Answers judged", count(judge.judged)),
        ("Contradicts itself on", percent(judge.flip_rate)),
        ("Undecided on", counted(judge.undecided, "question")),
        ("Unparseable votes", count(judge.unparseable_votes)),
    ]
    if judge.controls:
        words = filter(None, (judge.controls.words, judge.controls.untested))
        facts.append(("Controls, whose verdict is known", "; ".join(words)))
    if judge.calibration:
        facts.append(("Calibration", judge.calibration))
    return facts + _spending_facts(judge.spending) if judge.spending else facts


def _spending_facts(spending: Spending) -> list[tuple[str, str]]:
    return [
        ("Calls", f"{count(spending.calls)}, and {count(spending.cached)} from the cache"),
        ("Tokens", f"{count(spending.input_tokens)} in, {count(spending.output_tokens)} out"),
        ("Cost", "price not known" if spending.cost is None else dollars(spending.cost)),
    ]


def _score_line(row: AnswerStatistic | None) -> Markup | None:
    return plots.score_line(row.mean, row.low, row.high, row.ceiling or 1.0) if row else None


def _mosaic(diagnosis: DiagnosisReport | None) -> Markup | None:
    if diagnosis is None or not _inside(diagnosis.quadrants):
        return None
    return plots.mosaic(diagnosis.quadrants)


def _point_bars(diagnosis: DiagnosisReport | None) -> Markup | None:
    if diagnosis is None or not any(diagnosis.points.values()):
        return None
    return plots.point_bars(diagnosis.points)


def _inside(quadrants: Quadrants) -> int:
    right = quadrants.evidence_right + quadrants.no_evidence_right
    return right + quadrants.evidence_wrong + quadrants.no_evidence_wrong


def _kinds(diagnosis: DiagnosisReport | None, links: str) -> list[FailureKindLine]:
    counts = diagnosis.counts if diagnosis else {}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [FailureKindLine(kind, number, _href(links, kind)) for kind, number in ordered]


def _contexts(answers: AnswersReport) -> list[tuple[str, CounterfactualCount]]:
    """How the questions that were asked again went, by what they were answered from."""
    tried = answers.counterfactuals or {}
    found = [(words, tried[name]) for name, words in CONTEXTS.items() if name in tried]
    return [(words, count) for words, count in found if count.asked]


def _href(links: str, kind: str) -> str:
    if not links:
        return ""
    name = "verdict" if kind in (RIGHT, WRONG, UNDECIDED) else "diagnosis"
    return f"{links}?{urlencode({name: kind})}"
