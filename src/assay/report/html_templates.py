"""Renders templates to pages: no script, no network; light mode, dark mode and paper.

All content of a run (queries, ids, documents, messages of agents) is escaped, and control and
bidirectional characters are replaced. A
standalone page forbids all scripts and allows only its own style, identified by its hash.
"""

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, ChoiceLoader, Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from assay.answers.figures import AnswerFigure, improvement, parse_figure
from assay.net.redact import printable
from assay.report import numbers, plots
from assay.report.terminal import verdict

TEMPLATES = Path(__file__).parent / "templates"


@cache  # to compile all of them takes 0.3 s
def environment(*folders: Path) -> Environment:
    """Templates of `folders` and of reports, with filters for numbers; everything is escaped.
    One for each process: what a page needs of its server is given to `render`.
    """
    loaders: list[BaseLoader] = [FileSystemLoader(folder) for folder in (*folders, TEMPLATES)]
    jinja = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    jinja.filters |= {
        "figure": numbers.figure,
        "ceiling": numbers.ceiling,
        "count": numbers.count,
        "counted": numbers.counted,
        "difference": numbers.difference,
        "percent": numbers.percent,
        "rate": numbers.rate,
        "milliseconds": _milliseconds,
        "metric_name": _metric_name,
        "improvement": _improvement,
        "answer_metric": lambda name: AnswerFigure(name).title,
        "moment": moment,
        "breakable": breakable,
    }
    jinja.globals |= {
        "interval": numbers.interval,
        "share": numbers.share,
        "p_value": numbers.p_value,
        "whisker": plots.whisker,
        "verdict": verdict,
    }
    return jinja


def _metric_name(name: str) -> str:
    found = parse_figure(name)
    return found.title if isinstance(found, AnswerFigure) else str(found)


def _improvement(difference: float, name: str) -> float:
    return improvement(parse_figure(name), difference)


def _printable(value: Any) -> Any:
    """Without characters that show a text in another order than it has, as in a terminal."""
    if not isinstance(value, str):
        return value
    shown = printable(re.sub("\r\n?", "\n", value))
    return Markup(shown) if isinstance(value, Markup) else shown


def render_page(template: str, **values: Any) -> str:
    """A standalone page: its style is inline, and its policy allows nothing else."""
    style = style_sheet()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    page = environment().get_template(template)
    return label_cells(page.render(style=Markup(style), policy=policy, **values))


def render_fragment(template: str, **values: Any) -> str:
    """A template without a page around it."""
    return environment().get_template(template).render(**values)


_TABLE = re.compile(r"<table\b[^>]*>.*?</table>", re.DOTALL)
_CELL = re.compile(r"<(?P<row>tr\b)|<(?P<tag>t[dh])\b(?P<attributes>[^>]*)>")
_HEADINGS = re.compile(r"<thead>\s*<tr[^>]*>(.*?)</tr>", re.DOTALL)
_HEADING = re.compile(r"<th\b(?P<attributes>[^<>]*)>(?P<words>.*?)</th>", re.DOTALL)
_UNREAD = re.compile(r"<span aria-hidden=[^<>]*>.*?</span>|<[^<>]*>", re.DOTALL)
_COLSPAN = re.compile(r'colspan="(\d+)"')
_WIDE_TABLE = 7


def label_cells(page: str) -> str:
    """The page with the heading of its column on every cell, for narrow windows.

    There the style shows each row of a table as a card, and a cell says by itself what it is:
    `class="cards"`, and `many` where a table has so many columns that a tablet is narrow too.
    """
    return _TABLE.sub(_labeled_table, page)


def _labeled_table(match: re.Match[str]) -> str:
    table = match[0]
    headings = _HEADINGS.search(table)
    names: list[str] = []
    for each in _HEADING.finditer(headings[1]) if headings else ():
        words = " ".join(_UNREAD.sub("", each["words"]).split())
        names += [words.replace('"', "&#34;")] * _columns(each["attributes"])
    if len(names) < 3:
        return table
    column = 0

    def label(cell: re.Match[str]) -> str:
        nonlocal column
        if cell["row"]:
            column = 0
            return cell[0]
        place, span = column, _columns(cell["attributes"])
        column += span
        if cell["tag"] == "th" or span > 1 or place >= len(names) or not names[place]:
            return cell[0]
        return f'{cell[0][:-1]} data-label="{names[place]}">'

    classes = "cards many" if len(names) >= _WIDE_TABLE else "cards"
    head, body = re.match(r"<table\b([^>]*)>", table), table.index(">") + 1
    assert head is not None
    given = head[1]
    if 'class="' in given:
        given = given.replace('class="', f'class="{classes} ', 1)
    else:
        given += f' class="{classes}"'
    return f"<table{given}>{_CELL.sub(label, table[body:])}"


def _columns(attributes: str) -> int:
    span = _COLSPAN.search(attributes)
    return int(span[1]) if span else 1


@cache
def style_sheet() -> str:
    """The CSS of every report."""
    return (TEMPLATES / "style.css").read_text(encoding="utf-8")


def breakable(name: str) -> Markup:
    """A name or address that a narrow window breaks after a mark, and not between letters."""
    shown = str(escape(printable(name)))
    return Markup(re.sub(r"(?<![/:._-])([/:._-]++)(?=\w)", r"\1<wbr>", shown))


def moment(iso: str) -> str:
    """`2026-11-15 05:36 UTC` of an ISO time; other text as it is."""
    return f"{iso[:10]} {iso[11:16]} UTC" if len(iso) >= 16 else iso


def _milliseconds(value: float | None) -> str:
    return numbers.duration(None if value is None else value / 1000)
