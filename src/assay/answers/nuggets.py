"""Which nuggets an answer states: by a judge in both orders, or by rules without a model.

As in TREC's RAG track (Pradeep et al. 2024, "Initial nugget evaluation results for the TREC 2024
RAG track with the AutoNuggetizer framework"): each nugget is supported, partly or not at all, and
the shares of supported nuggets are the metrics.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from assay.answers.differences import differences
from assay.answers.judge import Judge, inconsistency
from assay.answers.judge_controls import count_controls
from assay.answers.outcome import taken_back
from assay.answers.references import Importance, Nugget
from assay.answers.statements import CLAUSE, abstained
from assay.answers.values import polarity, tokens
from assay.llm.prompt import delimited, delimiter_code, load_prompt
from assay.metrics.answer_values import JudgeControls, StoredModel
from assay.net.gather import gather
from assay.text import sentences, stems

BATCH = 10
"""Nuggets that a judge is asked about in one call."""

SUPPORT_SHARE, PARTIAL_SHARE = 0.66, 0.33
"""The shares of a nugget's words that rules want to see, beyond those of the question.

Chosen on the key facts of the bundled notes: `tests/answers/test_nuggets.py` has the
figures.
"""

PROMPT = "nugget_assignment"
_MAX_ANSWER = 20_000
_UNLIKE = 0.2


class Support(StrEnum):
    """Whether an answer states a nugget, worst first."""

    NONE = "none"
    PARTIAL = "partial"
    SUPPORT = "support"


SUPPORT_RANK = {each: rank for rank, each in enumerate(Support)}
_WORDS = tuple(each.value.upper() for each in Support)


class NuggetAssignment(StoredModel):
    """A nugget and what an answer does with it; `support` is None if nothing was decided.

    With `votes`, which a report does not keep, every second one saw the answer first and the
    nuggets in reverse; without, rules decided.
    """

    id: str
    text: str
    importance: str
    by: str
    support: Annotated[Support, Field(strict=False)] | None
    votes: tuple[Support | None, ...] = Field(default=(), exclude=True)

    @classmethod
    def ruled(cls, nugget: Nugget, support: Support) -> "NuggetAssignment":
        """Decided without a model."""
        return cls._of(nugget, support, ())

    @classmethod
    def voted(cls, nugget: Nugget, votes: Sequence[Support | None]) -> "NuggetAssignment":
        """The worse of what the majority says in each order: a judge that prefers a place can give
        no credit. Nothing if an order has no majority.
        """
        orders = [_majority(votes[place::2]) for place in (0, 1)]
        decided = [each for each in orders if each is not None]
        worse = min(decided, key=SUPPORT_RANK.__getitem__) if len(decided) == 2 else None
        return cls._of(nugget, worse, tuple(votes))

    @classmethod
    def _of(
        cls, nugget: Nugget, support: Support | None, votes: tuple[Support | None, ...]
    ) -> "NuggetAssignment":
        importance, by = nugget.importance.value, nugget.by.value
        return cls(
            id=nugget.id,
            text=nugget.text,
            importance=importance,
            by=by,
            support=support,
            votes=votes,
        )

    @property
    def vital(self) -> bool:
        """Whether a good answer must state it."""
        return self.importance == Importance.VITAL

    @property
    def flipped(self) -> bool:
        """Whether the judge said both that it is supported and that it is not at all."""
        return {Support.SUPPORT, Support.NONE} <= set(self.votes)

    @property
    def credit(self) -> float:
        """1, a half or 0; nothing if the judge is undecided."""
        return SUPPORT_RANK[self.support or Support.NONE] / 2


def _majority(votes: Sequence[Support | None]) -> Support | None:
    for vote, count in Counter(votes).items():
        if 2 * count > len(votes):
            return vote
    return None


def assign_by_rules(question: str, answer: str | None, nugget: Nugget) -> NuggetAssignment:
    """Whether two neighboring sentences of an answer have a nugget's words and numbers.

    Words of the question count as said. What a rule shows to be denied ("not", another number, an
    opposite) is not stated. A statement in other words is not recognized.
    """
    return NuggetAssignment.ruled(nugget, _ruled(question, answer, nugget.text))


def _ruled(question: str, answer: str | None, nugget: str) -> Support:
    if answer is None or abstained(answer):
        return Support.NONE
    said = sentences(answer[:_MAX_ANSWER])
    needed = (_stems(nugget) - _stems(question)) or _stems(nugget)
    figures = {word for word in needed if any(map(str.isdigit, word))}
    best, where = Support.NONE, ""
    for place in range(len(said)):
        window = " ".join(said[place : place + 2])
        found = _found(needed, figures, _stems(window))
        if SUPPORT_RANK[found] > SUPPORT_RANK[best]:
            best, where = found, window
    if best is Support.NONE or taken_back(said):
        return Support.NONE
    others = differences(nugget, {where: "the answer"})
    clauses = [part for part in CLAUSE.split(where) if _stems(part) & needed]
    denied = polarity(nugget) and clauses and not any(map(polarity, clauses))
    return Support.NONE if denied or any(each.kind != "polarity" for each in others) else best


def _found(needed: set[str], figures: set[str], held: set[str]) -> Support:
    share = len(needed & held) / len(needed) if needed else 0.0
    if share >= SUPPORT_SHARE and figures <= held:
        return Support.SUPPORT
    if share >= PARTIAL_SHARE and (not figures or figures & held):
        return Support.PARTIAL
    return Support.NONE


def _stems(text: str) -> set[str]:
    return set(stems(" ".join(tokens(text))))


async def assign_by_judge(
    judge: Judge, question: str, answer: str | None, nuggets: Sequence[Nugget]
) -> list[NuggetAssignment]:
    """What the judge says about each nugget, `judge.votes` times, in the order of `nuggets`.

    An answer that failed or declines states none, and the judge is not asked.
    """
    if answer is None or abstained(answer):
        return [NuggetAssignment.ruled(each, Support.NONE) for each in nuggets]
    batches = [nuggets[start : start + BATCH] for start in range(0, len(nuggets), BATCH)]
    calls = [
        _vote(judge, question, answer, batch, vote)
        for batch in batches
        for vote in range(judge.votes)
    ]
    replies = iter(await gather(calls))
    assigned: list[NuggetAssignment] = []
    for batch in batches:
        votes = [next(replies) for _ in range(judge.votes)]
        assigned += [
            NuggetAssignment.voted(nugget, [vote[place] for vote in votes])
            for place, nugget in enumerate(batch)
        ]
    return assigned


async def _vote(
    judge: Judge, question: str, answer: str, nuggets: Sequence[Nugget], vote: int
) -> list[Support | None]:
    """One by one where a reply about several cannot be read."""
    shown = list(reversed(nuggets)) if vote % 2 else list(nuggets)
    prompt = assignment_prompt(question, answer, [each.text for each in shown], vote)
    words = await judge.choose_each(prompt, _WORDS, len(shown), "nuggets")
    if words is None and len(shown) > 1:
        alone = [await _vote(judge, question, answer, [each], vote) for each in nuggets]
        return [each[0] for each in alone]
    if words is None:
        return [None]
    found: list[Support | None] = [Support(word.lower()) for word in words]
    return found[::-1] if vote % 2 else found


def assignment_prompt(question: str, answer: str, nuggets: Sequence[str], vote: int = 0) -> str:
    """Asks which facts an answer states; the answer comes first in every second vote."""
    code = delimiter_code(question, answer, *nuggets, str(vote))
    facts = "\n\n".join(
        f"Fact {place}:\n{delimited('fact', code, text)}"
        for place, text in enumerate(nuggets, start=1)
    )
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
    if not assigned:
        return {}
    vital = [each for each in assigned if each.vital]
    weights = [1.0 if each.vital else 0.5 for each in assigned]
    weighted = sum(w * each.credit for w, each in zip(weights, assigned, strict=True))
    scores = {
        "nugget_recall": _mean(assigned),
        "nugget_recall_strict": _mean(assigned, strict=True),
        "nugget_recall_weighted": weighted / sum(weights),
    }
    if vital:
        scores["nugget_recall_vital"] = _mean(vital)
        scores["nugget_recall_vital_strict"] = _mean(vital, strict=True)
    return scores


def _mean(assigned: Sequence[NuggetAssignment], *, strict: bool = False) -> float:
    credits = (each.credit for each in assigned)
    return sum(c == 1.0 if strict else c for c in credits) / len(assigned)


def unreliable_assignments(assigned: Sequence[NuggetAssignment]) -> str | None:
    """The reason to distrust the judge's assignments, or None."""
    asked = [each for each in assigned if each.votes]
    return inconsistency(
        "nuggets",
        mute=(
            "gave no readable label for",
            [each.support is None and not each.flipped for each in asked],
        ),
        flipped=("said both support and none about", [each.flipped for each in asked]),
    )


