"""Writes docs/python-reference.md from the docstrings of the public names; a test fails when stale.

python scripts/render_api.py [--check]
"""

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import assay
from assay.metrics.scoring import Scores
from assay.metrics.statistics import PairedResult
from assay.run.models import AnswerRow, GateResult, Latency, QueryRow, Statistic

PAGE = Path(__file__).parents[1] / "docs" / "python-reference.md"
INTRODUCTION = """# Python reference

Made from the docstrings by `scripts/render_api.py`; do not edit. [python.md](python.md) shows how
the names are used.
"""

RETURNED = """# What these return

You meet these as values of a report, a row or a comparison; there is no need to import them.
"""


def render() -> str:
    """The whole page."""
    names = sorted((name for name in assay.__all__ if name != "__version__"), key=str.lower)
    parts = [INTRODUCTION]
    for name in names:
        parts += _entry(name, getattr(assay, name))
    parts.append(RETURNED)
    for each in (AnswerRow, GateResult, Latency, PairedResult, QueryRow, Scores, Statistic):
        parts += _entry(each.__name__, each)
    return "\n".join(parts)


def _entry(name: str, value: object) -> Iterator[str]:
    yield f"## {name}\n"
    if isinstance(value, assay.Metric):
        yield f"The metric `{value!r}`, a `Metric`; [metrics.md](metrics.md) defines it.\n"
    elif inspect.isclass(value):
        yield _text(value)
        yield from _fields(value)
        for member, each in sorted(vars(value).items()):
            if not member.startswith(("_", "model_")):
                yield from _member(f"{name}.{member}", each)
    elif inspect.isfunction(value) and value.__name__ != name:
        yield f"Another name of [`{value.__name__}`](#{value.__name__}).\n"
    elif callable(value) and hasattr(value, "__name__"):
        yield f"```python\n{_signature(name, value)}\n```\n"
        yield _text(value)
    else:
        yield _text(value)


def _fields(value: type) -> Iterator[str]:
    types: dict[str, Any] = {}
    if issubclass(value, BaseModel):
        types = {name: field.annotation for name, field in value.model_fields.items()}
    elif value is PairedResult:
        types = {field.name: field.type for field in fields(value)}
    if types:
        rows = [f"- `{name}`: {_cleaned(inspect.formatannotation(types[name]))}" for name in types]
        yield "\n".join(["Fields:\n", *rows, ""])


def _member(name: str, value: object) -> Iterator[str]:
    if isinstance(value, property) and value.fget is not None and value.__doc__:
        yield f"**`{name}`**: {_text(value.fget)}"
        return
    function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    if inspect.isfunction(function) and function.__doc__:
        yield f"```python\n{_signature(name, function)}\n```\n"
        yield _text(function)


def _signature(name: str, value: object) -> str:
    """On one line where it fits, else a line a parameter."""
    signature = inspect.signature(value)  # type: ignore[arg-type]
    short = f"{name}{signature}".replace("assay.data.dataset.", "")
    if len(short) <= 90:
        return _cleaned(short)
    rows = []
    keyword_only = False
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            rows.append("    *,")
        rows.append(f"    {parameter},")
    returned = inspect.formatannotation(signature.return_annotation)
    return _cleaned("\n".join([f"{name}(", *rows, f") -> {returned}"]))


def _cleaned(text: str) -> str:
    text = re.sub(r"Annotated\[(\w+), AfterValidator\([^)]*\)\]", r"\1", text)
    text = re.sub(r" = <function \w+ at 0x[0-9a-f]+>", " = ...", text)
    text = re.sub(r"\b(?:assay|collections|pathlib|typing)(?:\.[a-z_]+)*\.(?=[A-Z])", "", text)
    text = text.replace("typing.str", "str")
    return re.sub(r"'(LLMProvider|DataFrame|Run)'", r"\1", text)


def _text(value: object) -> str:
    """The docstring, its lists of parameters as lists."""
    lines = (inspect.getdoc(value) or "").splitlines()
    found: list[str] = []
    for line in lines:
        if re.fullmatch(r"(Parameters|Attributes|Raises|Returns):", line):
            found.append(f"{line}\n")
        elif match := re.fullmatch(r"    (\w+): (.*)", line):
            found.append(f"- `{match[1]}`: {match[2]}")
        elif line.startswith("        ") and found and found[-1].startswith("- "):
            found[-1] += f" {line.strip()}"
        else:
            found.append(line)
    return "\n".join(found) + "\n"


def main() -> None:
    """Write the page, or say with `--check` that it is stale."""
    page = render().rstrip() + "\n"
    if "--check" in sys.argv:
        if PAGE.read_text(encoding="utf-8") != page:
            sys.exit(f"{PAGE.name} is stale")
        return
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
