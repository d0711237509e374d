"""What a report says about answers: `assay.answers` computes these values, a run keeps them."""

from pathlib import Path
from typing import Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from assay.errors import RunError
from assay.net.json import LARGEST, JsonObject, is_extreme, parse_json

NuggetSupport = Literal["none", "partial", "support"]


def damaged(path: Path, what: str, remedy: str, where: str = "") -> RunError:
    """The error for a file of a run that cannot be read at `where`."""
    place = f"{where}: " if where else ""
    return RunError(f"{path} is damaged: {place}{what}; {remedy}")


def parse_stored(content: bytes, path: Path, remedy: str, where: str = "") -> JsonObject:
    """The JSON object in a file of a run, or at `where` in it. Raises `RunError`."""
    what = "not a JSON object"
    try:
        value = parse_json(content)
    except ValueError as error:
        value, what = None, str(error)
    if not isinstance(value, dict):
        raise damaged(path, what, remedy, where)
    return value


class StoredModel(BaseModel):
    """Strict, so that damage is found if it is there; unknown keys are kept for newer readers."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, allow_inf_nan=False)

    @classmethod
    def read(cls, value: object, path: Path, remedy: str, where: str = "") -> Self:
        """Validate `value`, found at `where` in `path`; raise `RunError` with the `remedy`."""
        known = None if "__pydantic_extra__" in cls.__annotations__ else cls.model_fields
        if is_extreme(value, known):
            what = f"has a number above {LARGEST:g}"
        else:
            try:
                return cls.model_validate(value)
            except ValidationError as error:
                first = error.errors(include_url=False, include_context=False)[0]
                said = first["msg"].removeprefix("Value error, ")
                what = ": ".join(filter(None, (".".join(map(str, first["loc"])), said)))
        raise damaged(path, what, remedy, where)

    def to_json(self, *, indent: int | None = None) -> bytes:
        """The value as its file holds it: what was set, None included."""
        return self.model_dump_json(indent=indent, exclude_unset=True).encode()


class JudgeCall(StoredModel):
    """One call to a judge, as `judge.jsonl` of a run keeps it.

    `reply` is None if the model refused, `verdict` None if the reply could not be read.
    """

    query_id: str
    kind: str
    prompt: str
    reply: str | None
    verdict: str | None


class Difference(StoredModel):
    """What an answer says in place of what a source says.

    `kind` is number, unit, date, time, name, polarity or opposite; `origin` is the source, another
    document shown, or nowhere.
    """

    kind: str
    said: str
    expected: str
    origin: str = ""

    @property
    def words(self) -> str:
        """For a report: `“46 kg” for “84 kg”, from nothing shown`."""
        origin = f", from {self.origin}" if self.origin else ""
        return f"“{self.said}” for “{self.expected}”{origin}"


class AnswerFinding(StoredModel):
    """One check with how many answers it holds for; `query_ids` are those of the first hundred.

    `sure` is False for hits that the check's false-alarm rate may explain: worth reading.
    """

    kind: str
    number: int
    of: int
    words: str
    query_ids: list[str] = Field(default=[], validation_alias=AliasChoices("query_ids", "examples"))
    sure: bool = True
    severity: str = "wrong"


class AnswerDiagnosis(StoredModel):
    """`failure` is what happened, `half` the component to fix; None if only ids could tell.

    `settled` means that nothing is guessed: the case is clear, or a counterfactual run decided it.
    """

    failure: str
    half: str | None
    settled: bool
    why: str


class Quadrants(StoredModel):
    """Questions by whether the evidence was found and whether the answer is right."""

    evidence_right: int
    evidence_wrong: int
    no_evidence_right: int
    no_evidence_wrong: int


class DiagnosisReport(StoredModel):
    """Whose fault the wrong answers are. `points` of correctness, in percent, would be gained if a
    component never failed. `from_memory` counts right answers that are also right without any
    document. `tried`: whether counterfactual runs were asked for.
    """

    sentence: str
    questions: int
    undecided: int = 0
    wrong: int
    counts: dict[str, int]
    points: dict[str, float]
    settled: int
    from_memory: int
    quadrants: Quadrants
    tried: bool = False


class JudgeControls(StoredModel):
    """What a judge said about references against themselves (`same`), against others, and with one
    thing changed (`altered`). `failure` says why this judge is not believed; a report does not
    keep it.
    """

    same: int
    same_right: int
    different: int
    different_right: int
    altered: int = 0
    altered_believed: int = 0
    failure: str | None = Field(default=None, exclude=True)

    @property
    def words(self) -> str:
        """How many were judged rightly."""
        right = self.same_right + self.different_right + self.altered - self.altered_believed
        asked = self.same + self.different + self.altered
        # A judge that only compares words would pass all the others.
        untested = "" if self.altered > 1 else f", {self.altered} of them with one thing changed"
        return f"{right} of {asked} controls right{untested}"


class NuggetAssignment(StoredModel):
    """A nugget and whether an answer states it; `support` is None if nothing was decided."""

    id: str
    text: str
    importance: str
    by: str
    support: NuggetSupport | None

    @property
    def vital(self) -> bool:
        """Whether a good answer must state it."""
        return self.importance == "vital"

    @property
    def credit(self) -> float:
        """1, a half or 0; nothing if the judge is undecided."""
        return {"support": 1.0, "partial": 0.5}.get(self.support or "", 0.0)
