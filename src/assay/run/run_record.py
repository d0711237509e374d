"""`RunRecord`: what all typed values of a run have in common, and names of figures in them."""

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from assay.errors import AssayError
from assay.measure.figures import parse_figure
from assay.measure.metrics import parse_metric


class RunRecord(BaseModel):
    """Strict, so that damage is found where it is; unknown keys are kept for newer readers."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, allow_inf_nan=False)


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
