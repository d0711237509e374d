"""The facts that a run's or a log's answers should state: assigned, scored, and reported."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from assay.answers.references import (
    NuggetMaker,
    Reference,
    changed_documents,
    load_references,
    read_references,
)
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
_MADE = {
    NuggetMaker.MODEL: "model-made",
    NuggetMaker.EXTRACT: "extracted without a model",
    NuggetMaker.HUMAN: "by people",
    NuggetMaker.UNKNOWN: "of unknown origin",
}
_AGAIN = "extract some with: assay ground-truth --nuggets --resume"


@dataclass(frozen=True)
class NuggetSet:
    """The references with facts of a run by query id; `note` says what is doubtful about them."""

    questions: Mapping[str, Reference]
    file: str
    note: str = ""

    @classmethod
    def of_dataset(
        cls, path: Path, dataset: Dataset, queries: Sequence[Query], gates: Sequence[Gate] = ()
    ) -> "NuggetSet":
        """From a file that was made for this data set; `DataError` for any other.

        Raises `UsageError` for a gate on vital facts if the queries have none.
        """
        questions = load_references(path, dataset)
        _require_vital(gates, [each.id for each in queries], questions, path)
        changed = changed_documents(questions, dataset)
        note = f"{len(changed)} of the documents that the nuggets come from have changed since"
        note += f"; delete their records and {_AGAIN}"
        return cls(questions, str(path), note if changed else "")

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
            asked = normalize(case.question)
            same = by_id.get(case.query_id)
            if same is not None and same.query and normalize(same.query) != asked:
                same = None
            if (match := same or by_words.get(asked)) is not None:
                found[case.query_id] = match
        if not found:
            raise DataError(
                f"none of its {len(known)} questions is in the log: it begins with "
                f"{known[0].query_id!r}, the log with {cases[0].query_id!r}",
                file=path,
            )
        _require_vital(gates, list(found), found, path)
        return cls(found, str(path))

    @property
    def fingerprint(self) -> str:
        """A hash of all facts: recall of others is another figure."""
        digest = hashlib.sha256()
        for query_id, question in self.questions.items():
            hashes = (each.hash for each in question.facts)
            digest.update(f"{query_id}\x1f{','.join(hashes)}\x1e".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def only(self, query_ids: Iterable[str]) -> "NuggetSet":
        """Those of the questions that a run has asked."""
        return replace(self, questions={each: self.questions[each] for each in query_ids})

    @property
    def makers(self) -> dict[NuggetMaker, int]:
        """How many facts each kind of maker made, most first."""
        every = (each.by for question in self.questions.values() for each in question.facts)
        return dict(Counter(every).most_common())

    @property
    def made(self) -> str:
        """Who made them: `38 model-made (openai:gpt-4o-mini), 3 by people`."""
        models = {
            f"{each.provenance.get('provider')}:{each.provenance.get('model')}"
            for each in self.questions.values()
            if each.provenance.get("model") not in (None, "none")
        }
        named = f" ({', '.join(sorted(models))})" if models else ""
        return ", ".join(
            f"{number} {_MADE[maker]}{named if maker is NuggetMaker.MODEL else ''}"
            for maker, number in self.makers.items()
        )

    def covered(self, cases: Sequence[AnswerCase]) -> list[AnswerCase]:
        """By the question alone: an agent that declines or fails is covered too."""
        facts = {query_id for query_id, each in self.questions.items() if each.facts}
        return [case for case in cases if case.query_id in facts]


def _require_vital(
    gates: Sequence[Gate], asked: Sequence[str], questions: Mapping[str, Reference], path: Path
) -> None:
    """A figure that nothing in the file can give would fail its gate without a word."""
    facts = [fact for each in asked if each in questions for fact in questions[each].facts]
    if not facts:
        raise DataError(f"none of the {len(asked)} questions has a nugget; {_AGAIN}", file=path)
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
            query_id: [
                assignment(fact, judgment)
                for fact, judgment in zip(
                    self.source.questions[query_id].facts, judgments, strict=True
                )
            ]
            for query_id, judgments in self.judgments.items()
        }

    def scores(self) -> Columns:
        """The metrics; a question counts if it has facts, and for vital ones vital facts."""
        rows = {query_id: nugget_scores(each) for query_id, each in self.assigned.items()}
        return {
            name: {query_id: row[name] for query_id, row in rows.items() if name in row}
            for name in NUGGET_METRICS
        }

    def how(self, name: str) -> str:
        """What a metric counts, who made the facts and who assigned them."""
        return f"{NUGGET_METRICS[name]}; {self._used.made}; assigned by {self.by}"

    @cached_property
    def _used(self) -> NuggetSet:
        return self.source.only(self.judgments)

    def report(self) -> NuggetsReport:
        """What tables say about the facts as a whole."""
        every = [each for those in self.assigned.values() for each in those]
        judgments = [each for those in self.judgments.values() for each in those]
        vital = [each for each in every if each.vital]
        human = [each.credit for each in every if each.by == NuggetMaker.HUMAN]
        counts = Counter(each.support for each in every)
        return NuggetsReport(
            file=self.source.file,
            fingerprint=self.source.fingerprint,
            questions=sum(bool(each) for each in self.assigned.values()),
            nuggets=len(every),
            vital=len(vital),
            vital_supported=sum(each.support == "support" for each in vital),
            supported=counts["support"],
            partial=counts["partial"],
            undecided=counts[None],
            makers={maker.value: number for maker, number in self._used.makers.items()},
            made=self._used.made,
            assigned_by=self.by,
            judged=self.judged,
            flip_rate=flip_rate(judgments),
            controls=self.controls,
            human_recall=sum(human) / len(human) if human else None,
            calibration=self.calibration,
            note=self.source.note or None,
        )


def nuggets_by_rules(cases: Sequence[AnswerCase], source: NuggetSet) -> NuggetFindings:
    """Assign every fact without a model."""
    judgments = {
        case.query_id: [
            assign_by_rules(case.question, case.answer, fact.text)
            for fact in source.questions[case.query_id].facts
        ]
        for case in source.covered(cases)
    }
    return NuggetFindings(source, judgments, BY_RULES)


async def nuggets_by_judge(
    judge: Judge,
    cases: Sequence[AnswerCase],
    source: NuggetSet,
    asker: CounterfactualRunner,
) -> NuggetFindings:
    """Have the judge assign every fact.

    Raises `UnreliableJudge` if it fails its controls, contradicts itself or cannot be read.
    """
    covered = source.covered(cases)
    texts = {
        case.query_id: [fact.text for fact in source.questions[case.query_id].facts]
        for case in covered
    }
    by_question = {case.question: texts[case.query_id] for case in covered}
    controls = await ask_nugget_controls(judge, by_question, asker.config.judge_set.controls)
    if controls is not None and controls.failure:
        raise UnreliableJudge(controls.failure)

    async def assign(case: AnswerCase) -> list[Judgment]:
        about = judge.about(case.query_id)
        return await assign_by_judge(about, case.question, case.answer, texts[case.query_id])

    found = await gather_for(covered, assign, "assigning nuggets", asker.progress)
    if doubt := unreliable((each for those in found for each in those), "nuggets"):
        raise UnreliableJudge(doubt)
    judgments = {case.query_id: those for case, those in zip(covered, found, strict=True)}
    by = f"judge {judge.name}, the worse of both orders of {judge.votes} votes"
    questions = {*by_question, *(each.query for each in source.questions.values())}
    status = figure_calibration("nugget_recall", asker.config, questions)
    words = None if status is None else status.words
    return NuggetFindings(source, judgments, by, controls, judged=True, calibration=words)
