"""The facts, or nuggets, that answers should state: assigned by a judge or by rules, and scored.

As in TREC's RAG track (Pradeep et al. 2024, "Initial nugget evaluation results for the TREC 2024
RAG track with the AutoNuggetizer framework"): each nugget is supported, partly or not at all, and
the shares of supported nuggets are the metrics.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.answers.answer_metrics import Columns
from assay.answers.case import AnswerCase
from assay.answers.differences import differences
from assay.answers.faithfulness import Held
from assay.answers.judge import Judge, Judgment, UnreliableJudge, flip_rate, ruled, unreliable
from assay.answers.judge_controls import ControlPair, self_test
from assay.answers.outcome import taken_back
from assay.answers.statements import CLAUSE, abstained
from assay.answers.values import polarity
from assay.data.dataset import Dataset, Query
from assay.errors import DataError
from assay.evaluation.answers.asking_again import CounterfactualRunner
from assay.evaluation.gates import figure_calibration
from assay.labels.references import Nugget, Reference, load_references, read_references
from assay.llm.prompt import delimited, delimiter_code, load_prompt, numbered
from assay.metrics.answer_values import JudgeControls, NuggetAssignment
from assay.metrics.figures import NUGGET_METRICS
from assay.net.gather import gather, gather_for
from assay.run.answers import NuggetsReport
from assay.text import normalize, sentences, stems, text_hash

SUPPORT = ("NONE", "PARTIAL", "SUPPORT")
PROMPT = "nugget_assignment"
BATCH = 10  # nuggets that a judge is asked about in one call
# The shares of a nugget's words that rules want to see, beyond those of the question. Chosen on
# the key facts of the bundled notes: `tests/answers/test_nuggets.py` has the figures.
SUPPORT_SHARE, PARTIAL_SHARE = 0.66, 0.33
_MAX_ANSWER = 20_000
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
    """Each nugget with what the answer does with it, by query id, and the report on all."""

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
    nuggets: Nuggets, judgments: Mapping[str, Sequence[Judgment]], by: str, **more: Any
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
        **more,
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
    every = [each for those in found for each in those]
    if doubt := unreliable(every, "nuggets", settings.max_flips):
        raise UnreliableJudge(doubt)
    by = f"judge {judge.name}, the worse of both orders of {judge.votes} votes"
    judgments = {case.query_id: those for case, those in zip(covered, found, strict=True)}
    questions = {*(case.question for case in covered), *(each.query for each in nuggets.values())}
    status = figure_calibration("nugget_recall", asker.config, questions)
    words = status.words if status else None
    return _findings(nuggets, judgments, by, controls=controls, calibration=words)


def assignment(nugget: Nugget, judgment: Judgment) -> NuggetAssignment:
    """What a report keeps about a nugget: the worse of what the orders say."""
    worst = judgment.worst
    return NuggetAssignment(
        id=nugget.id,
        text=nugget.text,
        importance=nugget.importance.value,
        by=nugget.by.value,
        support=worst and worst.lower(),  # type: ignore[arg-type]  # one of SUPPORT
    )


def assign_by_rules(question: str, answer: str | None, nugget: str) -> Judgment:
    """Whether two neighboring sentences of an answer have a nugget's words and figures.

    Words of the question count as said. What a rule shows to be denied ("not", another number, an
    opposite) is not stated. A statement in other words is not recognized.
    """
    none = ruled("NONE", SUPPORT)
    if answer is None or abstained(answer):
        return none
    said = sentences(answer[:_MAX_ANSWER])
    needed = {*stems(nugget)} - {*stems(question)} or {*stems(nugget)}
    pairs = [" ".join(said[place : place + 2]) for place in range(len(said))]
    nearest = max(pairs, key=lambda pair: len(needed.intersection(stems(pair))), default="")
    share = len(needed.intersection(stems(nearest))) / max(1, len(needed))
    if share < PARTIAL_SHARE or taken_back(said):
        return none
    clauses = [part for part in CLAUSE.split(nearest) if needed.intersection(stems(part))]
    denied = polarity(nugget) and clauses and not any(map(polarity, clauses))
    others = differences(nugget, {nearest: "the answer"})
    if denied or any(each.kind != "polarity" for each in others):
        return none
    figures, missing = (Held([question, each]).foreign(nugget) for each in ("", nearest))
    if missing and missing == figures:
        return none
    return ruled("SUPPORT" if share >= SUPPORT_SHARE and not missing else "PARTIAL", SUPPORT)


async def assign_by_judge(
    judge: Judge, question: str, answer: str | None, nuggets: Sequence[str]
) -> list[Judgment]:
    """What the judge says about each nugget, `judge.votes` times, in the order of `nuggets`.

    An answer that failed or declines states none, and the judge is not asked.
    """
    if answer is None or abstained(answer):
        return [ruled("NONE", SUPPORT)] * len(nuggets)
    judgments: list[Judgment] = []
    for start in range(0, len(nuggets), BATCH):
        batch = nuggets[start : start + BATCH]
        votes = await gather(
            _vote(judge, question, answer, batch, vote) for vote in range(judge.votes)
        )
        judgments += [Judgment(each, SUPPORT) for each in zip(*votes, strict=True)]
    return judgments


async def _vote(
    judge: Judge, question: str, answer: str, nuggets: Sequence[str], vote: int
) -> list[str | None]:
    """One by one if a reply about several cannot be read."""
    turn = -1 if vote % 2 else 1
    prompt = assignment_prompt(question, answer, nuggets[::turn], vote)
    words = await judge.choose_each(prompt, SUPPORT, len(nuggets), "nuggets")
    if words is not None:
        return [*words[::turn]]
    if len(nuggets) == 1:
        return [None]
    return [(await _vote(judge, question, answer, [each], vote))[0] for each in nuggets]


def assignment_prompt(question: str, answer: str, nuggets: Sequence[str], vote: int = 0) -> str:
    """Asks which facts an answer states; the answer comes first in every second vote."""
    code = delimiter_code(question, answer, *nuggets, str(vote))
    facts = numbered("fact", code, nuggets)
    said = f"Answer:\n{delimited('answer', code, answer[:_MAX_ANSWER])}"
    first, second = (said, facts) if vote % 2 else (facts, said)
    return load_prompt(PROMPT).fill(
        code=code,
        number=str(len(nuggets)),
        question=f"Question:\n{delimited('question', code, question)}",
        first=first,
        second=second,
    )


def nugget_scores(assigned: Sequence[NuggetAssignment]) -> dict[str, float]:
    """The metrics of one answer by name; those of vital nuggets only if there are any.

    `nugget_recall_weighted` counts a vital nugget once and any other half; the strict ones give
    nothing for partial support.
    """
    found: dict[str, float] = {}
    vital = [each for each in assigned if each.vital]
    for name, those in (("nugget_recall", assigned), ("nugget_recall_vital", vital)):
        if those:
            found[name] = sum(each.credit for each in those) / len(those)
            found[f"{name}_strict"] = sum(each.credit == 1 for each in those) / len(those)
    if weights := [1.0 if each.vital else 0.5 for each in assigned]:
        weighted = sum(w * each.credit for w, each in zip(weights, assigned, strict=True))
        found["nugget_recall_weighted"] = weighted / sum(weights)
    return found


async def ask_nugget_controls(
    judge: Judge, known: Sequence[tuple[str, str]], number: int
) -> JudgeControls | None:
    """Facts as their own answers, changed, and against others'; `known` are questions with one."""

    async def ask(pair: ControlPair) -> Judgment:
        return (await assign_by_judge(judge, pair.question, pair.answer, [pair.reference]))[0]

    return await self_test(known, number, ask)
