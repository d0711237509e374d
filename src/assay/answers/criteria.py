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
from dataclasses import dataclass, replace
from pathlib import Path

from assay.answers.judge import Judge, Judgment
from assay.answers.judge_controls import ControlPair, ask_controls
from assay.errors import DataError
from assay.files import read_text_file
from assay.llm.prompt import delimited, delimiter_code, load_prompt
from assay.metrics.figures import CRITERION_PREFIX, is_criterion_name

VOTES = 2
_MAX_FILE = 64 * 2**10
_WIDEST = 10
_CONTROL_WORD = "kestrels"
_CONTROLS = (
    ControlPair("Which bird nests on the tower?", "A pair of kestrels does.", "", True),
    ControlPair("Which bird nests on the tower?", "The keeper painted the door.", "", False),
    ControlPair("When does the library close?", "Readers see kestrels from it.", "", True),
    ControlPair("When does the library close?", "It closes at six in the evening.", "", False),
)


@dataclass(frozen=True, slots=True)
class Criterion:
    """What an answer is rated by; `levels` are the allowed replies, worst first."""

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

    @property
    def prompts(self) -> tuple[str, ...]:
        """What decides about a rating, for calibrations."""
        return load_prompt("judge_criterion").id, self.fingerprint


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
        try:
            criterion = _parse(read_text_file(file, encoding="utf-8-sig", limit=_MAX_FILE), file)
            if criterion.name in criteria:
                raise ValueError(f"has the name of another criterion, {criterion.name!r}")
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", file=file) from None
        except UnicodeDecodeError:
            raise DataError("is not UTF-8", file=file) from None
        except ValueError as error:
            raise DataError(str(error), file=file) from None
        criteria[criterion.name] = criterion
    return list(criteria.values())


def _parse(text: str, path: Path) -> Criterion:
    """One criterion; `ValueError` says what is wrong with it."""
    lines = [line.rstrip() for line in text.splitlines()]
    fields: dict[str, str] = {}
    if lines[:1] == ["---"]:
        if "---" not in lines[1:]:  # else its scale would be part of the question
            raise ValueError("begins with --- and has no second line --- after its fields")
        end = lines.index("---", 1)
        for line in filter(None, lines[1:end]):
            key, _, value = (part.strip() for part in line.partition(":"))
            if key not in ("name", "scale") or key in fields:
                raise ValueError(f"has the field {key[:60]!r}; it may have name and scale once")
            fields[key] = value
        lines = lines[end + 1 :]
    name = fields.get("name", path.stem).lower().replace("-", "_").replace(" ", "_")
    if not is_criterion_name(name):
        raise ValueError(f"its name must be of letters, digits and _, got {name[:60]!r}")
    if not (body := "\n".join(lines).strip()):
        raise ValueError("asks nothing: write the question below the fields")
    scale = fields.get("scale", "yes/no").lower()
    if scale == "yes/no":
        return Criterion(name, body)
    first, _, last = scale.partition("-")
    numbers = [int(end) for end in (first, last) if end.isdecimal() and len(end) < 3]
    if len(numbers) != 2 or not 1 <= numbers[1] - numbers[0] <= _WIDEST:
        raise ValueError(f"its scale must be yes/no or like 1-5, got {scale[:60]!r}")
    return Criterion(name, body, tuple(map(str, range(numbers[0], numbers[1] + 1))))


async def rate_answer(
    judge: Judge, criterion: Criterion, question: str, answer: str, sources: Sequence[str] = ()
) -> Judgment:
    """Ask a judge for two votes, the second with the answer before the question.

    `sources` are what the application was shown, for criteria that are about it.
    """
    prompts = [
        criterion_prompt(criterion, question, answer, sources, vote) for vote in range(VOTES)
    ]
    return await judge.ask(criterion.metric, prompts, criterion.levels, reason=True)


async def criterion_failure(judge: Judge, criterion: Criterion) -> str | None:
    """Why the judge cannot be believed about a criterion with these levels, or None.

    What is right by a criterion of the user's own nobody knows, so the same prompt is asked with a
    criterion whose verdict is known: whether the answer has a certain word.
    """
    worst, best = criterion.levels[0], criterion.levels[-1]
    text = f'Respond {best} if the answer has the word "{_CONTROL_WORD}", and {worst} if not.'
    known = replace(criterion, text=text)
    asked = await ask_controls(
        _CONTROLS, lambda pair: rate_answer(judge, known, pair.question, pair.answer)
    )
    return asked.failure


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
