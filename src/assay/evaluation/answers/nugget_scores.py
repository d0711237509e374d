"""The facts that a run's or a log's answers should state: assigned, scored, and reported."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from assay.errors import DataError
from assay.evaluation.answers.asking_again import CounterfactualRunner
from assay.evaluation.gates import figure_calibration
from assay.metrics.answer_values import NuggetAssignment
from assay.metrics.figures import NUGGET_METRICS
from assay.net.gather import gather_for
from assay.run.answers import NuggetsReport
from assay.text import normalize, text_hash

BY_RULES = "rules: words and numbers, without a model"

# The references that have facts, by query id.
Nuggets = Mapping[str, Reference]


def nuggets_of_dataset(path: Path, dataset: Dataset, queries: Sequence[Query]) -> Nuggets:
    """From a file that was made for this data set; `DataError` if no query has a fact."""
    known = {name: each for name, each in load_references(path, dataset).items() if each.facts}
    if known.keys().isdisjoint(query.id for query in queries):
        again = "extract some with: assay ground-truth --nuggets --resume"
        raise DataError(f"none of {len(queries)} questions has a nugget; {again}", file=path)
    return known


def nuggets_of_log(path: Path, cases: Sequence[AnswerCase]) -> Nuggets:
    """From a file whose questions are those of logged rows, found by their words or by id."""
    known = [each for each in read_references(path) if each.facts]
    by_words = {normalize(each.query): each for each in known if each.query}
    by_id = {each.query_id: each for each in known if not each.query}
    found = {
        case.query_id: by_words.get(normalize(case.question)) or by_id.get(case.query_id)
        for case in cases
    }
    if not any(found.values()):
        raise DataError(f"none of its {len(known)} questions with nuggets is in the log", file=path)
    return {query_id: each for query_id, each in found.items() if each is not None}


@dataclass(frozen=True)
class NuggetFindings:
    """Each nugget with what the answer does with it, by query id, and all of them in words."""

    assigned: Mapping[str, list[NuggetAssignment]]
    report: NuggetsReport

    def scores(self) -> Columns:
        """The metrics; a question counts if it has facts, and for vital ones vital facts."""
        rows = {query_id: nugget_scores(each) for query_id, each in self.assigned.items()}
        return {
            name: {query_id: row[name] for query_id, row in rows.items() if name in row}
            for name in NUGGET_METRICS
        }


def _findings(
    nuggets: Nuggets, judgments: Mapping[str, Sequence[Judgment]], by: str
) -> NuggetFindings:
    assigned = {
        query_id: list(map(assignment, nuggets[query_id].facts, each))
        for query_id, each in judgments.items()
    }
    every = [each for those in assigned.values() for each in those]
    # Recall of other facts is another figure: runs are compared only where these are the same.
    facts = (f"{name}\x1f{','.join(f.hash for f in each.facts)}" for name, each in nuggets.items())
    report = NuggetsReport(
        fingerprint=text_hash("".join(f"{each}\x1e" for each in facts)),
        questions=len(assigned),
        nuggets=len(every),
        vital=sum(each.vital for each in every),
        undecided=sum(each.support is None for each in every),
        makers=dict(Counter(each.by for each in every).most_common()),
        assigned_by=by,
        flip_rate=flip_rate([each for those in judgments.values() for each in those]),
    )
    return NuggetFindings(assigned, report)


def nuggets_by_rules(cases: Sequence[AnswerCase], nuggets: Nuggets) -> NuggetFindings:
    """Assign every fact without a model."""
    judgments = {
        case.query_id: [
            assign_by_rules(case.question, case.answer, fact.text)
            for fact in nuggets[case.query_id].facts
        ]
        for case in cases
        if case.query_id in nuggets
    }
    return _findings(nuggets, judgments, BY_RULES)


async def nuggets_by_judge(
    judge: Judge, cases: Sequence[AnswerCase], nuggets: Nuggets, asker: CounterfactualRunner
) -> NuggetFindings:
    """Have the judge assign every fact. Raises `UnreliableJudge` if it cannot be believed."""
    settings = asker.config.judge_set
    covered = [case for case in cases if case.query_id in nuggets]
    facts = {
        case.query_id: [fact.text for fact in nuggets[case.query_id].facts] for case in covered
    }
    # The first fact of each question is its own answer, and a wrong one to the others.
    known = [(case.question, facts[case.query_id][0]) for case in covered]
    controls = await ask_nugget_controls(judge, known, settings.controls)
    if controls is not None and controls.failure:
        raise UnreliableJudge(controls.failure)

    async def assign(case: AnswerCase) -> list[Judgment]:
        about = judge.about(case.query_id)
        return await assign_by_judge(about, case.question, case.answer, facts[case.query_id])

    found = await gather_for(covered, assign, "assigning nuggets", asker.progress)
    if doubt := unreliable(
        (each for those in found for each in those), "nuggets", settings.max_flips
    ):
        raise UnreliableJudge(doubt)
    by = f"judge {judge.name}, the worse of both orders of {judge.votes} votes"
    judgments = {case.query_id: those for case, those in zip(covered, found, strict=True)}
    findings = _findings(nuggets, judgments, by)
    questions = {*(case.question for case in covered), *(each.query for each in nuggets.values())}
    status = figure_calibration("nugget_recall", asker.config, questions)
    more = {"controls": controls, "calibration": status.words if status else None}
    return NuggetFindings(findings.assigned, findings.report.model_copy(update=more))