async def ask_nugget_controls(
    judge: Judge, nuggets: Mapping[str, Sequence[Nugget]], questions: Mapping[str, str], number: int
) -> JudgeControls | None:
    """Nuggets whose label is known: each as its own answer, and against another question's.

    Parameters:
        nuggets: by query id.
        questions: the texts of the questions by query id.
        number: how many pairs of each kind; 0 asks nothing.
    """
    pairs = list(_control_pairs(nuggets, number))
    if not pairs:
        return None
    replies = await gather(
        assign_by_judge(judge, questions[query_id], answer.text, [nugget])
        for query_id, nugget, answer in pairs
    )
    found = []
    for (_, nugget, answer), (reply,) in zip(pairs, replies, strict=True):
        same = nugget is answer
        found.append((same, reply.support is (Support.SUPPORT if same else Support.NONE)))
    return count_controls(found, mute=sum(each.support is None for (each,) in replies))


def _control_pairs(
    nuggets: Mapping[str, Sequence[Nugget]], number: int
) -> Iterator[tuple[str, Nugget, Nugget]]:
    """Query id, nugget and the nugget that is shown as the answer."""
    first = [(query_id, each[0]) for query_id, each in nuggets.items() if each]
    for place, (query_id, nugget) in enumerate(first[:number]):
        yield query_id, nugget, nugget
        others = first[place + 1 :] + first[:place]
        for _, other in others:
            if _share(other.text, nugget.text) <= _UNLIKE:
                yield query_id, nugget, other
                break


def _share(text: str, nugget: str) -> float:
    needed = _stems(nugget)
    return len(needed & _stems(text)) / len(needed) if needed else 1.0
