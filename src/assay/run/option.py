"""`Option`: how a setting of a run is offered, and which values it takes."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Self, TypeVar, get_args, get_type_hints

from assay.errors import UsageError, did_you_mean

OnResume = Literal["fixed", "free"]
Value = TypeVar("Value")
# The sections of `assay eval --help`, in their order; the first is for what most runs need.
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

# What a browser sends for a box that is ticked; for one that is not, it sends nothing.
CHECKED = "on"

_TYPE_WORDS = {
    str: "a string",
    bool: "True or False",
    int: "an integer",
    float: "a number",
    tuple: "a list of strings",
}
_NUMBERS: dict[type, Any] = {int: Integral, float: Real}
_BOOLEANS = {
    **dict.fromkeys(("1", "true", "yes", "on", "t", "y"), True),
    **dict.fromkeys(("0", "false", "no", "off", "f", "n"), False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """How a setting is offered to people and programs; `option_fields` adds what its field says."""

    help: str  # one or two sentences for `--help` and the form
    group: Group = "Run"
    usual: bool = False  # `--help` shows it; the others need `--help-all`
    flag: str = ""  # by default, and for the label, what the field's name says
    has_variable: bool = True
    separator: str = ";"  # between several values in the variable
    metavar: str | None = None
    label: str = ""  # in the form
    placeholder: str = ""  # in an empty field of the form
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    needs: str = ""  # the setting without which this one has no meaning
    on_resume: OnResume = "fixed"  # whether a resumed run may change it
    same_in_shards: bool = False  # the shards of one evaluation must agree on it
    request_field: str = ""  # the key in the A2A evaluator's request
    request_high: int | None = None  # for a request, if it is below `high`
    cli: bool = True  # `assay eval` and the form have it
    as_tag: bool = False  # the command line takes it as `--tag NAME=VALUE`
    optional: bool = False  # the command line tells "not given" from the default
    name: str = ""
    kind: type = str  # str, int, float, bool, tuple (of texts) or an `OptionPart`
    nullable: bool = False  # None fits
    default: Any = None

    @property
    def param(self) -> str:
        """The name in `assay.toml` and in the command's signature."""
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def env(self) -> str | None:
        """The environment variable, or None."""
        return f"ASSAY_{self.param.upper()}" if self.has_variable else None

    @property
    def is_part(self) -> bool:
        """Whether the option takes `KEY=VALUE,…`."""
        return issubclass(self.kind, OptionPart)

    @property
    def repeatable(self) -> bool:
        """Whether the flag may be given several times."""
        return self.kind is tuple or self.is_part

    @property
    def command_default(self) -> Any:
        """What the command line has if the flag is not given."""
        missing = self.nullable or self.optional or self.default in ("", ())
        return None if missing else self.default

    @property
    def widget(self) -> str:
        """The form's control: `text`, `number`, `checkbox`, `select` or `lines`."""
        if self.choices:
            return "select"
        kinds = {bool: "checkbox", tuple: "lines", int: "number", float: "number"}
        return kinds.get(self.kind, "text")

    def parse(self, text: str) -> Any:
        """The value of a form field. Raises `UsageError`."""
        text = text.strip()
        if self.kind is bool:
            return text == CHECKED
        if self.kind is tuple:
            return tuple(line.strip() for line in text.splitlines() if line.strip())
        return self.read(text)

    def format(self, value: Any) -> str:
        """The value as text for a form field; `parse` reads it back."""
        if self.kind is bool:
            return CHECKED if value else ""
        return "\n".join(map(str, value)) if self.kind is tuple else format_value(value)

    def read(self, value: Any, name: str = "", *, check: bool = False) -> Any:
        """The value as the field has it, from Python, a file or a text. Raises `UsageError`.

        A run with another type could not be read back: numbers of NumPy, for example, become
        Python's. With `check`, only values in the allowed range pass.
        """
        name = name or self.name
        found = self._convert(value, name)
        if check:
            self.require_range(found, name)
        return found

    def _convert(self, value: Any, name: str) -> Any:
        kind, text = self.kind, value if isinstance(value, str) else ""
        if self.nullable and (value is None or value == ""):
            return None
        if issubclass(kind, OptionPart):
            return kind.read(value, name)
        if kind is tuple and isinstance(value, list | tuple):
            if all(isinstance(each, str) for each in value):
                return tuple(value)
        elif kind is bool and (isinstance(value, bool) or text.lower() in _BOOLEANS):
            return _BOOLEANS[text.lower()] if text else value
        elif kind is str and isinstance(value, str):
            return value
        elif isinstance(value, bool):  # which Python takes for a number
            pass
        elif kind in _NUMBERS and isinstance(value, str | _NUMBERS[kind]):
            with suppress(ValueError):
                return int(value) if kind is int else float(value)
        raise UsageError(f"{name} must be {_TYPE_WORDS[kind]}, got {value!r}")

    def require_range(self, value: Any, name: str = "") -> None:
        """Raise `UsageError` for a value that the option does not allow."""
        name, low, high = name or self.name, self.low, self.high
        if self.choices and value not in self.choices:
            raise UsageError(f"{name} must be one of {', '.join(self.choices)}, got {value!r}")
        if value is None or (low is None and high is None):
            return
        if not ((low is None or value >= low) and (high is None or value <= high)):  # NaN is not
            bounds = f"at least {low}" if high is None else f"between {low} and {high}"
            raise UsageError(f"{name} must be {bounds}, got {value}")


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


