"""Diagnoses wrong answers: whether retrieval or generation is at fault, or neither.

From one run alone this is a guess by what was retrieved. Asking the same question again with other
contexts settles it: with the needed documents alone (gold), with none, with those and others that
do not help (distractors).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from assay.answers.abstention import abstained
from assay.answers.answer_metrics import FEW_UNDECIDED, AnswerCase, Documents
from assay.answers.lexical import contains_any
from assay.metrics.statistics import sign_test

_SHOWN = 3
"""Findings that the sentence names; the report has all of them."""


class Component(StrEnum):
    """The part of a system that has to be fixed."""

    RETRIEVAL = "retrieval"
    GENERATION = "generation"
    BOTH = "both together"
    AGENT = "agent"


class Failure(StrEnum):
    """What went wrong with one answer."""

    RETRIEVAL_MISSED = "retrieval missed"
    UNUSED = "retrieved but unused"
    CONTRADICTS = "answer contradicts the evidence"
    SHOULD_HAVE_ABSTAINED = "should have abstained"
    ABSTAINED_WRONGLY = "abstained wrongly"
    AGENT_ERROR = "agent error"
    NO_EXPECTED_IDS = "wrong, and no expected ids"

    @property
    def component(self) -> Component | None:
        """The component that this failure usually comes from; None where nobody can tell."""
        if self is Failure.NO_EXPECTED_IDS:
            return None
        if self is Failure.AGENT_ERROR:
            return Component.AGENT
        return Component.RETRIEVAL if self is Failure.RETRIEVAL_MISSED else Component.GENERATION


@dataclass(frozen=True, slots=True)
class Observation:
    """What one run shows of one question.

    `evidence` is whether every needed document was retrieved, and not only `another_part` of it;
    `contradicted` whether the answer says something that the evidence denies, which takes a judge
    to see; `needs` whether it is known which documents are needed.
    """

    query_id: str
    correct: bool
    answerable: bool = True
    error: bool = False
    abstained: bool = False
    evidence: bool = False
    contradicted: bool = False
    another_part: bool = False
    needs: bool = True


@dataclass(frozen=True, slots=True)
class Counterfactuals:
    """Whether the same question was answered correctly with another context; None: not tried."""

    gold: bool | None = None
    no_context: bool | None = None
    distractors: bool | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`failure` is what happened, `component` what to fix; None: without expected ids nobody knows.

    `settled` means that nothing is guessed: the case is clear, or a counterfactual run decided it.
    """

    query_id: str
    failure: Failure
    component: Component | None
    settled: bool
    why: str


NOT_TRIED = Counterfactuals()
_CANNOT_TELL = "retrieval and generation cannot be told apart"


def shows_another_part(case: AnswerCase, documents: Documents) -> bool:
    """Whether chunks of the right documents were shown, but not those that hold the answer."""
    if not case.contexts or not case.needed or not case.needed <= set(case.seen_ids):
        return False
    needed = [documents[each].full_text for each in case.needed if each in documents]
    shown, held = (
        any(contains_any(text, fact.accept) for text in texts for fact in case.reference.facts)
        for texts in (case.seen_texts(documents), needed)
    )
    return held and not shown


def observe(
    case: AnswerCase,
    *,
    correct: bool,
    contradicted: bool = False,
    documents: Documents | None = None,
) -> Observation:
    """What a run shows of one case, given whether its answer is correct."""
    another_part = shows_another_part(case, documents or {})
    return Observation(
        query_id=case.query_id,
        correct=correct and case.answer is not None,
        answerable=case.answerable,
        error=case.answer is None,
        abstained=case.answer is not None and abstained(case.answer),
        evidence=case.needed <= set(case.seen_ids) and not another_part,
        contradicted=contradicted,
        another_part=another_part,
        needs=bool(case.needed),
    )


