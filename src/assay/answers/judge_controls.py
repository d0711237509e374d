"""Control pairs: questions to a judge whose right verdict is known without any label.

A reference says what it says itself, and not what the reference of another question says; the
same holds for a fact and its answer, and for a sentence and its source. A judge that always gives
one verdict is steady in every order; only such pairs show that its verdicts do not depend on the
answers. A reference with one number, name or negation changed is a near miss: a judge that calls
many of those right gives figures that are too high.

    known = [("When?", "At 7:00."), ("Who?", "Marta.")]
    controls = await self_test(known, 5, lambda pair: judge.correctness(*pair[:3]))
    controls.failure  # None, or why this judge is not believed
"""

import re
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any, NamedTuple

from assay.answers.judge import Judgment, quote_unreadable
from assay.answers.statements import abstained
from assay.metrics.answer_values import JudgeControls
from assay.metrics.statistics import binomial_tail
from assay.net.gather import gather
from assay.text import stems

# Near misses for each control pair: with the default of 5 pairs a judge that lets a quarter of
# them through is caught nine times in ten.
NEAR_MISSES = 8
TOLERATED_NEAR_MISSES = 0.08
# A wrong answer to nearly every question.
UNRELATED = "The lighthouse keeper painted the northern door again in spring."

_SIGNIFICANCE = 0.05
_CANDIDATES = 200
_UNLIKE = 0.2
_MIN_PAIRS = 2
_REMEDY = "choose another model (skip the self-test with --judge-set controls=0)"


class ControlPair(NamedTuple):
    """An answer and a reference; `same` is the verdict that is right."""

    question: str
    answer: str
    reference: str
    same: bool


_Ask = Callable[[ControlPair], Coroutine[Any, Any, Judgment]]


async def self_test(
    references: Sequence[tuple[str, str]], number: int, ask: _Ask
) -> JudgeControls | None:
    """Ask a judge about pairs and near misses of references; None if these are too few."""
    pairs = control_pairs(references, number)
    near_misses = altered_pairs(references, NEAR_MISSES * number)
    return await ask_controls(pairs, ask, near_misses) if pairs else None


async def ask_controls(
    pairs: Sequence[ControlPair], ask: _Ask, near_misses: Sequence[ControlPair] = ()
) -> JudgeControls:
    """Ask a judge about pairs whose verdict is known; about near misses only if it passes."""
    judgments = await gather(map(ask, pairs))
    right: dict[bool, list[bool]] = {True: [], False: []}
    for pair, judgment in zip(pairs, judgments, strict=True):
        right[pair.same].append(judgment.verdict is pair.same)
    mute = sum(not any(each.votes) for each in judgments)
    failure = None
    for same, verb, what in ((False, "accepted", "wrong"), (True, "rejected", "correct")):
        of, wrong = len(right[same]), right[same].count(False)
        if failure is None and of >= _MIN_PAIRS and 2 * wrong > of:
            failure = f"the judge failed its self-test: it {verb} {wrong} of {of} {what} texts"
    if 2 * mute > len(pairs):
        said = quote_unreadable(judgments)
        failure = f"the judge gave no verdict for {mute} of {len(pairs)} controls{said}"
    tried = [] if failure else await gather(map(ask, near_misses))
    believed = sum(each.verdict is True for each in tried)
    if tried and binomial_tail(believed, len(tried), TOLERATED_NEAR_MISSES) < _SIGNIFICANCE:
        failure = (
            f"the judge failed its self-test: it accepted {believed} of {len(tried)} correct texts "
            "with one number, name or negation changed"
        )
    return JudgeControls(
        same=len(right[True]),
        same_right=sum(right[True]),
        different=len(right[False]),
        different_right=sum(right[False]),
        altered=len(tried),
        altered_believed=believed,
        failure=failure and f"{failure}; {_REMEDY}",
    )


def control_pairs(references: Sequence[tuple[str, str]], number: int) -> list[ControlPair]:
    """At most `number` pairs of each kind, from questions with their reference answers."""
    usable = _usable(references)
    if not number or len(usable) < _MIN_PAIRS:  # one pair decides nothing
        return []
    held = [frozenset(stems(said)) for _, said in usable]
    pairs = []
    for place in _spread(len(usable), number):
        question, said = usable[place]
        pairs.append(ControlPair(question, said, said, True))
        # What another reference says might be right as well, so the least similar one is wrong.
        others = [each for each in _spread(len(usable), _CANDIDATES) if each != place]
        other = min(others, key=lambda each: _shared(held[each], held[place]))
        for wrong in (usable[other][1], UNRELATED):
            if _shared(frozenset(stems(wrong)), held[place]) <= _UNLIKE:
                pairs.append(ControlPair(question, wrong, said, False))
                break
    return pairs


def _usable(references: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(question, said) for question, said in references if said and not abstained(said)]


def _spread(count: int, number: int) -> list[int]:
    """At most `number` places of `count`, at equal distances."""
    step = max(1.0, count / number)
    return [int(place * step) for place in range(min(count, number))]


def _shared(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / max(1, min(len(a), len(b)))


_AUXILIARY = "is|are|was|were|can|could|will|would|has|have|had|should|may|might|must"
_VERB = re.compile(rf"\b({_AUXILIARY})( not\b|n't\b|\b)", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,:/-])\d+(?:\.\d+)?(?![\w:/-]|[.,]\d)")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}\b")


def altered_pairs(references: Sequence[tuple[str, str]], number: int) -> list[ControlPair]:
    """At most `number` near misses, of each reference one and then another."""
    usable = _usable(references)
    usable = [usable[place] for place in _spread(len(usable), _CANDIDATES)]
    names = sorted({name for _, said in usable for name in _NAME.findall(said)})
    made = [
        [ControlPair(question, text, said, False) for text in near_misses(said, names)]
        for question, said in usable
    ]
    every = (pair for turn in zip_longest(*made) for pair in turn if pair is not None)
    return list(islice(every, number))


def near_misses(text: str, names: Sequence[str]) -> Iterator[str]:
    """The text with one number, with one name (by another of `names`), with one negation changed.

    list(near_misses("It opens at 7 in May.", []))  # ["It opens at 15 in May."]
    """
    changes: list[tuple[re.Match[str], str]] = []
    if match := _NUMBER.search(text):
        changed = 2 * float(match[0]) + 1
        changes.append((match, f"{changed:g}" if "." in match[0] else str(int(changed))))
    others = [name for name in names if name not in text]
    if others and (match := _NAME.search(text)):
        changes.append((match, others[len(text) % len(others)]))
    if verbs := sorted(_VERB.finditer(text), key=lambda verb: not verb[2]):  # negated ones first
        changes.append((verbs[0], verbs[0][1] if verbs[0][2] else f"{verbs[0][1]} not"))
    for match, new in changes:
        yield text[: match.start()] + new + text[match.end() :]
