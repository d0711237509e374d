"""A whole number in a request: 5, 5.0 (what data parts make of it) or "5", but not `true`."""

from typing import Annotated

from pydantic import BeforeValidator


def _no_truth_value(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a whole number is needed, not true or false")
    return value


WholeNumber = Annotated[int, BeforeValidator(_no_truth_value)]
