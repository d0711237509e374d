"""The facts that a run's or a log's answers should state: assigned, scored, and reported."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from assay.answers.answer_metrics import Columns
from assay.answers.case import AnswerCase
from assay.answers.judge import Judge, Judgment, UnreliableJudge, flip_rate, unreliable
from assay.answers.nuggets import (
    ask_nugget_controls,
    assign_by_judge,
    assign_by_rules,
    assignment,
    nugget_scores,
)
from assay.answers.references import Reference, load_references, read_references
from assay.data.dataset import Dataset, Query
from assay.errors import DataError, UsageError
from assay.evaluation.answers.asking_again import CounterfactualRunner
from assay.evaluation.gates import Gate, figure_calibration
from assay.metrics.answer_values import JudgeControls, NuggetAssignment
from assay.metrics.figures import NUGGET_METRICS
from assay.net.gather import gather_for
from assay.run.answers import NuggetsReport
from assay.text import normalize

BY_RULES = "rules: words and numbers, without a model"


@dataclass(frozen=True)
class NuggetSet:
    """The references with facts of the questions that are asked, by query id."""

    questions: Mapping[str, Reference]
    file: str

    @classmethod
    def of_dataset(
        cls, path: Path, dataset: Dataset, queries: Sequence[Query], gates: Sequence[Gate] = ()
    ) -> "NuggetSet":
        """From a file that was made for this data set; `DataError` for any other."""
        known = load_references(path, dataset)
        asked = [known[each.id] for each in queries if each.id in known]
        _require_facts(gates, asked, len(queries), path)
        return cls(known, str(path))

    @classmethod
    def of_log(
        cls, path: Path, cases: Sequence[AnswerCase], gates: Sequence[Gate] = ()
    ) -> "NuggetSet":
        """From a file whose questions are those of logged rows, found by id or by their words."""
        known = read_references(path)
        by_id = {each.query_id: each for each in known}
        by_words = {normalize(each.query): each for each in known if each.query}
        found: dict[str, Reference] = {}
        for case in cases:
            asked, match = normalize(case.question), by_id.get(case.query_id)
            if match is None or (match.query and normalize(match.query) != asked):
                match = by_words.get(asked)
            if match is not None:
                found[case.query_id] = match
        if not found:
            raise DataError(
                f"none of its {len(known)} questions is in the log: it begins with "
                f"{known[0].query_id!r}, the log with {cases[0].query_id!r}",
                file=path,
            )
        _require_facts(gates, list(found.values()), len(found), path)
        return cls(found, str(path))

    @property
    def fingerprint(self) -> str:
        """A hash of all facts: recall of others is another figure."""
        digest = hashlib.sha256()
        for query_id, question in self.questions.items():
            hashes = (each.hash for each in question.facts)
            digest.update(f"{query_id}\x1f{','.join(hashes)}\x1e".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def facts(self, cases: Sequence[AnswerCase]) -> dict[str, list[str]]:
        """The facts of each question that has any: an agent that declines is covered too."""
        known = {case.query_id: self.questions.get(case.query_id) for case in cases}
        return {
            query_id: [fact.text for fact in each.facts]
            for query_id, each in known.items()
            if each is not None and each.facts
        }


def _require_facts(
    gates: Sequence[Gate], references: Sequence[Reference], asked: int, path: Path
) -> None:
    """A figure that nothing in the file can give would fail its gate without a word."""
    facts = [fact for each in references for fact in each.facts]
    if not facts:
        again = "extract some with: assay ground-truth --nuggets --resume"
        raise DataError(f"none of the {asked} questions has a nugget; {again}", file=path)
    for gate in gates:
        if "vital" in gate.name and not any(fact.vital for fact in facts):
            raise UsageError(
                f"gate {gate.text!r} needs vital nuggets, and {path} has none for these questions: "
                "mark some as vital, or gate nugget_recall"
            )


@dataclass(frozen=True)
class NuggetFindings:
    """What was said about the nuggets of each answer, by query id."""

    source: NuggetSet
    judgments: Mapping[str, Sequence[Judgment]]
    by: str
    controls: JudgeControls | None = None
    judged: bool = False
    calibration: str | None = None

    @cached_property
    def assigned(self) -> dict[str, list[NuggetAssignment]]:
        """Each nugget with what the answer does with it, by query id."""
        return {
            query_id: list(map(assignment, self.source.questions[query_id].facts, judgments))
            for query_id, judgments in self.judgments.items()
        }

    def scores(self) -> Columns:
        """The metrics; a question counts if it has facts, and for vital ones vital facts."""
        rows = {query_id: nugget_scores(each) for query_id, each in self.assigned.items()}
        return {
            name: {query_id: row[name] for query_id, row in rows.items() if name in row}
            for name in NUGGET_METRICS
        }

    def report(self) -> NuggetsReport:
        """What tables say about the facts as a whole."""
        every = [each for those in self.assigned.values() for each in those]
        vital = [each for each in every if each.vital]
        counts = Counter(each.support for each in every)
        return NuggetsReport(
            file=self.source.file,
            fingerprint=self.source.fingerprint,
            questions=len(self.assigned),
            nuggets=len(every),
            vital=len(vital),
            vital_supported=sum(each.support == "support" for each in vital),
            supported=counts["support"],
            partial=counts["partial"],
            undecided=counts[None],
            makers=dict(Counter(each.by for each in every).most_common()),
            assigned_by=self.by,
            judged=self.judged,
            flip_rate=flip_rate([each for those in self.judgments.values() for each in those]),
            controls=self.controls,
            calibration=self.calibration,
        )


def nuggets_by_rules(cases: Sequence[AnswerCase], source: NuggetSet) -> NuggetFindings:
    """Assign every fact without a model."""
    facts = source.facts(cases)
    judgments = {
        case.query_id: [
            assign_by_rules(case.question, case.answer, text) for text in facts[case.query_id]
        ]
        for case in cases
        if case.query_id in facts
    }
    return NuggetFindings(source, judgments, BY_RULES)


async def nuggets_by_judge(
    judge: Judge, cases: Sequence[AnswerCase], source: NuggetSet, asker: CounterfactualRunner
) -> NuggetFindings:
    """Have the judge assign every fact. Raises `UnreliableJudge` if it cannot be believed."""
    settings, facts = asker.config.judge_set, source.facts(cases)
    covered = [case for case in cases if case.query_id in facts]
    by_question = {case.question: facts[case.query_id] for case in covered}
    controls = await ask_nugget_controls(judge, by_question, settings.controls)
    if controls is not None and controls.failure:
        raise UnreliableJudge(controls.failure)

    async def assign(case: AnswerCase) -> list[Judgment]:
        about = judge.about(case.query_id)
        return await assign_by_judge(about, case.question, case.answer, facts[case.query_id])

    found = await gather_for(covered, assign, "assigning nuggets", asker.progress)
    every = (each for those in found for each in those)
    if doubt := unreliable(every, "nuggets", settings.max_flips):
        raise UnreliableJudge(doubt)
    judgments = {case.query_id: those for case, those in zip(covered, found, strict=True)}
    by = f"judge {judge.name}, the worse of both orders of {judge.votes} votes"
    questions = {*by_question, *(each.query for each in source.questions.values())}
    status = figure_calibration("nugget_recall", asker.config, questions)
    words = None if status is None else status.words
    return NuggetFindings(source, judgments, by, controls, judged=True, calibration=words)
