"""Renders templates to pages: no script, no network; light mode, dark mode and paper.

All content of a run (queries, ids, documents, messages of agents) is escaped, and control and
bidirectional characters are replaced. A standalone page forbids all scripts and allows only its own
style, identified by its hash.
"""

import base64
import hashlib
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from assay.metrics.figures import improvement, parse_figure
from assay.net.redact import printable
from assay.report import charts, documents, numbers, terminal, trends
from assay.text import parse_time

TEMPLATES = Path(__file__).parent / "templates"


@cache  # to compile all of them takes 0.3 s
def environment(*folders: Path) -> Environment:
    """Templates of `folders` and of reports, with filters for numbers; everything is escaped.

    One for each process: what a page needs of its server is given to `render`.
    """
    jinja = Environment(
        loader=ChoiceLoader([FileSystemLoader(folder) for folder in (*folders, TEMPLATES)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    names = ("figure", "ceiling", "count", "counted", "difference", "percent", "rate")
    jinja.filters |= {name: getattr(numbers, name) for name in names}
    jinja.filters |= {
        "milliseconds": lambda ms: numbers.duration(None if ms is None else ms / 1000),
        "metric_name": trends.figure_title,
        "improvement": lambda difference, name: improvement(parse_figure(name), difference),
        "raw_json": lambda call: orjson.dumps(call.to_json(), option=orjson.OPT_INDENT_2).decode(),
        "moment": moment,
        "age": age,
        "breakable": breakable,
    }
    for module, shared in (
        (numbers, ("interval", "share", "p_value")),
        (charts, ("whisker", "change_bar")),
        (terminal, ("verdict", "judge_words", "VIOLATIONS", "CONTEXTS")),
        (documents, ("anchor", "verdict_word", "kind_of", "split_citations", "ratings")),
    ):
        jinja.globals |= {name: getattr(module, name) for name in shared}
    jinja.globals["charts"] = charts
    return jinja


def _printable(value: Any) -> Any:
    """Without characters that show a text in another order than it has, as in a terminal."""
    if not isinstance(value, str):
        return value
    shown = printable(value.replace("\r\n", "\n").replace("\r", "\n"))
    return Markup(shown) if isinstance(value, Markup) else shown


def render_page(template: str, **values: Any) -> str:
    """A standalone page: its style is inline, and its policy allows nothing else."""
    style = style_sheet()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    page = environment().get_template(template)
    return page.render(style=Markup(style), policy=policy, **values)


@cache
def style_sheet() -> str:
    """The CSS of every page."""
    return (TEMPLATES / "style.css").read_text(encoding="utf-8")


def breakable(name: str) -> Markup:
    """A name or address that a narrow window breaks after a mark, and not between letters."""
    shown = str(escape(printable(name)))
    return Markup(re.sub(r"(?<![/:._-])([/:._-]++)(?=\w)", r"\1<wbr>", shown))


def moment(iso: str) -> str:
    """`2026-11-15 05:36 UTC` of an ISO time; other text as it is."""
    return f"{iso[:10]} {iso[11:16]} UTC" if len(iso) >= 16 else iso


def age(iso: str | None) -> str:
    """`4 min`, `3 h`, `12 d`: how long ago; empty for what is not a time."""
    try:
        seconds = (datetime.now(UTC) - parse_time(iso or "")).total_seconds()
    except (ValueError, OverflowError):
        return ""
    minutes = max(0, int(seconds // 60))
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} d"