def diagnose(seen: Observation, others: Counterfactuals = NOT_TRIED) -> Diagnosis | None:
    """Why an answer is wrong; None for a correct one."""
    if seen.error:
        return _found(seen, Failure.AGENT_ERROR, True, "the agent gave no answer")
    if seen.correct:
        return None
    if not seen.answerable:
        return _found(seen, Failure.SHOULD_HAVE_ABSTAINED, True, "no document holds an answer")
    if not seen.needs:
        why = f"no expected ids, so {_CANNOT_TELL}"
        return _found(seen, Failure.NO_EXPECTED_IDS, False, why)
    if not seen.evidence:
        return _without_evidence(seen, others)
    return _with_evidence(seen, others)


def _without_evidence(seen: Observation, others: Counterfactuals) -> Diagnosis:
    if others.gold is False:
        # Fixing one component alone gains nothing here, so neither gets the point.
        why = f"{_missing(seen)}, and the answer is wrong even with it"
        return _found(seen, Failure.RETRIEVAL_MISSED, True, why, component=Component.BOTH)
    why = _missing(seen)
    if others.gold:
        why += ", and with it the answer is right"
    return _found(seen, Failure.RETRIEVAL_MISSED, others.gold is not None, why)


def _missing(seen: Observation) -> str:
    if seen.another_part:
        return "the part of a needed document that holds the answer was not shown"
    return "a needed document was not retrieved"


def _with_evidence(seen: Observation, others: Counterfactuals) -> Diagnosis:
    failure = _misuse(seen)
    if others.gold and others.distractors:
        why = (
            "right with the needed documents, also with others added: what this retrieval adds "
            "misleads"
        )
        return _found(seen, failure, True, why, component=Component.RETRIEVAL)
    if others.gold is False:
        why = "wrong even with the needed documents alone"
    elif others.gold and others.distractors is False:
        why = "right with only the needed documents, wrong when others are added"
    elif others.no_context:
        why = "right without any document: what was retrieved misleads"
    else:
        return _found(seen, failure, False, "everything needed was retrieved")
    return _found(seen, failure, True, why)


def _misuse(seen: Observation) -> Failure:
    if seen.abstained:
        return Failure.ABSTAINED_WRONGLY
    return Failure.CONTRADICTS if seen.contradicted else Failure.UNUSED


def _found(
    seen: Observation, failure: Failure, settled: bool, why: str, component: Component | None = None
) -> Diagnosis:
    return Diagnosis(seen.query_id, failure, component or failure.component, settled, why)


