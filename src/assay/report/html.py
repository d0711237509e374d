"""The report of a run as one HTML file: no script, no network, light, dark and paper.

Whatever a run holds (queries, ids, documents, messages of agents) is shown as text. The page
forbids scripts altogether and allows no style but its own, which it names by its hash.
"""

import base64
import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, ChoiceLoader, Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from assay.data.dataset import Dataset
from assay.measure.figures import parse_figure
from assay.measure.metrics import parse_metric
from assay.report import numbers, plots
from assay.report.html_answers import answers_view
from assay.report.html_figures import RowFigures, count_failures
from assay.report.html_queries import QueryPainter, violation_lines
from assay.report.html_questions import QuestionPainter
from assay.report.terminal import verdict

TEMPLATES = Path(__file__).parent / "templates"
_PASSWORD = re.compile(r"(?<=//)[^/@\s]+@")
NO_JUDGE = "extractive"
"""What `--judge` takes for none, whatever the environment says."""
_OPTIONS = ("dataset", "split", "num_queries", "seed", "top_k", "concurrency", "timeout", "retries")


def render_run(
    head: Mapping[str, Any],
    rows: Iterable[Mapping[str, Any]],
    *,
    name: str,
    dataset: Dataset | None = None,
    answers: Iterable[Mapping[str, Any]] = (),
) -> str:
    """A whole page. `dataset` adds grades, titles and texts; without it there are only ids."""
    view = run_view(head, rows, name=name, dataset=dataset, answers=answers)
    return render_page("run_page.html", run=view, title=f"{view['title']}: {view['score']}")


def run_view(
    head: Mapping[str, Any],
    rows: Iterable[Mapping[str, Any]],
    *,
    name: str,
    dataset: Dataset | None = None,
    answers: Iterable[Mapping[str, Any]] = (),
    query_links: str = "",
    question_links: str = "",
) -> dict[str, Any]:
    """What the template `run_body.html` shows of a run.

    `query_links`, where queries have pages of their own, is the address before their ids;
    `question_links` is the address of the list of questions, where there is one.
    """
    headline, score = next(iter(head["statistics"].items()))
    metric, config = parse_metric(headline), head["config"]
    figures = RowFigures(metric.key, dataset.queries if dataset else {}).read(rows)
    painter = QueryPainter(metric.key, config["top_k"], config["split"], dataset)
    return {
        "name": name,
        "title": f"{head['target']['name']} on {head['dataset']['name']}",
        "head": head,
        "metric": str(metric),
        "score": numbers.figure(score["mean"]),
        "headline": score,
        "score_line": plots.score_line(
            score["mean"], score["low"], score["high"], score["ceiling"]
        ),
        "figures": figures,
        "histogram": plots.histogram(figures.histogram(), figures.zeros, str(metric)),
        "groups": _groups(figures),
        "latency": _latency(figures),
        "failures": count_failures(head["failures"]),
        "violations": violation_lines(head["violations"]),
        "worst": [painter.paint(row) for row in figures.worst],
        "best": [painter.paint(row) for row in figures.best],
        "answers": _answers(head, answers, dataset, question_links),
        "graded": dataset is not None,
        "query_links": query_links,
        "command": command_of(config),
        "config": {key: _hidden(value) for key, value in config.items()},
    }


def command_of(config: Mapping[str, Any]) -> str:
    """What to type to make this run again, every setting spelled out."""
    words = ["assay", "eval", _hidden(config["target"])]
    for option in _OPTIONS:
        if config.get(option) is not None:
            words += [f"--{option.replace('_', '-')}", f"{config[option]}"]
    for gate in config.get("gates", ()):
        words += ["--gate", gate]
    if config.get("baseline"):
        words += ["--baseline", _hidden(config["baseline"])]
    if config.get("mapping"):
        words += ["--map", config["mapping"]]
    if config.get("track", "undeclared") != "undeclared":
        words += ["--track", config["track"]]
    return shlex.join([*words, *_answer_options(config)])


def _answer_options(config: Mapping[str, Any]) -> list[str]:
    if not config.get("answers"):
        return []
    words = ["--answers", "--judge", _hidden(config["judge"]) or NO_JUDGE]
    if config["judge"]:
        words += ["--judge-votes", f"{config['judge_votes']}"]
        if config["max_cost"] is not None:
            words += ["--max-cost", f"{config['max_cost']:g}"]
    if config.get("ground_truth"):
        words += ["--ground-truth", config["ground_truth"]]
    return [*words, "--counterfactuals"] if config["counterfactuals"] else words


def environment(*folders: Path) -> Environment:
    """Everything is escaped. `folders` hold further templates, which may use ours."""
    loaders: list[BaseLoader] = [FileSystemLoader(folder) for folder in (*folders, TEMPLATES)]
    jinja = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters |= {
        "figure": numbers.figure,
        "count": numbers.count,
        "counted": numbers.counted,
        "difference": numbers.difference,
        "percent": numbers.percent,
        "rate": numbers.rate,
        "milliseconds": lambda value: numbers.duration(None if value is None else value / 1000),
        "metric_name": lambda name: str(parse_figure(name)),
        "moment": moment,
    }
    jinja.globals |= {
        "interval": numbers.interval,
        "share": numbers.share,
        "p_value": numbers.p_value,
        "whisker": plots.whisker,
        "verdict": verdict,
    }
    return jinja


def render_page(template: str, **values: Any) -> str:
    """A page that stands alone: its style is in it, and nothing else is allowed to be."""
    style = style_sheet()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    page = _own_environment().get_template(template)
    return page.render(style=Markup(style), policy=policy, **values)


@cache
def style_sheet() -> str:
    return (TEMPLATES / "style.css").read_text(encoding="utf-8")


def moment(iso: str) -> str:
    """`2026-11-15 05:36 UTC`, as ISO text that people can read."""
    return f"{iso[:10]} {iso[11:16]} UTC" if len(iso) >= 16 else iso


@cache
def _own_environment() -> Environment:
    return environment()


def _answers(
    head: Mapping[str, Any],
    rows: Iterable[Mapping[str, Any]],
    dataset: Dataset | None,
    links: str,
) -> dict[str, Any] | None:
    """None for a run that was not asked for answers, or that is older than they are."""
    if not head.get("answers"):
        return None
    config = head["config"]
    painter = QuestionPainter(config["top_k"], config["split"], dataset)
    return answers_view(head["answers"], rows, painter, links)


def _groups(figures: RowFigures) -> list[tuple[str, Any]]:
    """One group says nothing: it is the headline again."""
    found = [
        ("Words in the query", figures.by_length()),
        ("Relevant documents", figures.by_relevant()),
        ("Form of the query", figures.by_form()),
        ("Tag of the query", figures.by_tag()),
    ]
    return [(title, groups) for title, groups in found if len(groups) > 1]


def _latency(figures: RowFigures) -> Markup | None:
    over_time = figures.latency_over_time()
    if over_time is None:
        return None
    return plots.latency_lines(over_time.places, over_time.series, over_time.axis)


def _hidden(value: Any) -> Any:
    """Reports are passed around: a password in an address stays at home."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return _PASSWORD.sub("…@", value) if isinstance(value, str) else value
