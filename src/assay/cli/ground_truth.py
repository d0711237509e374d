"""`assay ground-truth`: reference answers, nuggets, or new questions from documents."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.answer.passages import EXTRACTIVE
from assay.answer.provider_kinds import PROVIDER_FORMS
from assay.cli.console import print_json, say, show, warn
from assay.cli.options import ArchiveOption, MaxCostOption, option
from assay.errors import DataError, UsageError

if TYPE_CHECKING:
    from assay.answer.ground_truth.generation import GenerationResult, GenerationTask
    from assay.answer.ground_truth.nugget_extraction import NuggetExtractor, Supported
    from assay.answer.ground_truth.nugget_file import QuestionNuggets
    from assay.answer.ground_truth.nugget_generation import NuggetResult
    from assay.answer.providers.provider import LLMProvider


_FILE = Path("ground_truth.json")
_NUGGETS_FILE = Path("nuggets.jsonl")
_NAMED = 5


def ground_truth(
    dataset: Annotated[
        str,
        typer.Argument(
            help="nfcorpus, notes, or the path of a BEIR folder or zip; with --questions also a "
            "corpus.jsonl, or a folder of .md, .txt and .html files.",
            metavar="DATASET|PATH",
        ),
    ],
    split: Annotated[str, option("Which judgments to use.", "ASSAY_SPLIT", "NAME")] = "test",
    queries: Annotated[
        str | None,
        option(
            "The queries to answer. Default: all judged queries; on nfcorpus the five "
            "queries of the RAG tests.",
            metavar="ID,ID",
        ),
    ] = None,
    num_queries: Annotated[
        int | None, option("Draw this many queries at random instead.", "ASSAY_NUM_QUERIES", "N")
    ] = None,
    questions: Annotated[
        int | None,
        option(
            "Write this many new questions from the documents instead, as assay data questions "
            "--kinds single-hop does.",
            metavar="N",
        ),
    ] = None,
    nuggets: Annotated[
        bool,
        typer.Option(
            "--nuggets",
            help="Draw nuggets instead: key facts, vital or okay, of the judged documents of each "
            "query.",
        ),
    ] = False,
    export: Annotated[
        Path | None,
        option("With --nuggets: write those of --out as a table to edit.", metavar="FILE.csv"),
    ] = None,
    import_: Annotated[
        Path | None,
        typer.Option(
            "--import",
            help="With --nuggets: put the changes of an edited table into --out.",
            metavar="FILE.csv",
        ),
    ] = None,
    seed: Annotated[int, option("Random seed of the sample.", "ASSAY_SEED", "S")] = 42,
    provider: Annotated[
        str,
        option(
            f"The model that writes: {PROVIDER_FORMS}; or extractive, which quotes the documents "
            "and uses no model.",
            "RAG_EVAL_PROVIDER",
            "SPEC",
        ),
    ] = EXTRACTIVE,
    documents: Annotated[
        int | None,
        typer.Option(
            help="How many documents to use for one query: 3 to 5, default 5; with --nuggets up to "
            "50, default 10.",
            min=1,
            max=50,
            metavar="N",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "Where to write the result. Default: ground_truth.json; with --questions, the folder "
            "questions; with --nuggets, nuggets.jsonl.",
            metavar="FILE|DIR",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Keep the answers of an existing file and add the missing ones."
        ),
    ] = False,
    without_text: Annotated[
        bool,
        typer.Option(
            "--without-text",
            help="Write hashes instead of the data set's text, for data that may "
            "not be redistributed. Extracts only.",
        ),
    ] = False,
    max_cost: MaxCostOption = None,
    archive: ArchiveOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Write reference answers, nuggets or new questions.

    An answer is written from the 3 to 5 most relevant documents of its question and stored with its
    provenance. An interrupted run can be continued: pass --resume for answers and nuggets; for
    --questions, run the same command again, since every model reply is cached.
    """
    if not nuggets and (export or import_):
        raise UsageError("--export and --import are for --nuggets; add it")
    ids = [each.strip() for each in queries.split(",") if each.strip()] if queries else []
    if ids and num_queries is not None:
        raise UsageError("give --queries or --num-queries, not both")
    if nuggets:
        if questions is not None or without_text:
            other = "--without-text" if without_text else "--questions"
            raise UsageError(f"--nuggets draws facts for existing queries; {other} is not for it")
        summary = _nuggets(
            lambda: _task(dataset, archive, split, ids, num_queries, seed, 5),
            (provider, max_cost, documents),
            out,
            resume,
            (export, import_),
        )
    elif questions is None:
        task = _task(dataset, archive, split, ids, num_queries, seed, documents or 5)
        writing = _write_answers(task, provider, max_cost, out or _FILE, resume, not without_text)
        summary = asyncio.run(writing)
    else:
        _refuse_with_questions(queries, num_queries, resume, without_text)
        summary = _questions(dataset, archive, questions, seed, provider, max_cost, out)
    if as_json:
        print_json(summary)
    elif nuggets:
        _show_nuggets(summary)
    elif questions is not None:
        from assay.cli.data_questions import show_made_questions

        show_made_questions(summary)
    else:
        _show(summary)


