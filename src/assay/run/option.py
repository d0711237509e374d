"""`Option`: how a setting of a run is offered, and which values it takes."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from os import PathLike, fspath
from types import NoneType, UnionType
from typing import Any, Literal, Self, get_args, get_type_hints

from assay.errors import UsageError, did_you_mean

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
# np.int64 is no int and np.float32 no float, but both are registered with these.
_NUMBERS: dict[type, Any] = {int: Integral, float: Real}
_WIDGETS = {bool: "checkbox", tuple: "lines", int: "number", float: "number"}
_BOOLEANS = {
    **dict.fromkeys(("1", "true", "yes", "on", "t", "y"), True),
    **dict.fromkeys(("0", "false", "no", "off", "f", "n", ""), False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """How a setting is offered to people and programs; `option_fields` adds what its field says."""

    help: str  # one or two sentences for `--help` and the form
    group: Group = "Run"
    usual: bool = False  # `--help` shows it; the others need `--help-all`
    flag: str = ""  # by default what the field's name says
    has_variable: bool = True
    separator: str = ";"  # between several values in the variable
    metavar: str | None = None
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    needs: str = ""  # the setting without which this one has no meaning
    on_resume: Literal["fixed", "free"] = "fixed"  # whether a resumed run may change it
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
    def negative_flag(self) -> str:
        """`--no-answers`; empty for other kinds, and for one that says no itself: `--no-cache`."""
        if self.kind is not bool or self.flag.startswith("--no-"):
            return ""
        return self.flag.replace("--", "--no-", 1)

    @property
    def repeatable(self) -> bool:
        """Whether the flag may be given several times."""
        return self.kind is tuple or issubclass(self.kind, OptionPart)

    @property
    def command_default(self) -> Any:
        """What the command line has if the flag is not given."""
        missing = self.nullable or self.optional or self.default in ("", ())
        return None if missing else self.default

    @property
    def widget(self) -> str:
        """The form's control: `text`, `number`, `checkbox`, `select` or `lines`."""
        return "select" if self.choices else _WIDGETS.get(self.kind, "text")

    @property
    def label(self) -> str:
        """What the form calls it."""
        words = self.param.replace("_", " ").capitalize()
        return f"{words}, one per line" if self.kind is tuple else words

    def format(self, value: Any) -> str:
        """The value as text for a form field; `read` reads it back."""
        if self.kind is bool:
            return CHECKED if value else ""
        return "\n".join(map(str, value)) if self.kind is tuple else format_value(value)

    def read(self, value: Any, name: str = "") -> Any:
        """The value as the field has it, from Python, a file, a form or a variable.

        A run with another type could not be read back: numbers of NumPy, for example, become
        Python's. Raises `UsageError` for another type, and for a value that is not allowed.
        """
        name = name or self.name
        if issubclass(self.kind, OptionPart):
            return self.kind.read(value, name)
        # Forms and variables cannot say None: they leave the field empty.
        if self.nullable and (value is None or value == ""):
            return None
        found = self._convert(fspath(value) if isinstance(value, PathLike) else value)
        low, high = self.low, self.high
        if found is None:
            wanted = _TYPE_WORDS[self.kind]
        elif self.choices and found not in self.choices:
            wanted = f"one of {', '.join(self.choices)}"
        # Written so that NaN, which compares with nothing, is out of bounds.
        elif (low is not None and not found >= low) or (high is not None and not found <= high):
            wanted = f"at least {low}" if high is None else f"between {low} and {high}"
        else:
            return found
        raise UsageError(f"{name} must be {wanted}, got {found if found is not None else value!r}")

    def _convert(self, value: Any) -> Any:
        """The value in the option's type; None if it does not fit."""
        kind = self.kind
        if kind is str:
            value = json.dumps(value) if isinstance(value, Mapping) else value or ""
            return value if isinstance(value, str) else None
        if kind is bool:
            value = _BOOLEANS.get(value.lower()) if isinstance(value, str) else value
            return value if isinstance(value, bool) else None
        if kind is tuple:
            return _texts(value)
        # True is an int for Python, and a mistake in a file.
        if isinstance(value, str | _NUMBERS[kind]) and not isinstance(value, bool):
            with suppress(ValueError):
                return int(value) if kind is int else float(value)
        return None


def _texts(value: Any) -> tuple[str, ...] | None:
    """Lines of a text, `KEY=VALUE` of a mapping, or a list as it is; True stands for `all`."""
    if isinstance(value, bool):
        return ("all",) if value else ()
    if isinstance(value, Mapping):
        value = [f"{key}={text}" for key, text in value.items()]
    elif isinstance(value, str):
        value = [line.strip() for line in value.splitlines() if line.strip()]
    if not isinstance(value, Sequence):
        return None
    texts = tuple(fspath(each) if isinstance(each, PathLike) else each for each in value)
    return texts if all(isinstance(text, str) for text in texts) else None


def option_field(default: Any, help: str, **rules: Any) -> Any:
    """A field of a dataclass with its option; `rules` are those of `Option`."""
    return field(default=default, metadata={"option": Option(help=help, **rules)})


def option_fields(of: type) -> dict[str, Option]:
    """The option of every field of a dataclass that has one, by name."""
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
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            if (texts := _texts(given or ())) is None:
                raise UsageError(f"{name} must be KEY=VALUE or a mapping, got {given!r}")
            pairs = (pair.partition("=") for pair in ",".join(texts).split(",") if pair.strip())
            given = {key.strip(): text.strip() if equals else "true" for key, equals, text in pairs}
        return cls(**read_options(option_fields(cls), given, name))

    def __str__(self) -> str:
        """What differs from the defaults, as `read` takes it: `votes=4,timeout=600`."""
        words = []
        for key, option in option_fields(type(self)).items():
            if (value := getattr(self, key)) != option.default:
                words.append(key if value is True else f"{key}={format_value(value)}")
        return ",".join(words)


def read_options(
    options: Mapping[str, Option], table: Mapping[str, Any], where: str, others: Sequence[str] = ()
) -> dict[str, Any]:
    """The values in a table, each as its option has it; keys of `others` are passed over.

    Raises `UsageError`, which names `where`, for an unknown key or a value of the wrong type.
    """
    found = {}
    for given, value in table.items():
        key = given.replace("-", "_")
        if key in options:
            found[key] = options[key].read(value, f"{where} {given!r}")
        elif given not in others:
            names = [*others, *options]
            hint = did_you_mean(key, names)
            raise UsageError(f"{where} {given!r} is not one of {', '.join(names)}{hint}")
    return found


def format_value(value: Any) -> str:
    """A number without needless digits; any other value as it is."""
    if isinstance(value, float) and float(short := f"{value:g}") == value:
        return short
    return "" if value is None else str(value)
