"""`RunModel`: how the typed values of a run are read, checked and written."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from assay.errors import AssayError, RunError
from assay.measure.figures import parse_figure
from assay.measure.metrics import parse_metric


class RunModel(BaseModel):
    """Strict, so that damage is found where it is; unknown keys are kept for newer readers."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, allow_inf_nan=False)

    @classmethod
    def read(cls, value: object, path: Path, remedy: str, where: str = "") -> Self:
        """Validate `value`, found at `where` in `path`; raise `RunError` with the `remedy`."""
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            field = ".".join(map(str, first["loc"]))
            what = first["msg"].removeprefix("Value error, ")
            words = ": ".join(filter(None, (where, field, what)))
            raise RunError(f"{path} is damaged: {words}; {remedy}") from None

    def to_json(self, *, indent: int | None = None) -> bytes:
        """The value as its file holds it: what was set, None included."""
        return self.model_dump_json(indent=indent, exclude_unset=True).encode()


def _readable_by(parse: Callable[[str], object]) -> AfterValidator:
    def check(name: str) -> str:
        try:
            parse(name)
        except AssayError as error:
            raise ValueError(str(error)) from None
        return name

    return AfterValidator(check)


MetricName = Annotated[str, _readable_by(parse_metric)]
FigureName = Annotated[str, _readable_by(parse_figure)]
