"""`Option`: how a setting of a run is offered, and which values it takes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Self, TypeVar, get_args, get_type_hints

from assay.errors import UsageError, did_you_mean

OnResume = Literal["fixed", "free"]
Value = TypeVar("Value")
Group = Literal[
    "Usual options",
    "Data",
    "Target",
    "Calls",
    "Answers and judge",
    "Run",
    "Built-in retriever",
    "Output",
]
"""The sections of `assay eval --help`, in their order; the first is for what most runs need."""

TYPE_WORDS = {
    str: "a string",
    bool: "True or False",
    int: "an integer",
    float: "a number",
    tuple: "a list of strings",
}
_TRUE, _FALSE = ("1", "true", "yes", "on", "t", "y"), ("0", "false", "no", "off", "f", "n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """How a setting is offered to people and programs.

    Parameters:
        help: one or two sentences for `--help` and the form.
        group: the section of `--help` that it is in.
        usual: whether `--help` shows it; the others need `--help-all`.
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
        request_high: the largest value that a request may ask for, if it is below `high`.
        cli: whether `assay eval` has it.
        as_tag: whether the command line takes it as `--tag NAME=VALUE`.
        optional: whether the command line tells "not given" from the default.
    """

    help: str
    group: Group = "Run"
    usual: bool = False
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
    as_tag: bool = False
    optional: bool = False


class OptionFields:
    """Makes fields of a dataclass with their options, which share some of the rules of `Option`."""

    def __init__(self, **shared: Any) -> None:
        self._shared = shared

    def __call__(self, default: Value, help: str, **rules: Any) -> Value:
        """A field; `rules` are those of this option, or replace shared ones."""
        option = Option(help=help, **{**self._shared, **rules})
        made: Value = field(default=default, metadata={"option": option})
        return made


option_field = OptionFields()


class OptionPart:
    """Base of a nested part of the settings: one option that takes `KEY=VALUE,…`.

    `JudgeSettings.parse(["votes=4,timeout=600"])`, or from the table of a file:
    `JudgeSettings.read({"votes": 4})`. A key without a value is a switch.
    """

    @classmethod
    def parse(cls, texts: Iterable[str], name: str) -> Self:
        """Raises `UsageError` for an unknown key or a wrong value."""
        given: dict[str, Any] = {}
        for pair in (part.strip() for text in texts for part in text.split(",")):
            if pair:
                key, equals, value = (part.strip() for part in pair.partition("="))
                given[key.replace("-", "_")] = value if equals else "true"
        kinds = field_types(cls)
        values = {
            key: from_text(f"{name} {key}", text, kinds[key]) if key in kinds else text
            for key, text in given.items()
        }
        return cls.read(values, name)

    @classmethod
    def read(cls, values: Mapping[str, Any], name: str) -> Self:
        """The part from a mapping. Raises `UsageError`."""
        kinds, options = field_types(cls), option_fields(cls)
        for key in values:
            if key not in kinds:
                hint = did_you_mean(key, kinds)
                raise UsageError(f"{name} {key!r} is not one of {', '.join(kinds)}{hint}")
        read = {key: convert(f"{name} {key}", values[key], kinds[key]) for key in values}
        for key, value in read.items():
            check_range(f"{name} {key}", value, options[key])
        return cls(**read)

    def __str__(self) -> str:
        """What differs from the defaults, as `parse` reads it: `votes=4,timeout=600`."""
        plain, words = type(self)(), []
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if value != getattr(plain, each.name):
                words.append(each.name if value is True else f"{each.name}={format_value(value)}")
        return ",".join(words)


def option_fields(of: type) -> dict[str, Option]:
    """The option of every field of a dataclass that has one, by name."""
    return {each.name: each.metadata["option"] for each in fields(of) if "option" in each.metadata}


def field_types(of: type) -> dict[str, tuple[type, bool]]:
    """Of every field: str, bool, int, float, tuple (of texts) or a part, and whether None fits."""
    return _field_types(of)


@cache
def _field_types(of: type) -> dict[str, tuple[type, bool]]:
    found = {}
    for name, hint in get_type_hints(of).items():
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        (kind,) = (each for each in kinds if each is not NoneType)
        found[name] = (kind if isinstance(kind, type) else tuple, NoneType in kinds)
    return found


def format_value(value: Any) -> str:
    """A number without needless digits; any other value as it is."""
    if isinstance(value, float) and float(short := f"{value:g}") == value:
        return short
    return "" if value is None else str(value)


def from_text(name: str, text: str, kinds: tuple[type, bool]) -> Any:
    """The value that a text of a flag, variable or form stands for. Raises `UsageError`."""
    kind, nullable = kinds
    if not text and nullable:
        return None
    if kind is bool:
        if text.lower() not in (*_TRUE, *_FALSE):
            raise UsageError(f"{name} must be true or false, got {text!r}")
        return text.lower() in _TRUE
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            raise UsageError(f"{name} must be {TYPE_WORDS[kind]}, got {text!r}") from None
    return text


def convert(name: str, value: Any, kinds: tuple[type, bool]) -> Any:
    """The value as its field has it: a run with another type could not be read back.

    Numbers of other libraries, such as NumPy's, become Python's. Raises `UsageError`.
    """
    kind, nullable = kinds
    if value is None and nullable:
        return None
    if issubclass(kind, OptionPart):
        return _part(name, value, kind)
    if kind is tuple and isinstance(value, list | tuple):
        if all(isinstance(text, str) for text in value):
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


def _part(name: str, value: Any, kind: type[OptionPart]) -> OptionPart:
    if isinstance(value, kind):
        return kind.read({each: getattr(value, each) for each in field_types(kind)}, name)
    if isinstance(value, Mapping):
        return kind.read(value, name)
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts):
        return kind.parse(texts, name)
    raise UsageError(f"{name} must be KEY=VALUE or a mapping, got {value!r}")


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
