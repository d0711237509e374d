"""`assay ground-truth --nuggets`: key facts of each question, drawn, exported and imported."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.answer.passages import EXTRACTIVE
from assay.cli.console import say, show, warn
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.answer.nuggets.drawing import NuggetDrawer, Supported
    from assay.answer.nuggets.generation import NuggetResult, NuggetTask
    from assay.answer.nuggets.nugget_file import QuestionNuggets
    from assay.answer.providers.provider import LLMProvider

NUGGETS_FILE = Path("nuggets.jsonl")
_NAMED = 5


async def draw_nuggets(
    task: "NuggetTask", spec: str, max_cost: float | None, out: Path, resume: bool
) -> dict[str, Any]:
    """Draw nuggets with the provider that `spec` names, and summarize."""
    from assay.answer.nuggets.drawing import ExtractDrawer, ModelDrawer
    from assay.answer.nuggets.generation import generate_nuggets
    from assay.answer.providers.opening import open_provider
    from assay.cli.console import progress_bar

    async def generate(drawer: "NuggetDrawer") -> "NuggetResult":
        with progress_bar() as progress:
            return await generate_nuggets(task, drawer, out, resume=resume, progress=progress)

    if spec == EXTRACTIVE:
        return _summary(await generate(ExtractDrawer()), out, spec)
    async with open_provider(spec, max_cost=max_cost) as model:
        result = await generate(ModelDrawer(model, supported_by_words, _by_judge(model)))
        return _summary(result, out, model.name) | {"spending": asdict(model.spending)}


async def supported_by_words(text: str, sources: Sequence[str]) -> bool:
    """Whether the sources hold the words and numbers of a text, and do not deny it."""
    from assay.measure.answers.lexical import unsupported

    return not unsupported(text, sources)


def _by_judge(provider: "LLMProvider") -> "Supported":
    from assay.measure.answers.judge import Judge, Vote

    judge = Judge(provider)

    async def supported(text: str, sources: Sequence[str]) -> bool:
        """TRUE in both orders, as a verdict about an answer needs it."""
        votes = [await judge.supports(text, sources, vote) for vote in (0, 1)]
        return votes == [Vote.TRUE, Vote.TRUE]

    return supported


def export_table(path: Path, table: Path) -> dict[str, Any]:
    """Write the nuggets of a file as a table."""
    from assay.answer.nuggets.nugget_file import read_nuggets
    from assay.answer.nuggets.nugget_table import write_table

    _require_csv(table)
    questions = read_nuggets(path)
    write_table(table, questions)
    return {"out": str(table), **_counts(questions)}


def import_table(path: Path, table: Path) -> dict[str, Any]:
    """Put the changes of an edited table into the file that it was exported from."""
    from assay.answer.nuggets.nugget_file import read_nuggets, write_nuggets
    from assay.answer.nuggets.nugget_table import read_edits

    _require_csv(table)
    edited = read_edits(table, read_nuggets(path))
    write_nuggets(path, edited)
    return {"out": str(path), **_counts(edited)}


def _require_csv(table: Path) -> None:
    if table.suffix.lower() != ".csv":
        raise UsageError(f"a table of nuggets is a .csv file, got {table.name!r}")


def _summary(result: "NuggetResult", out: Path, provider: str) -> dict[str, Any]:
    for why in dict.fromkeys(result.left_out.values()):
        ids = [query_id for query_id, reason in result.left_out.items() if reason == why]
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        warn(f"without nuggets: {', '.join(ids[:_NAMED])}{more}: {why}")
    return {
        "out": str(out),
        "provider": provider,
        "drawn": result.drawn,
        "kept": result.kept,
        **_counts(result.questions),
        "left_out": dict(result.left_out),
        "rejected": {each.name.lower(): n for each, n in result.rejected.items() if n},
    }


def _counts(questions: "Sequence[QuestionNuggets]") -> dict[str, Any]:
    nuggets = [nugget for question in questions for nugget in question.nuggets]
    makers = sorted({each.by.value for each in nuggets})
    return {
        "questions": sum(bool(each.nuggets) for each in questions),
        "nuggets": len(nuggets),
        "vital": sum(each.vital for each in nuggets),
        "by": {maker: sum(each.by == maker for each in nuggets) for maker in makers},
    }


def show_nuggets(summary: Mapping[str, Any]) -> None:
    """The summary for people."""
    from assay.answer.nuggets.drawing import EXTRACT_NOTE, NuggetRejection
    from assay.report.console import facts_table
    from assay.report.numbers import count

    facts: list[tuple[str, str]] = []
    for name in ("provider", "drawn", "kept", "questions", "nuggets", "vital"):
        if name in summary:
            value = summary[name]
            facts.append((name, count(value) if isinstance(value, int) else str(value)))
    facts.append(("made by", ", ".join(f"{who} {count(n)}" for who, n in summary["by"].items())))
    if summary.get("left_out"):
        facts.append(("left out", count(len(summary["left_out"]))))
    for name, number in summary.get("rejected", {}).items():
        facts.append(("rejected", f"{count(number)}: {NuggetRejection[name.upper()]}"))
    show(facts_table([*facts, ("result", summary["out"])]))
    if summary.get("provider") == EXTRACTIVE:
        say(EXTRACT_NOTE)
