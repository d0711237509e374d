"""`assay ground-truth`: reference answers for a data set, or new questions from documents."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.answer.passages import EXTRACTIVE
from assay.answer.provider_kinds import PROVIDER_FORMS
from assay.cli.console import print_json, say, show, warn
from assay.errors import DataError, UsageError

if TYPE_CHECKING:
    from assay.answer.ground_truth.generation import GenerationResult, GenerationTask
    from assay.answer.providers.cached import CachedProvider

_FILE = Path("ground_truth.json")
_NAMED = 5


def _option(help: str, variable: str | None = None, metavar: str | None = None) -> Any:
    return typer.Option(help=help, envvar=variable, metavar=metavar)


def ground_truth(
    dataset: Annotated[
        str,
        typer.Argument(
            help="nfcorpus, notes, or the path of a BEIR folder or zip; with --questions also a "
            "corpus.jsonl, or a folder of .md and .txt files.",
            metavar="DATASET|PATH",
        ),
    ],
    split: Annotated[str, _option("Which judgments to use.", "ASSAY_SPLIT", "NAME")] = "test",
    queries: Annotated[
        str | None,
        _option(
            "The queries to answer. Default: all judged queries; on nfcorpus the five "
            "queries of the RAG tests.",
            metavar="ID,ID",
        ),
    ] = None,
    num_queries: Annotated[
        int | None, _option("Draw this many queries at random instead.", "ASSAY_NUM_QUERIES", "N")
    ] = None,
    questions: Annotated[
        int | None,
        _option(
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
        _option("With --nuggets: write those of --out as a table to edit.", metavar="FILE.csv"),
    ] = None,
    import_: Annotated[
        Path | None,
        typer.Option(
            "--import",
            help="With --nuggets: put the changes of an edited table into --out.",
            metavar="FILE.csv",
        ),
    ] = None,
    seed: Annotated[int, _option("Random seed of the sample.", "ASSAY_SEED", "S")] = 42,
    provider: Annotated[
        str,
        _option(
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
        _option(
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
    max_cost: Annotated[
        float | None,
        typer.Option(
            help="Stop before spending more than this many US dollars.",
            envvar="ASSAY_MAX_COST",
            min=0.0,
            metavar="USD",
        ),
    ] = None,
    archive: Annotated[
        Path | None,
        _option(
            "A local nfcorpus.zip to use instead of downloading it. [env var: NFCORPUS_ARCHIVE]",
            metavar="FILE",
        ),
    ] = None,
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
        from assay.cli.nuggets import show_nuggets

        show_nuggets(summary)
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
    from assay.answer.questions.kinds import QuestionKind
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
    from assay.answer.nuggets.generation import MAX_DOCUMENTS, NuggetTask
    from assay.cli.nuggets import NUGGETS_FILE, draw_nuggets, export_table, import_table

    path = out or NUGGETS_FILE
    exported, imported = tables
    if exported or imported:
        if exported and imported:
            raise UsageError("give --export or --import, not both")
        return import_table(path, imported) if imported else export_table(path, exported or path)
    chosen, (spec, max_cost, documents) = task(), drawing
    wanted = NuggetTask(chosen.dataset, chosen.split, chosen.queries, documents or MAX_DOCUMENTS)
    return asyncio.run(draw_nuggets(wanted, spec, max_cost, path, resume))


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
    from assay.answer.ground_truth.documents import is_dataset
    from assay.answer.ground_truth.generation import GenerationTask, choose_queries
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
    from assay.answer.ground_truth.generation import generate_ground_truth
    from assay.answer.ground_truth.writers import ExtractWriter, ModelWriter
    from assay.cli.console import progress_bar

    async def generate(writer: Any) -> "GenerationResult":
        with progress_bar() as progress:
            return await generate_ground_truth(
                task, writer, out, resume=resume, text=text, progress=progress
            )

    if spec == EXTRACTIVE:
        return _answers_summary(await generate(ExtractWriter()), out, spec)
    async with _opened(spec, max_cost) as model:
        made = await generate(ModelWriter(model))
        return _answers_summary(made, out, model.name) | {"spending": asdict(model.spending)}


def _opened(spec: str, max_cost: float | None) -> "CachedProvider":
    from assay.answer.providers.opening import open_provider

    return open_provider(spec, max_cost=max_cost)


def _answers_summary(made: "GenerationResult", out: Path, provider: str) -> dict[str, Any]:
    for why in dict.fromkeys(made.left_out.values()):
        ids = [query_id for query_id, reason in made.left_out.items() if reason == why]
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        warn(f"without a reference answer: {', '.join(ids[:_NAMED])}{more}: {why}")
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
    from rich.table import Table

    from assay.report.numbers import count

    table = Table.grid(padding=(0, 2, 0, 0))
    for name in ("provider", "written", "kept"):
        value = summary[name]
        table.add_row(name, count(value) if isinstance(value, int) else str(value))
    if summary["left_out"]:
        table.add_row("left out", count(len(summary["left_out"])))
    table.add_row("result", summary["out"])
    show(table)
