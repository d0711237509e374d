"""Criteria and preferences: what a judge thinks of answers, beyond right and wrong.

A criterion of your own is a file, a question that a judge answers with yes or no or on a scale:

    ---
    name: polite
    scale: yes/no
    ---
    Is the answer polite?

The lines between `---` may be left out: the name is then the file's, the scale yes/no. A scale of
numbers is written `1-5`. What follows is shown to the judge as it is, examples included.

Which of two answers is better is asked in both orders, and a win must hold in each. Judges prefer a
place: many choose what stands first (Zheng et al. 2023, "Judging LLM-as-a-judge"). Asked once, such
a preference is a win; asked in both orders it is a flip, which wins nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from assay.answers.answer_metrics import CRITERION_PREFIX, is_criterion_name
from assay.answers.judge import Judge, inconsistency
from assay.answers.judge_controls import control_pairs
from assay.answers.stored import StoredModel
from assay.errors import DataError
from assay.files import read_text_file
from assay.llm.prompt import delimited, delimiter_code, load_prompt
from assay.net.gather import gather
from assay.text import normalize

VOTES = 2
_MAX_FILE = 64 * 2**10
_WIDEST = 10
_HEADER = re.compile(r"---[ \t]*\n(.*?\n)?---[ \t]*(?:\n|$)", re.DOTALL)
_RANGE = re.compile(r"(\d)\s*(?:-|–|to)\s*(\d{1,2})")
_CHOICES = ("FIRST", "SECOND", "TIE")
BETTER = (
    "It says what the reference says, if there is one, and what the question asks for, "
    "completely and with nothing that is wrong. Where both do, the plainer one is better."
)
"""What is preferred where the user gives no criterion."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """What an answer is rated by.

    `levels` are the allowed replies, worst first; the value of a reply is its place between 0 and
    1.
    """

    name: str
    text: str
    levels: tuple[str, ...] = ("NO", "YES")

    @property
    def metric(self) -> str:
        """Its name among the metrics."""
        return CRITERION_PREFIX + self.name

    @property
    def fingerprint(self) -> str:
        """The same for the same question on the same scale."""
        return delimiter_code(self.text, *self.levels)

    def value(self, level: str) -> float:
        """Between 0 for the worst level and 1 for the best."""
        return self.levels.index(level) / (len(self.levels) - 1)


@dataclass(frozen=True, slots=True)
class CriterionRating:
    """The votes about one answer, None if a reply was not one of the levels.

    `value` is their mean. For yes and no they must agree. Where nothing was decided it is None.
    """

    votes: tuple[str | None, ...]
    value: float | None
    reason: str = ""


def read_criteria(path: Path) -> list[Criterion]:
    """The criteria of a `.md` file, or of all `.md` files of a folder, by name.

    Raises:
        DataError: there is none, or a file is wrong.
    """
    files = sorted(path.glob("*.md")) if path.is_dir() else [path]
    if not files:
        raise DataError("has no .md file; add one for each criterion, or pass one", file=path)
    criteria: dict[str, Criterion] = {}
    for file in files:
        criterion = _read(file)
        if criterion.name in criteria:
            raise DataError(
                f"has the same name as another criterion, {criterion.name!r}; rename one", file=file
            )
        criteria[criterion.name] = criterion
    return list(criteria.values())


def _read(path: Path) -> Criterion:
    try:
        text = read_text_file(path, encoding="utf-8-sig", limit=_MAX_FILE)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from None
    except UnicodeDecodeError:
        raise DataError("is not UTF-8", file=path) from None
    header = _HEADER.match(text)
    if header is None and text.startswith("---"):  # else its scale would be part of the question
        raise DataError("begins with --- and has no second line --- after its fields", file=path)
    fields: dict[str, str] = {}
    for line in filter(str.strip, (header[1] or "").splitlines() if header else ()):
        key, _, value = (part.strip() for part in line.partition(":"))
        if key not in ("name", "scale"):
            raise DataError(
                f"has the unknown field {key[:60]!r}; the fields are name and scale", file=path
            )
        if key in fields:
            raise DataError(f"has the field {key!r} twice; keep one", file=path)
        fields[key] = value
    name = fields.get("name", path.stem).strip().lower().replace("-", "_").replace(" ", "_")
    body = text[header.end() :].strip() if header else text.strip()
    if not is_criterion_name(name):
        raise DataError(f"its name must be of letters, digits and _, got {name[:60]!r}", file=path)
    if not body:
        raise DataError("asks nothing: write the question below the fields", file=path)
    return Criterion(name, body, _levels(fields.get("scale", "yes/no"), path))


def _levels(scale: str, path: Path) -> tuple[str, ...]:
    if scale.lower() in ("yes/no", "no/yes"):
        return ("NO", "YES")
    match = _RANGE.fullmatch(scale)
    if match is None or not 1 <= int(match[2]) - int(match[1]) <= _WIDEST:
        raise DataError(f"its scale must be yes/no or like 1-5, got {scale[:60]!r}", file=path)
    return tuple(str(level) for level in range(int(match[1]), int(match[2]) + 1))


async def rate_answer(
    judge: Judge, criterion: Criterion, question: str, answer: str, sources: Sequence[str] = ()
) -> CriterionRating:
    """Ask a judge for two votes, the second with the answer before the question.

    `sources` are what the application was shown, for criteria that are about it.
    """
    prompts = [
        criterion_prompt(criterion, question, answer, sources, vote) for vote in range(VOTES)
    ]
    found = await gather(judge.rate(each, criterion.levels, criterion.metric) for each in prompts)
    votes = tuple(level for level, _ in found)
    reason = next((reason for level, reason in found if level and reason), "")
    return CriterionRating(votes, _value(criterion, votes), reason)


_CONTROLS = (
    ("Which bird nests on the tower?", "A pair of kestrels nests on the tower.", True),
    ("Which bird nests on the tower?", "The keeper painted the northern door again.", False),
    ("When does the library close?", "Readers see kestrels from its reading room.", True),
    ("When does the library close?", "It closes at six in the evening.", False),
)
_CONTROL_WORD = "kestrels"


async def criterion_failure(judge: Judge, criterion: Criterion) -> str | None:
    """Why the judge cannot be believed about a criterion with these levels, or None.

    What is right by a criterion of the user's own nobody knows, so the same prompt is asked with a
    criterion whose verdict is known: whether the answer has a certain word.
    """
    worst, best = criterion.levels[0], criterion.levels[-1]
    text = f'Respond {best} if the answer has the word "{_CONTROL_WORD}", and {worst} if not.'
    control = replace(criterion, text=text)
    ratings = await gather(
        rate_answer(judge, control, question, answer) for question, answer, _ in _CONTROLS
    )
    wrong = [each.value != float(has) for each, (_, _, has) in zip(ratings, _CONTROLS, strict=True)]
    for kind, failed in (("best", wrong[::2]), ("worst", wrong[1::2])):
        if all(failed):
            return (
                f"the judge failed its self-test: asked for {best} or {worst} by a word that the "
                f"answer has or lacks, it never found the {kind} level; choose another model"
            )
    return None


def rating_of(criterion: Criterion, votes: Sequence[str | None]) -> CriterionRating:
    """What the votes say together; None is a vote that is none of the levels."""
    return CriterionRating(tuple(votes), _value(criterion, votes))


def _value(criterion: Criterion, votes: Sequence[str | None]) -> float | None:
    decided = [criterion.value(vote) for vote in votes if vote is not None]
    if len(decided) < len(votes):
        return None
    if len(criterion.levels) == 2 and len(set(decided)) > 1:
        return None
    return sum(decided) / len(decided)


def criterion_prompts(criterion: Criterion) -> tuple[str, ...]:
    """What decides about a rating: the id of the prompt and the criterion's own fingerprint."""
    return load_prompt("judge_criterion").id, criterion.fingerprint


