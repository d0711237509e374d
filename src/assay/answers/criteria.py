"""Criteria: what a judge thinks of answers, beyond right and wrong.

A criterion of your own is a file, a question that a judge answers with yes or no or on a scale:

    ---
    name: polite
    scale: yes/no
    ---
    Is the answer polite?

The lines between `---` may be left out: the name is then the file's, the scale yes/no. A scale of
numbers is written `1-5`. What follows is shown to the judge as it is, examples included.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.answers.judge import Judge
from assay.errors import DataError
from assay.files import read_text_file
from assay.llm.prompt import delimited, delimiter_code, load_prompt
from assay.metrics.figures import CRITERION_PREFIX, is_criterion_name
from assay.net.gather import gather

VOTES = 2
_MAX_FILE = 64 * 2**10
_WIDEST = 10
_HEADER = re.compile(r"---[ \t]*\n(.*?\n)?---[ \t]*(?:\n|$)", re.DOTALL)
_RANGE = re.compile(r"(\d)\s*(?:-|–|to)\s*(\d{1,2})")


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