@dataclass(frozen=True, slots=True)
class DiagnosisSummary:
    """All diagnoses of a run: which component to fix, and what that is worth.

    `points` are percentage points of correctness that would be gained if that component never
    failed. About `undecided` questions a judge said neither; they are lost but blamed on nothing,
    as are wrong answers to questions without expected ids.
    `unknown` further questions nobody could decide, for the reason `why_unknown`: no point is about
    them. `answerable` are those of `questions` that have an answer.
    `from_memory` counts correct answers that are also correct without any document: they say
    nothing about retrieval.
    """

    questions: int
    undecided: int
    diagnoses: tuple[Diagnosis, ...]
    counts: Mapping[Failure, int]
    points: Mapping[Component, float]
    settled: int
    from_memory: int
    tried: bool
    findings: tuple[str, ...] = ()
    answerable: int = 0
    unknown: int = 0
    why_unknown: str = ""

    @property
    def sentence(self) -> str:
        """The advice: what to fix first, how sure that is, and what else is wrong."""
        if not self.questions:
            return "No question was answered, so there is nothing to diagnose."
        said = self._nothing_wrong
        if self.diagnoses:
            said = self._advised + (f" {self._shown_findings}." if self.findings else "")
        if not self.unknown:
            return said
        number = f"{self.unknown} of {self.questions + self.unknown} questions are undecided"
        return f"{number}: {self.why_unknown}. Of the others: {said}"

    @property
    def _shown_findings(self) -> str:
        return "; ".join(self.findings[:_SHOWN])

    @property
    def _advised(self) -> str:
        blamed = [each for each in self.diagnoses if each.component is not None]
        unblamed = len(self.diagnoses) - len(blamed)
        if not blamed:
            wrong = f"{unblamed} of {self.questions} questions are answered wrongly"
            return f"{wrong}, and without expected ids {_CANNOT_TELL}."
        first, *others = sorted(self.points, key=self._urgency)
        lost = 100 * (len(self.diagnoses) + self.undecided) / self.questions
        share = f"{self.points[first]:.1f} of the {lost:.1f} points that are lost"
        rest = [f"{part} {self.points[part]:.1f}" for part in others if self.points[part]]
        if unblamed:
            rest.append(f"no expected ids {100 * unblamed / self.questions:.1f}")
        if self.undecided:
            rest.append(f"undecided {100 * self.undecided / self.questions:.1f}")
        more = f" ({', '.join(rest)})" if rest else ""
        return f"{self._advice(first)} worth {share}{more}{self._doubt}."

    @property
    def _nothing_wrong(self) -> str:
        but = f", but {self._shown_findings}." if self.findings else ""
        if self.undecided > FEW_UNDECIDED * self.answerable:
            left = f"The judge leaves {self.undecided} of {self.questions} questions undecided"
            return f"{left}; all others are right{but or '.'}"
        if self.undecided:
            decided = self.questions - self.undecided
            if but:
                return f"All {decided} of {self.questions} questions decided are right{but}"
            return f"Nothing to fix among the {decided} of {self.questions} questions decided."
        if but:
            return f"All {self.questions} questions are right{but}"
        if self.unknown:
            return f"all {self.questions} are right."
        return f"Nothing to fix: all {self.questions} questions are right."

    def _urgency(self, part: Component) -> tuple[bool, bool, float]:
        """What is worth most first; what takes both components only if nothing else is lost."""
        return not self.points[part], part is Component.BOTH, -self.points[part]

    def _advice(self, first: Component) -> str:
        if first is Component.BOTH:
            return "Fix retrieval and generation, neither helps alone: they are"
        counts = Counter(each.component for each in self.diagnoses if each.component)
        others = [counts[part] for part in counts if part not in (first, Component.BOTH)]
        if any(counts[first] <= each or sign_test(counts[first], each) >= 0.05 for each in others):
            return f"No component is significantly worse; begin with {first}, which is"
        if first is Component.AGENT:
            return "Fix the agent's errors first: they are"
        return f"Fix {first} first: it is"

    @property
    def _doubt(self) -> str:
        blamed = sum(each.component is not None for each in self.diagnoses)
        if self.settled == blamed:
            return ""
        guessed = blamed - self.settled
        advice = "" if self.tried else "; --counterfactuals settles them"
        return f"; {guessed} of {blamed} failures are guessed from one run{advice}"


def summarize_diagnoses(
    seen: Sequence[Observation],
    others: Mapping[str, Counterfactuals] | None = None,
    *,
    undecided: int = 0,
    findings: Sequence[str] = (),
    tried: bool | None = None,
    unknown: tuple[int, str] = (0, ""),
) -> DiagnosisSummary:
    """Diagnose every observation.

    Parameters:
        seen: what the run shows, one for each question whose answer is correct or wrong.
        others: results of counterfactual runs by query id; None if there were none.
        undecided: how many further questions a judge could not decide.
        findings: what else is wrong, in words, the most common first.
        tried: whether counterfactual runs were asked for; by default, whether there are any.
        unknown: how many further questions nobody could decide, and why.
    """
    if tried is None:
        tried = others is not None
    others = others or {}
    found = [diagnose(each, others.get(each.query_id, NOT_TRIED)) for each in seen]
    diagnoses = tuple(each for each in found if each is not None)
    components = Counter(each.component for each in diagnoses)
    counts = Counter(each.failure for each in diagnoses)
    questions = len(seen) + undecided
    return DiagnosisSummary(
        questions=questions,
        undecided=undecided,
        diagnoses=diagnoses,
        counts={failure: counts[failure] for failure in Failure},
        points={
            part: 100 * components[part] / questions if questions else 0.0 for part in Component
        },
        settled=sum(each.settled for each in diagnoses),
        from_memory=sum(
            each.correct and each.answerable and bool(others[each.query_id].no_context)
            for each in seen
            if each.query_id in others
        ),
        tried=tried,
        findings=tuple(findings),
        answerable=sum(each.answerable for each in seen) + undecided,
        unknown=unknown[0],
        why_unknown=unknown[1],
    )
