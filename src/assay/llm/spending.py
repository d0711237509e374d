"""What calls of a language model cost, as reports store it."""

from pydantic import BaseModel, ConfigDict


class Spending(BaseModel):
    """Calls, tokens and cost in US dollars; `cached` replies cost nothing.

    `cost` is None if the model's price is not known. Tokens that a service did not count are
    those that were reserved for the call.
    """

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, allow_inf_nan=False)

    calls: int
    cached: int
    input_tokens: int
    output_tokens: int
    cost: float | None