def _questions(
    source: str,
    archive: Path | None,
    number: int,
    seed: int,
    spec: str,
    max_cost: float | None,
    out: Path | None,
) -> dict[str, Any]:
    """The earlier spelling of `assay data questions --kinds single-hop`."""
    from assay.answer.questions.made_questions import QuestionKind
    from assay.cli.data_questions import FOLDER, write_made_questions

    say("note: assay data questions makes these and other kinds of questions")
    kinds = (QuestionKind.SINGLE_HOP,)
    return write_made_questions(source, archive, kinds, number, seed, spec, max_cost, out or FOLDER)


def _nuggets(
    task: "Callable[[], GenerationTask]",
    drawing: tuple[str, float | None, int | None],
    out: Path | None,
    resume: bool,
    tables: tuple[Path | None, Path | None],
) -> dict[str, Any]:
    from assay.answer.ground_truth.nugget_generation import MAX_DOCUMENTS

    path = out or _NUGGETS_FILE
    exported, imported = tables
    if exported and imported:
        raise UsageError("give --export or --import, not both")
    if table := exported or imported:
        return _edit_table(path, table, import_edits=imported is not None)
    chosen, (spec, max_cost, documents) = task(), drawing
    wanted = replace(chosen, documents=documents or MAX_DOCUMENTS)
    return asyncio.run(_draw_nuggets(wanted, spec, max_cost, path, resume))


def _refuse_with_questions(*options: Any) -> None:
    names = ("--queries", "--num-queries", "--resume", "--without-text")
    given = [name for name, value in zip(names, options, strict=True) if value]
    if given:
        raise UsageError(
            f"--questions writes new questions; {given[0]} applies only to existing ones"
        )


def _task(
    name: str,
    archive: Path | None,
    split: str,
    ids: Sequence[str],
    number: int | None,
    seed: int,
    documents: int,
) -> "GenerationTask":
    from assay.answer.ground_truth.generation import GenerationTask, choose_queries
    from assay.answer.questions.source_documents import is_dataset
    from assay.cli.eval import choose_dataset
    from assay.data.load import KNOWN

    try:
        data = choose_dataset(name, archive)
    except DataError as error:
        path = Path(name).expanduser()
        if name in KNOWN or not path.exists() or is_dataset(path):
            raise
        raise UsageError(
            f"{error}. To write questions about documents that have none, use: assay data questions"
        ) from None
    return GenerationTask(data, split, choose_queries(data, split, ids, number, seed), documents)


