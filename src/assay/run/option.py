"""`Option`: how a setting of a run is offered, and which values it takes."""

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


TYPE_WORDS = {
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
        flag: the command-line flag; derived from the field's name by default. The key in
            `assay.toml` and the environment variable are named after it.
        has_variable: whether it has an environment variable.
        separator: what stands between several values in the variable.
        metavar: what stands for the value in the help.
        label: the form's label; None keeps the setting out of the form.
        placeholder: what an empty field of the form shows.
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
    has_variable: bool = True
    separator: str = ";"
    metavar: str | None = None
    label: str | None = None
    placeholder: str = ""
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


class OptionFields:
    """Makes fields of a dataclass with their options, which share some of the rules of `Option`."""

    def __init__(self, **shared: Any) -> None:
        self._shared = shared

    def __call__(self, default: Value, help: str, **rules: Any) -> Value:
        """A field; `rules` are those of its own option, or replace shared ones."""
        option = Option(help=help, **{**self._shared, **rules})
        made: Value = field(default=default, metadata={"option": option})
        return made


option_field = OptionFields()


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
    raise UsageError(f"{name} must be {TYPE_WORDS[kind]}, got {value!r}")


def check_range(name: str, value: Any, option: Option) -> None:
    """Raise `UsageError` for a value that the option does not allow."""
    if option.choices and value not in option.choices:
        raise UsageError(f"{name} must be one of {', '.join(option.choices)}, got {value!r}")
    if value is None or (option.low is None and option.high is None):
        return
    low, high = option.low, option.high
    within = (low is None or value >= low) and (high is None or value <= high)
    if not within:  # NaN is not
        bounds = f"at least {low}" if high is None else f"between {low} and {high}"
        raise UsageError(f"{name} must be {bounds}, got {value}")
