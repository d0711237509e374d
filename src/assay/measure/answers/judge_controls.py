"""Control pairs: questions to a judge whose right verdict is known without any label.

A reference answer says what it says itself, and not what the reference of another question says. A
judge that calls everything right, or everything wrong, is steady in every order and wording; only
such pairs show that its verdicts do not depend on the answers.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from assay.measure.answers.abstention import abstained
from assay.measure.answers.claim_sets import contradict, names_in
from assay.measure.answers.judge import Judge, Judgment, Vote
from assay.net.gather import gather
from assay.text import sentences, stems

_CANDIDATES = 200
_CHANGES = ("number", "unit", "name", "negation")
_UNLIKE = 0.2
_FEWEST = 2
_REMEDY = "choose another model (--judge-controls 0 asks for no control)"


class ControlPair(NamedTuple):
    """An answer and a reference; `same` is the verdict that is right."""

    question: str
    answer: str
    reference: str
    same: bool


@dataclass(frozen=True, slots=True)
class ControlResult:
    """How many of the pairs of each kind were judged rightly, and how many got no verdict."""

    same: int
    same_right: int
    different: int
    different_right: int
    mute: int = 0
    altered: int = 0
    altered_believed: int = 0
    alterable: int | None = None
    """How many references a change could be made in; None where that was not tried."""

    @property
    def asked(self) -> int:
        """Pairs of both kinds."""
        return self.same + self.different

    @property
    def right(self) -> int:
        """Pairs of both kinds that were judged rightly."""
        return self.same_right + self.different_right

    @property
    def failure(self) -> str | None:
        """Why this judge is not believed: it fails most of the pairs of one kind."""
        if 2 * self.mute > self.asked:
            return f"the judge gave no verdict for {self.mute} of {self.asked} controls; {_REMEDY}"
        if self.altered >= _FEWEST and 2 * self.altered_believed > self.altered:
            return (
                f"the judge finds {self.altered_believed} of {self.altered} references right in "
                f"which one number, unit, name or negation was changed, so that its TRUE means "
                f"little; {_REMEDY}"
            )
        return self.distrust(
            ("reject what another question's reference says", "TRUE"),
            ("find a reference right against itself", "FALSE"),
        )

    def distrust(self, different: tuple[str, str], same: tuple[str, str]) -> str | None:
        """Why its verdicts mean nothing: for each kind, what it does not do, and its verdict."""
        kinds = (
            (*different, self.different, self.different - self.different_right),
            (*same, self.same, self.same - self.same_right),
        )
        for what, verdict, asked, wrong in kinds:
            if asked >= _FEWEST and 2 * wrong > asked:
                return (
                    f"the judge does not {what} in {wrong} of {asked} controls, so that its "
                    f"{verdict} means nothing; {_REMEDY}"
                )
        return None


def control_pairs(references: Sequence[tuple[str, str]], number: int) -> list[ControlPair]:
    """At most `number` pairs of each kind, from questions with their reference answers.

    The other reference is the one that shares the fewest words; where all share some, there is none
    whose verdict would be known.
    """
    usable = [(question, said) for question, said in references if said and not abstained(said)]
    if not number or len(usable) < _FEWEST:  # one pair decides nothing
        return []
    held = [frozenset(stems(said)) for _, said in usable]
    pairs = []
    for place in _spread(len(usable), number):
        question, said = usable[place]
        pairs.append(ControlPair(question, said, said, True))
        others = [each for each in _spread(len(usable), _CANDIDATES) if each != place]
        other = min(others, key=lambda each: _shared(held[each], held[place]), default=None)
        if other is not None and _shared(held[other], held[place]) <= _UNLIKE:
            pairs.append(ControlPair(question, usable[other][1], said, False))
    return pairs


def support_pairs(sources: Sequence[str], number: int) -> list[ControlPair]:
    """The same where there are no references: a source's first sentence is supported by it, and
    not by a source that shares no words with it.
    """
    named = [("", first) for text in sources if (first := next(iter(sentences(text)), ""))]
    return control_pairs(named, number)


def altered_pairs(references: Sequence[tuple[str, str]], number: int) -> list[ControlPair]:
    """At most `number` references with one change each that makes them wrong.

    A judge that compares words lets these pass; it rejects the reference of another question.
    """
    usable = [(question, said) for question, said in references if said and not abstained(said)]
    names, rng = names_in([said for _, said in usable[:_CANDIDATES]]), random.Random(0)
    made = (
        ControlPair(question, changed[0], said, False)
        for place in _spread(len(usable), _CANDIDATES)
        for question, said in [usable[place]]
        if (changed := contradict(said, rng, _CHANGES, names)) is not None
    )
    return list(islice(made, number))


async def ask_controls(
    judge: Judge, pairs: Sequence[ControlPair], altered: Sequence[ControlPair] = ()
) -> ControlResult:
    """Ask a judge about references, each in all its votes; about altered ones if it passes."""
    result = _result(pairs, await gather(judge.correctness(*pair[:3]) for pair in pairs))
    if result.failure:
        return result
    asked = await gather(judge.correctness(*pair[:3]) for pair in altered)
    believed = sum(each.verdict is True for each in asked)
    return replace(result, altered=len(altered), altered_believed=believed, alterable=len(altered))


async def ask_support_controls(judge: Judge, pairs: Sequence[ControlPair]) -> ControlResult:
    """Ask a judge whether a text supports a sentence, as it is asked about answers."""
    votes = await gather(judge.supports(pair.answer, [pair.reference]) for pair in pairs)
    return _result(pairs, [Judgment((vote,)) for vote in votes])


def _result(pairs: Sequence[ControlPair], judgments: Sequence[Judgment]) -> ControlResult:
    both = list(zip(pairs, judgments, strict=True))
    right = [pair.same for pair, judgment in both if judgment.verdict is pair.same]
    decided = (Vote.TRUE, Vote.FALSE)
    return ControlResult(
        same=sum(pair.same for pair in pairs),
        same_right=sum(right),
        different=sum(not pair.same for pair in pairs),
        different_right=len(right) - sum(right),
        mute=sum(not set(decided) & set(judgment.votes) for judgment in judgments),
    )


def _spread(count: int, number: int) -> list[int]:
    """At most `number` places of `count`, at equal distances."""
    step = max(1.0, count / number)
    return [int(place * step) for place in range(min(count, number))]


def _shared(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / max(1, min(len(a), len(b)))