async def _write_answers(
    task: "GenerationTask", spec: str, max_cost: float | None, out: Path, resume: bool, text: bool
) -> dict[str, Any]:
    from assay.answer.ground_truth.generation import (
        ExtractWriter,
        ModelWriter,
        generate_ground_truth,
    )
    from assay.answer.providers.opening import open_provider
    from assay.cli.console import progress_bar

    async def generate(writer: Any) -> "GenerationResult":
        with progress_bar() as progress:
            return await generate_ground_truth(
                task, writer, out, resume=resume, text=text, progress=progress
            )

    if spec == EXTRACTIVE:
        return _answers_summary(await generate(ExtractWriter()), out, spec)
    async with open_provider(spec, max_cost=max_cost) as model:
        made = await generate(ModelWriter(model))
        return _answers_summary(made, out, model.name) | {"spending": asdict(model.spending)}


def _warn_left_out(what: str, left_out: Mapping[str, str]) -> None:
    """Which questions are without `what`, by the reason."""
    for why in dict.fromkeys(left_out.values()):
        ids = [query_id for query_id, reason in left_out.items() if reason == why]
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        warn(f"without {what}: {', '.join(ids[:_NAMED])}{more}: {why}")


def _answers_summary(made: "GenerationResult", out: Path, provider: str) -> dict[str, Any]:
    _warn_left_out("a reference answer", made.left_out)
    if made.cut:
        warn(f"truncated at the token limit: {', '.join(made.cut)}")
    return {
        "out": str(out),
        "provider": provider,
        "written": made.written,
        "kept": made.kept,
        "left_out": dict(made.left_out),
        "cut": made.cut,
    }


def _show(summary: Mapping[str, Any]) -> None:
    from assay.report.console import facts_table
    from assay.report.numbers import count

    facts = [("provider", summary["provider"])]
    facts += [(name, count(summary[name])) for name in ("written", "kept")]
    if summary["left_out"]:
        facts.append(("left out", count(len(summary["left_out"]))))
    show(facts_table([*facts, ("result", summary["out"])]))


async def _draw_nuggets(
    task: "GenerationTask", spec: str, max_cost: float | None, out: Path, resume: bool
) -> dict[str, Any]:
    """Draw nuggets with the provider that `spec` names, and summarize."""
    from assay.answer.ground_truth.nugget_extraction import ModelExtractor, SentenceExtractor
    from assay.answer.ground_truth.nugget_generation import generate_nuggets
    from assay.answer.providers.opening import open_provider
    from assay.cli.console import progress_bar

    async def generate(extractor: "NuggetExtractor") -> "NuggetResult":
        with progress_bar() as progress:
            return await generate_nuggets(task, extractor, out, resume=resume, progress=progress)

    if spec == EXTRACTIVE:
        return _nuggets_summary(await generate(SentenceExtractor()), out, spec)
    async with open_provider(spec, max_cost=max_cost) as model:
        result = await generate(ModelExtractor(model, supported_by_words, _by_judge(model)))
        return _nuggets_summary(result, out, model.name) | {"spending": asdict(model.spending)}


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


def _edit_table(path: Path, table: Path, *, import_edits: bool) -> dict[str, Any]:
    """Write the nuggets of a file as a table, or put the changes of that table into the file."""
    from assay.answer.ground_truth.nugget_file import (
        read_edits,
        read_nuggets,
        write_nuggets,
        write_table,
    )

    if table.suffix.lower() != ".csv":
        raise UsageError(f"a table of nuggets is a .csv file, got {table.name!r}")
    questions = read_nuggets(path)
    if import_edits:
        questions = read_edits(table, questions)
        write_nuggets(path, questions)
    else:
        write_table(table, questions)
    return {"out": str(path if import_edits else table), **_counts(questions)}


def _nuggets_summary(result: "NuggetResult", out: Path, provider: str) -> dict[str, Any]:
    _warn_left_out("nuggets", result.left_out)
    return {
        "out": str(out),
        "provider": provider,
        "drawn": result.extracted,
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


def _show_nuggets(summary: Mapping[str, Any]) -> None:
    """The summary for people."""
    from assay.answer.ground_truth.nugget_extraction import EXTRACT_NOTE, NuggetRejection
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
