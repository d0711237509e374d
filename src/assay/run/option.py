"""`Option`: how a setting of a run is offered, and which values it takes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Literal, TypeVar

from assay.errors import UsageError

OnResume = Literal["fixed", "free"]
Value = TypeVar("Value")
Group = Literal[
    "Usual options", "Data", "Target", "Calls", "Answers and judge", "Run", "Built-in retriever",
    "Output",
]  # fmt: skip
"""The sections of `assay eval --help`, in their order; the first is for what most runs need."""


_TYPE_WORDS = {
    str: "a string",
    bool: "True or False",
    int: "an integer",
    float: "a number",
    tuple: "a list of strings",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """How a setting is offered to people and programs.

    Parameters:
        help: one or two sentences for `--help` and the form.
        group: the section of `--help` that it is in.
        flag: the command-line flag; derived from the field's name by default.
        param: the key in `assay.toml`; the field's name by default.
        env: the environment variable; `ASSAY_` and the name by default, None for no variable.
        separator: what stands between several values in the variable.
        metavar: what stands for the value in the help.
        label: the form's label; None keeps the setting out of the form.
        placeholder: what an empty field of the form shows.
        widget: the form's control.
        low: the smallest allowed value.
        high: the largest allowed value.
        choices: the only allowed values.
        needs: the setting without which this one has no meaning.
        on_resume: whether a resumed run may change it.
        same_in_shards: whether the shards of one evaluation must agree on it.
        request_field: the key in the A2A evaluator's request; empty if it takes none.
        request_high: the largest value that a request may ask for, where it is below `high`.
        cli: whether `assay eval` has it.
        optional: whether the command line tells "not given" from the default.
    """

    help: str
    group: Group
    flag: str = ""
    param: str = ""
    env: str | None = ""
    separator: str = ";"
    metavar: str | None = None
    label: str | None = None
    placeholder: str = ""
    widget: Literal["text", "number", "checkbox", "select", "lines"] = "text"
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    needs: str = ""
    on_resume: OnResume = "fixed"
    same_in_shards: bool = False
    request_field: str = ""
    request_high: int | None = None
    cli: bool = True
    optional: bool = False


def option_field(default: Value, help: str, *, group: Group, **rules: Any) -> Value:
    """A dataclass field with its option."""
    option = Option(help=help, group=group, **rules)
    made: Value = field(default=default, metadata={"option": option})
    return made


def convert(name: str, value: Any, kinds: tuple[type, bool]) -> Any:
    """The value as its field has it: a run with another type could not be read back.

    Numbers of other libraries, such as NumPy's, become Python's. Raises `UsageError`.
    """
    kind, nullable = kinds
    if value is None and nullable:
        return None
    if kind is tuple and isinstance(value, list | tuple):
        if all(isinstance(each, str) for each in value):
            return tuple(value)
    elif isinstance(value, bool):
        if kind is bool:
            return value
    elif kind is int and isinstance(value, Integral):
        return int(value)
    elif kind is float and isinstance(value, Real):
        return float(value)
    elif kind is str and isinstance(value, str):
        return value
    raise UsageError(f"{name} must be {_TYPE_WORDS[kind]}, got {value!r}")


def check_range(name: str, value: Any, option: Option) -> None:
    """Raise `UsageError` for a value that the option does not allow."""
    if option.choices and value not in option.choices:
        raise UsageError(f"{name} must be one of {', '.join(option.choices)}, got {value!r}")
    if value is None or (option.low is None and option.high is None):
        return
    low, high = option.low, option.high
    within: Callable[[float], bool] = lambda number: (  # noqa: E731  NaN is not within
        (low is None or number >= low) and (high is None or number <= high)
    )
    if not within(value):
        bounds = f"at least {low}" if high is None else f"between {low} and {high}"
        raise UsageError(f"{name} must be {bounds}, got {value}")
