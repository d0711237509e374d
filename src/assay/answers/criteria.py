"""Criteria: questions of your own that a judge answers about answers, with yes or no or a level.

    ---
    name: polite
    scale: yes/no
    ---
    Is the answer polite?

The lines between `---` may be left out: the name is then the file's, the scale yes/no. A scale of
numbers is written `1-5`. What follows is shown to the judge as it is, examples included.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError
from pydantic.dataclasses import dataclass

from assay.answers.judge import Judge, Judgment
from assay.answers.judge_controls import ControlPair, ask_controls
from assay.errors import DataError
from assay.files import read_text_file
from assay.llm.prompt import delimited, delimiter_code, load_prompt
from assay.metrics.figures import CRITERION_PREFIX

VOTES = 2
_MAX_FILE = 64 * 2**10
_REMEDY = "it has name and scale (yes/no or like 1-5) between two lines ---, then the question"
_CONTROLS = (
    ControlPair("Which bird nests on the tower?", "A pair of kestrels does.", "", True),
    ControlPair("Which bird nests on the tower?", "The keeper painted the door.", "", False),
    ControlPair("When does the library close?", "Readers see kestrels from it.", "", True),
    ControlPair("When does the library close?", "It closes at six in the evening.", "", False),
)


@dataclass(frozen=True, slots=True)
class Criterion:
    """What an answer is rated by; `levels` are the allowed replies, worst first."""

    name: Annotated[str, Field(pattern="^[A-Za-z0-9_]{1,64}$")]
    text: Annotated[str, Field(min_length=1)]
    levels: Annotated[tuple[str, ...], Field(min_length=2, max_length=11)] = ("NO", "YES")

    @property
    def metric(self) -> str:
        """Its name among the metrics."""
        return CRITERION_PREFIX + self.name

    @property
    def fingerprint(self) -> str:
        """The same for the same question on the same scale."""
        return delimiter_code(self.text, *self.levels)

    @property
    def prompts(self) -> tuple[str, ...]:
        """What decides about a rating, for calibrations."""
        return load_prompt("judge_criterion").id, self.fingerprint


def read_criteria(path: Path) -> list[Criterion]:
    """The criteria of a `.md` file, or of all `.md` files of a folder. Raises `DataError`."""
    files = sorted(path.glob("*.md")) if path.is_dir() else [path]
    if not files:
        raise DataError("has no .md file; add one for each criterion, or pass one", file=path)
    criteria: dict[str, Criterion] = {}
    for file in files:
        try:
            criterion = _parse(read_text_file(file, encoding="utf-8-sig", limit=_MAX_FILE), file)
        except (OSError, ValueError) as error:
            why = str(error)
            if isinstance(error, ValidationError):
                first = error.errors()[0]
                why = f"{first['loc'][0]}: {first['msg']}, got {str(first['input'])[:60]!r}"
            raise DataError(f"is not a criterion: {why}; {_REMEDY}", file=file) from None
        if criteria.setdefault(criterion.name, criterion) is not criterion:
            raise DataError(f"has the name of another criterion, {criterion.name!r}", file=file)
    return list(criteria.values())


def _parse(text: str, path: Path) -> Criterion:
    """One criterion; `ValueError` for one that is wrong."""
    lines = [line.rstrip() for line in text.splitlines()]
    fields = {"name": path.stem, "scale": "yes/no"}
    if lines[:1] == ["---"]:
        end = lines.index("---", 1)  # raises without one: else a scale would be part of the text
        given = [line.partition(":") for line in filter(None, lines[1:end])]
        fields |= {key.strip(): value.strip() for key, _, value in given}
        if len(fields) > 2 or len({key for key, *_ in given}) < len(given):
            raise ValueError("a field is unknown or there twice")
        lines = lines[end + 1 :]
    name = fields["name"].lower().replace("-", "_").replace(" ", "_")
    levels: tuple[str, ...] = ("NO", "YES")
    if (scale := fields["scale"].lower()) != "yes/no":
        low, high = map(int, scale[:6].split("-"))
        levels = tuple(map(str, range(low, min(high, low + 100) + 1)))
    return Criterion(name=name, text="\n".join(lines).strip(), levels=levels)


async def rate_answer(
    judge: Judge, criterion: Criterion, question: str, answer: str, sources: Sequence[str] = ()
) -> Judgment:
    """Two votes, the second with the answer before the question; `sources` are what was shown."""
    prompts = [
        criterion_prompt(criterion, question, answer, sources, vote) for vote in range(VOTES)
    ]
    return await judge.ask(criterion.metric, prompts, criterion.levels, reason=True)


async def criterion_failure(judge: Judge, criterion: Criterion) -> str | None:
    """Why the judge cannot be believed about a criterion with these levels, or None."""
    # Nobody knows what is right by the user's criterion: this one asks about a word.
    worst, best = criterion.levels[0], criterion.levels[-1]
    text = f'Respond {best} if the answer has the word "kestrels", and {worst} if not.'
    known = replace(criterion, text=text)
    controls = await ask_controls(_CONTROLS, lambda pair: rate_answer(judge, known, *pair[:2]))
    return controls.failure


def criterion_prompt(
    criterion: Criterion, question: str, answer: str, sources: Sequence[str] = (), vote: int = 0
) -> str:
    """Asks for one of the criterion's levels; the answer first in every second vote."""
    code = delimiter_code(criterion.text, question, answer, *sources, str(vote))
    asked = f"Question:\n{delimited('question', code, question)}"
    said = f"Answer:\n{delimited('answer', code, answer)}"
    first, second = (said, asked) if vote % 2 else (asked, said)
    shown = "\n\n".join(delimited("document", code, each) for each in sources)
    return load_prompt("judge_criterion").fill(
        code=code,
        first=first,
        second=second,
        documents=f"Documents that the application was given:\n{shown}" if sources else "",
        criterion=criterion.text,
        allowed=", ".join(criterion.levels),
    )