def option_fields(of: type) -> dict[str, Option]:
    """The option of every field of a dataclass that has one, by name."""
    return _option_fields(of)


@cache
def _option_fields(of: type) -> dict[str, Option]:
    hints, found = get_type_hints(of), {}
    for each in fields(of):
        if (option := each.metadata.get("option")) is None:
            continue
        hint = hints[each.name]
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        (kind,) = (part for part in kinds if part is not NoneType)
        found[each.name] = replace(
            option,
            name=each.name,
            kind=kind if isinstance(kind, type) else tuple,
            nullable=NoneType in kinds,
            default=each.default,
            flag=option.flag or f"--{each.name.replace('_', '-')}",
            label=option.label or each.name.replace("_", " ").capitalize(),
        )
    return found


class OptionPart:
    """Base of a nested part of the settings: one option that takes `KEY=VALUE,…`.

    `JudgeSettings.read("votes=4,timeout=600")`, or from the table of a file:
    `JudgeSettings.read({"votes": 4})`. A key without a value is a switch.
    """

    @classmethod
    def read(cls, given: Any, name: str) -> Self:
        """Raises `UsageError` for an unknown key or a wrong value."""
        options = option_fields(cls)
        if isinstance(given, cls):
            given = {key: getattr(given, key) for key in options}
        if not isinstance(given, Mapping):
            given = _pairs([given] if isinstance(given, str) else given, name)
        for key in given:
            if key not in options:
                hint = did_you_mean(key, options)
                raise UsageError(f"{name} {key!r} is not one of {', '.join(options)}{hint}")
        values = {
            key: options[key].read(value, f"{name} {key}", check=True)
            for key, value in given.items()
        }
        return cls(**values)

    def __str__(self) -> str:
        """What differs from the defaults, as `read` takes it: `votes=4,timeout=600`."""
        words = []
        for key, option in option_fields(type(self)).items():
            if (value := getattr(self, key)) != option.default:
                words.append(key if value is True else f"{key}={format_value(value)}")
        return ",".join(words)


def _pairs(texts: Any, name: str) -> dict[str, str]:
    if not isinstance(texts, Iterable) or not all(isinstance(text, str) for text in texts):
        raise UsageError(f"{name} must be KEY=VALUE or a mapping, got {texts!r}")
    found = {}
    for pair in (part.strip() for text in texts for part in text.split(",")):
        if pair:
            key, equals, value = (part.strip() for part in pair.partition("="))
            found[key.replace("-", "_")] = value if equals else "true"
    return found


def format_value(value: Any) -> str:
    """A number without needless digits; any other value as it is."""
    if isinstance(value, float) and float(short := f"{value:g}") == value:
        return short
    return "" if value is None else str(value)