def criterion_prompt(
    criterion: Criterion, question: str, answer: str, sources: Sequence[str] = (), vote: int = 0
) -> str:
    """Asks for one of the criterion's levels; the answer first in every second vote."""
    code = delimiter_code(criterion.text, question, answer, *sources, str(vote))
    first, second = _blocks(code, question, answer, vote)
    shown = "\n\n".join(delimited("document", code, each) for each in sources)
    return load_prompt("judge_criterion").fill(
        code=code,
        first=first,
        second=second,
        documents=f"Documents that the application was given:\n{shown}" if sources else "",
        criterion=criterion.text,
        allowed=", ".join(criterion.levels),
    )


def _blocks(code: str, question: str, answer: str, vote: int) -> tuple[str, str]:
    asked = f"Question:\n{delimited('question', code, question)}"
    said = f"Answer:\n{delimited('answer', code, answer)}"
    return (said, asked) if vote % 2 else (asked, said)


class AnswerPair(NamedTuple):
    """Two answers to one question; None if an agent gave none."""

    query_id: str
    question: str
    a: str | None
    b: str | None
    reference: str = ""


class Preference(StoredModel):
    """The choices about one pair: `votes` are `a`, `b`, `tie` or None, every second one with B
    first. `winner` is `a` or `b` if every vote says so, else `tie`. `by_rule` if no model had to
    be asked, which a report does not keep.
    """

    query_id: str
    winner: str
    votes: list[str | None]
    by_rule: bool = Field(default=False, exclude=True)

    @classmethod
    def of(
        cls, query_id: str, votes: Sequence[str | None], *, by_rule: bool = False
    ) -> "Preference":
        """From all votes about a pair."""
        said = set(votes)
        winner = said.pop() or "tie" if len(said) == 1 else "tie"
        return cls(query_id=query_id, winner=winner, votes=list(votes), by_rule=by_rule)

    @property
    def flipped(self) -> bool:
        """Whether both answers were preferred, each in one of the orders."""
        return {"a", "b"} <= set(self.votes)

    @property
    def mute(self) -> bool:
        """Whether a reply was none of the choices."""
        return None in self.votes


