"""What tells a run apart from others: label, tags and note, a part of `RunConfig`'s options."""

from collections.abc import Iterable
from dataclasses import dataclass

from assay.errors import UsageError
from assay.run.answer_settings import AnswerSettings
from assay.run.option import option_field as _option

_MAX_LENGTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSettings(AnswerSettings):
    """What the experimenter says about a run and compares it with; none of it changes a score."""

    label: str = _option(
        "",
        "A name for what is tried, such as bm25-tuned: assay runs --label finds the runs that "
        "have it.",
        metavar="NAME",
        label="Label",
        placeholder="none",
        group="Run",
    )
    tags: tuple[str, ...] = _option(
        (),
        "A fact to keep with the run, such as chunks=512. Repeatable; in the variable, separate "
        "tags with ;",
        flag="--tag",
        param="tag",
        env="ASSAY_TAG",
        metavar="KEY=VALUE",
        label="Tags, one KEY=VALUE per line",
        placeholder="chunks=512",
        widget="lines",
        group="Run",
    )
    compare_to: str = _option(
        "",
        "Compare with an earlier run on the same data: the newest complete one with this label or "
        "git branch, or a run's folder or name. Gates may name it: ndcg@10>=main-0.01.",
        metavar="LABEL|BRANCH|RUN",
        label="Compare with an earlier run",
        placeholder="none",
        on_resume="free",
        group="Usual options",
    )
    allow_first_run: bool = _option(
        False,
        "If no run matches --compare-to yet, go on without it: gates that name it are not checked, "
        "and a line says so. For a CI job that has not run on the main branch yet.",
        label="Go on without an earlier run",
        on_resume="free",
        needs="compare_to",
        group="Usual options",
    )
    note: str = _option(
        "",
        "A sentence to keep with the run, for those who read it later.",
        metavar="TEXT",
        label="Note",
        placeholder="none",
        group="Run",
    )


def parse_tags(tags: Iterable[str]) -> dict[str, str]:
    """`KEY=VALUE` each, by key. Raises `UsageError` for one without a key, or given twice."""
    found: dict[str, str] = {}
    for text in tags:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key:
            raise UsageError(f"tag {text!r} is not KEY=VALUE; write, for example: chunks=512")
        if key in found:
            raise UsageError(
                f"tag {key!r} is given twice, as {found[key]!r} and {value!r}; keep one of them"
            )
        found[key] = value
    return found


def check_labels(settings: LabelSettings) -> None:
    """Raise `UsageError` for a label or tag that could not be found again."""
    parse_tags(settings.tags)
    for name, text in (("label", settings.label), *(("tag", each) for each in settings.tags)):
        if len(text) > _MAX_LENGTH or not text.isprintable():
            raise UsageError(
                f"{name} {text[:40]!r} must be one line of at most {_MAX_LENGTH} characters; "
                "longer texts go into --note"
            )
