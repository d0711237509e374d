"""A language model grades passages from 0 to 3, in the scale of TREC's deep learning track.

The scale and the idea of asking for steps before one final grade are those of UMBRELA (Upadhyay et
al. 2024) and of Thomas et al. 2023, "Large language models can accurately predict searcher
preferences". The model's grade is never called a judgment of people: everything that is written
names the model.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from assay.answers.judge import Judge
from assay.answers.judge_controls import JudgeControls
from assay.errors import UsageError
from assay.llm.prompt import delimited, delimiter_code, load_prompt
from assay.llm.providers.provider import LLMProvider
from assay.net.gather import for_each, gather
from assay.progress import Progress, silent
from assay.text import stems

GRADES = (0, 1, 2, 3)
"""Irrelevant, related, relevant in part, and the answer."""

MAX_PASSAGE = 8_000
"""Characters of a passage that are shown: what comes after them is not graded."""

PROMPT = "relevance_grade"
_WORDS = tuple(map(str, GRADES))
_AT_ONCE = 16
_UNLIKE = 0.1
_CANDIDATES = 200
_FEWEST = 2
_ALL_THE_SAME = 20


PairName = tuple[str, str]
"""Query id and document id."""


class PassagePair(NamedTuple):
    """A query and a passage that was retrieved for it; `title` is shown to people."""

    query_id: str
    query: str
    doc_id: str
    passage: str
    title: str = ""

    @property
    def name(self) -> PairName:
        """What tells it from the other pairs of a pool."""
        return self.query_id, self.doc_id


@dataclass(frozen=True, slots=True)
class PassageGrade:
    """What the model said about a pair, once for each vote; None where it could not be read."""

    pair: PassagePair
    votes: tuple[int | None, ...]

    @property
    def grade(self) -> int | None:
        """The lower median of the votes; None if one of them could not be read."""
        read = sorted(vote for vote in self.votes if vote is not None)
        return read[(len(read) - 1) // 2] if read and len(read) == len(self.votes) else None

    @property
    def unsteady(self) -> bool:
        """Whether the votes are more than one grade apart."""
        read = [vote for vote in self.votes if vote is not None]
        return bool(read) and max(read) - min(read) > 1


class RelevanceGrader:
    """Grades passages with a model.

    Parameters:
        provider: the model.
        votes: how often to ask about each passage; every second vote shows the passage first.
    """

    def __init__(self, provider: LLMProvider, votes: int = 1) -> None:
        if votes < 1:
            raise UsageError(f"a grade needs at least 1 vote, got {votes!r}")
        self.provider = provider
        self.votes = votes
        self._judge = Judge(provider)

    @property
    def name(self) -> str:
        """The provider's name, `KIND:MODEL`."""
        return self.provider.name

    @property
    def prompt(self) -> str:
        """The id of the prompt, for provenance."""
        return load_prompt(PROMPT).id

    async def grade(self, query: str, passage: str) -> tuple[int | None, ...]:
        """The votes about one passage; None for a reply that is not one of the grades alone."""
        prompts = [grade_prompt(query, passage, vote) for vote in range(self.votes)]
        words = await gather(self._judge.choose(prompt, _WORDS) for prompt in prompts)
        return tuple(None if word is None else int(word) for word in words)


def grade_prompt(query: str, passage: str, vote: int = 0) -> str:
    """Asks for the grade of a passage, which comes first in every second vote."""
    shown = passage[:MAX_PASSAGE]
    code = delimiter_code(query, shown, str(vote))
    asked = f"Query:\n{delimited('question', code, query)}"
    found = f"Passage:\n{delimited('document', code, shown)}"
    first, second = (found, asked) if vote % 2 else (asked, found)
    return load_prompt(PROMPT).fill(code=code, first=first, second=second)


async def grade_pairs(
    grader: RelevanceGrader,
    pairs: Sequence[PassagePair],
    *,
    on_grade: Callable[[PassageGrade], None] = lambda _grade: None,
    progress: Progress = silent,
) -> list[PassageGrade]:
    """The grades of pairs, in their order.

    A failure of the provider is raised; replies up to then are in its cache.

    Parameters:
        grader: who grades.
        pairs: what is graded.
        on_grade: called with each grade as it comes, to keep it.
    """
    found: dict[int, PassageGrade] = {}

    async def one(item: tuple[int, PassagePair]) -> None:
        place, pair = item
        grade = PassageGrade(pair, await grader.grade(pair.query, pair.passage))
        found[place] = grade
        on_grade(grade)
        progress("grading passages", len(found), len(pairs))

    progress("grading passages", 0, len(pairs))
    await for_each(enumerate(pairs), one, _AT_ONCE)
    return [found[place] for place in range(len(pairs))]


async def ask_grade_controls(
    grader: RelevanceGrader, pairs: Sequence[PassagePair], number: int
) -> JudgeControls | None:
    """Queries with passages of other queries, which share no words: these deserve 0 or 1.

    None where no two pairs are unlike enough, or `number` is 0.
    """
    controls = list(_control_pairs(pairs, number))
    if not controls:
        return None
    votes = await gather(grader.grade(each.query, each.passage) for each in controls)
    grades = [PassageGrade(*each).grade for each in zip(controls, votes, strict=True)]
    right = sum(grade is not None and grade < 2 for grade in grades)
    return JudgeControls(same=0, same_right=0, different=len(controls), different_right=right)


def _control_pairs(pairs: Sequence[PassagePair], number: int) -> Iterator[PassagePair]:
    by_query = {pair.query_id: pair for pair in pairs[:_CANDIDATES]}
    known = [(pair, set(stems(pair.query)), set(stems(pair.passage))) for pair in by_query.values()]
    for place, (pair, asked, _) in enumerate(known[:number]):
        for other, _, held in known[place + 1 :] + known[:place]:
            if asked and len(asked & held) <= _UNLIKE * len(asked):
                yield pair._replace(passage=other.passage, doc_id=other.doc_id)
                break


def unreliable_grades(
    grades: Sequence[PassageGrade], controls: JudgeControls | None = None
) -> str | None:
    """Why these grades are worth nothing, in words; None if nothing speaks against them."""
    mute = sum(each.grade is None for each in grades)
    if 2 * mute > len(grades):
        return (
            f"the model gave no readable grade for {mute} of {len(grades)} passages, where 0, 1, 2 "
            "or 3 was asked for; choose another model"
        )
    if controls is not None and controls.different >= _FEWEST:
        wrong = controls.different - controls.different_right
        if 2 * wrong > controls.different:
            return (
                f"the model calls a passage about something else relevant in {wrong} of "
                f"{controls.different} controls, so that its grades mean nothing; choose another "
                "model (skip the self-test with --judge-set controls=0)"
            )
    given = {each.grade for each in grades if each.grade is not None}
    if len(grades) >= _ALL_THE_SAME and len(given) == 1:
        return (
            f"the model gave grade {given.pop()} to all {len(grades)} passages, so that its grades "
            "tell nothing apart; choose another model"
        )
    return None
