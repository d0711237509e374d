"""`StoredModel`: a value that a report holds as it was computed."""

from pydantic import BaseModel, ConfigDict


class StoredModel(BaseModel):
    """Strict, so that damage is found if it is; unknown keys are kept for newer readers."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, allow_inf_nan=False)