async def prefer(judge: Judge, pair: AnswerPair, criterion: str = BETTER) -> Preference:
    """Ask about one pair. The same text twice is a tie, and a missing answer loses, by rule."""
    if pair.a is None or pair.b is None:
        winner = "tie" if pair.a is pair.b else "b" if pair.a is None else "a"
        return Preference.of(pair.query_id, [winner], by_rule=True)
    if normalize(pair.a) == normalize(pair.b):
        return Preference.of(pair.query_id, ["tie"], by_rule=True)
    prompts = [preference_prompt(pair, criterion, vote) for vote in range(judge.votes)]
    words = await gather(judge.choose(each, _CHOICES) for each in prompts)
    votes = [_choice(word, reverse=place % 2 == 1) for place, word in enumerate(words)]
    return Preference.of(pair.query_id, votes)


def _choice(word: str | None, *, reverse: bool) -> str | None:
    if word in (None, "TIE"):
        return word and "tie"
    return "b" if (word == "FIRST") is reverse else "a"


def preference_prompt(pair: AnswerPair, criterion: str = BETTER, vote: int = 0) -> str:
    """Asks for the better one; B is first in every second vote."""
    a, b = pair.a or "", pair.b or ""
    code = delimiter_code(pair.question, a, b, pair.reference, criterion, str(vote))
    first, second = (b, a) if vote % 2 else (a, b)
    shown = f"Reference:\n{delimited('answer', code, pair.reference)}" if pair.reference else ""
    return load_prompt("judge_preference").fill(
        code=code,
        question=delimited("question", code, pair.question),
        reference=shown,
        first=delimited("answer", code, first),
        second=delimited("answer", code, second),
        criterion=criterion,
    )


def preference_controls(pairs: Sequence[AnswerPair], number: int) -> list[AnswerPair]:
    """Pairs whose better answer, A, is known: a reference against another question's reference."""
    known = [(pair.question, pair.reference) for pair in pairs]
    return [
        AnswerPair("", each.question, each.reference, each.answer, each.reference)
        for each in control_pairs(known, number)
        if not each.same
    ]


def control_failure(asked: Sequence[Preference]) -> str | None:
    """Why a judge is not believed that does not prefer the reference in most controls."""
    wrong = sum(each.winner != "a" for each in asked)
    if len(asked) < 2 or 2 * wrong <= len(asked):
        return None
    return (
        f"the judge does not prefer a reference to another question's in {wrong} of {len(asked)} "
        "controls; choose another model (skip the self-test with --judge-set controls=0)"
    )


def unreliable_preferences(found: Sequence[Preference]) -> str | None:
    """The reason to distrust these choices, or None."""
    asked = [each for each in found if not each.by_rule]
    return inconsistency(
        "pairs",
        mute=("made no choice for", [each.mute for each in asked]),
        flipped=("preferred the other answer in", [each.flipped for each in asked]),
    )
