"""`assay ground-truth` and `assay data questions`: references and questions, by a model."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import click

from assay.cli.console import progress_bar, warn
from assay.cli.options import MaxCostOption, SplitOption, choose_dataset, require_used
from assay.cli.verb import Result, argument, option, switch
from assay.data.load import KNOWN
from assay.errors import DataError, UsageError
from assay.labels.questions import (
    CANDIDATES_PER_QUESTION,
    ModelQuestionWriter,
    QuestionChecks,
    Rejection,
    WrittenQuestions,
    files_left_out,
    is_dataset,
    read_source_documents,
    require_free,
    save_questions,
    write_questions,
)
from assay.labels.reference_writing import (
    EXTRACT_NOTE,
    ExtractWriter,
    GenerationResult,
    GenerationTask,
    ModelExtractor,
    ModelWriter,
    NuggetRejection,
    ReferenceWriter,
    SentenceExtractor,
    choose_queries,
    generate_references,
)
from assay.llm.passages import EXTRACTIVE
from assay.llm.provider_kinds import PROVIDER_FORMS
from assay.llm.providers.opening import open_provider
from assay.net.json import JsonObject
from assay.report.console import facts_table
from assay.report.numbers import count, counted

if TYPE_CHECKING:
    from rich.table import Table

    from assay.data.dataset import Document
    from assay.llm.providers.provider import LLMProvider, Spending

_FILE = Path("ground_truth.json")
_NUGGETS_FILE = Path("nuggets.jsonl")
_NAMED = 5
_Made = TypeVar("_Made")


def ground_truth(
    context: click.Context,
    dataset: Annotated[
        str,
        argument("NAME|PATH", "nfcorpus, notes, or the path of a BEIR folder or zip."),
    ],
    split: SplitOption = "test",
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
    nuggets: Annotated[
        bool,
        switch(
            "--nuggets",
            "Extract nuggets instead: key facts of each query's judged documents.",
        ),
    ] = False,
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
        option(
            "How many documents to use for one query: 3 to 5, default 5; with --nuggets up to "
            "50, default 10.",
            metavar="N",
            min=1,
            max=50,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "Where to write the result. Default: ground_truth.json; with --nuggets, nuggets.jsonl.",
            metavar="FILE",
        ),
    ] = None,
    resume: Annotated[
        bool, switch("--resume", "Keep the answers of an existing file and add the missing ones.")
    ] = False,
    without_text: Annotated[
        bool,
        switch(
            "--without-text",
            "Write hashes instead of the data set's text, for data that may "
            "not be redistributed. Extracts only.",
        ),
    ] = False,
    max_cost: MaxCostOption = None,
) -> Result:
    """Write reference answers or nuggets.

    An answer is written from the 3 to 5 most relevant documents of its question and stored with its
    provenance. Continue an interrupted run with --resume.
    """
    ids = [text.strip() for text in queries.split(",") if text.strip()] if queries else []
    if ids and num_queries is not None:
        raise UsageError("give --queries or --num-queries, not both")
    if nuggets:
        require_used(context, ("without_text",), "with --nuggets; leave it out")
    path = out or (_NUGGETS_FILE if nuggets else _FILE)
    task = _task(dataset, split, ids, num_queries, seed, documents or (10 if nuggets else 5))
    summary = _write(task, provider, max_cost, path, resume, not without_text, nuggets=nuggets)
    extracted = "nuggets" in summary and summary["provider"] == EXTRACTIVE
    return Result(summary, [_summary_table(summary)], notes=[EXTRACT_NOTE] if extracted else [])


def _task(
    name: str,
    split: str,
    ids: Sequence[str],
    number: int | None,
    seed: int,
    documents: int,
) -> GenerationTask:
    try:
        data = choose_dataset(name)
    except DataError as error:
        path = Path(name).expanduser()
        if name in KNOWN or not path.exists() or is_dataset(path):
            raise
        raise UsageError(
            f"{error}. To write questions about documents that have none, use: assay data questions"
        ) from None
    return GenerationTask(data, split, choose_queries(data, split, ids, number, seed), documents)


def _write(
    task: GenerationTask,
    spec: str,
    max_cost: float | None,
    out: Path,
    resume: bool,
    text: bool,
    *,
    nuggets: bool,
) -> JsonObject:
    async def write(model: "LLMProvider | None") -> tuple[str, GenerationResult]:
        writer: ReferenceWriter
        if model is None:
            writer = SentenceExtractor() if nuggets else ExtractWriter()
        else:
            writer = ModelExtractor(model) if nuggets else ModelWriter(model)
        with progress_bar() as progress:
            made = await generate_references(
                task, writer, out, resume=resume, text=text, progress=progress
            )
        return spec if model is None else model.name, made

    (provider, made), spending = with_model(spec, max_cost, write)
    _warn_left_out("nuggets" if nuggets else "a reference answer", made.left_out)
    summary: JsonObject = {"out": str(out), "provider": provider}
    if nuggets:
        summary |= _count_nuggets(made)
    else:
        if made.cut:
            warn(f"truncated at the token limit: {', '.join(made.cut)}")
        summary |= {"written": made.written, "kept": made.kept, "cut": made.cut}
    return {**summary, "left_out": made.left_out, **spending_json(spending)}


def _count_nuggets(made: GenerationResult) -> JsonObject:
    facts = [fact for reference in made.references for fact in reference.facts]
    makers = [fact.by.value for fact in facts]
    return {
        "drawn": made.written,
        "kept": made.kept,
        "questions": sum(bool(reference.facts) for reference in made.references),
        "nuggets": len(facts),
        "vital": sum(fact.vital for fact in facts),
        "by": {maker: makers.count(maker) for maker in sorted(set(makers))},
        "rejected": {reason.name.lower(): number for reason, number in made.rejected.items()},
    }


def _warn_left_out(what: str, left_out: Mapping[str, str]) -> None:
    """Which questions are without `what`, by the reason."""
    for why in dict.fromkeys(left_out.values()):
        ids = [query_id for query_id, reason in left_out.items() if reason == why]
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        warn(f"without {what}: {', '.join(ids[:_NAMED])}{more}: {why}")


def _summary_table(summary: JsonObject) -> "Table":
    """The summary for people: its numbers, and what was rejected with the reason."""
    facts = [("provider", str(summary["provider"]))]
    facts += [(name, count(n)) for name, n in summary.items() if isinstance(n, int)]
    if makers := summary.get("by"):
        facts.append(("made by", ", ".join(f"{who} {count(n)}" for who, n in makers.items())))
    if left_out := summary["left_out"]:
        facts.append(("left out", count(len(left_out))))
    for name, number in summary.get("rejected", {}).items():
        facts.append(("rejected", f"{count(number)}: {NuggetRejection[name.upper()]}"))
    return facts_table([*facts, ("result", str(summary["out"]))])


def questions(
    source: Annotated[
        str,
        argument(
            "DOCUMENTS",
            "What to ask about: a folder of .md, .txt and .html files, a corpus.jsonl, a BEIR "
            "folder or zip, nfcorpus or notes.",
        ),
    ],
    out: Annotated[
        Path,
        option(
            "Where to write the data set: a new folder in BEIR format, with the documents; or "
            "FILE.jsonl, a table for a service that has the documents itself.",
            "ASSAY_QUESTIONS_OUT",
            "DIR|FILE.jsonl",
        ),
    ] = Path("questions"),
    number: Annotated[
        int,
        option(
            "How many questions, one about each document.",
            "ASSAY_COUNT",
            "N",
            "--num-queries",
            min=1,
        ),
    ] = 100,
    seed: Annotated[int, option("Random seed of the questions.", "ASSAY_SEED", "S", min=0)] = 42,
    provider: Annotated[
        str | None,
        option(f"The model that writes them, {PROVIDER_FORMS}.", "RAG_EVAL_PROVIDER", "SPEC"),
    ] = None,
    max_cost: MaxCostOption = None,
) -> Result:
    """Have a model write questions and answers about documents.

    Every answer is checked to be in its document, and not to be known without it; provenance is
    kept. Replies are cached: run the same command again to continue after an interruption.
    """
    if provider in (None, EXTRACTIVE):
        raise UsageError(
            "questions are written by a model: add --provider, such as --provider openai:MODEL"
        )
    folder = out.expanduser()
    require_free(folder)
    checks = QuestionChecks(*_documents(source))

    async def make(model: "LLMProvider | None") -> JsonObject:
        assert model is not None
        with progress_bar() as progress:
            made = await write_questions(
                checks, ModelQuestionWriter(model), number, seed=seed, progress=progress
            )
        if 0 < len(made.questions) < number:
            warn(_too_few(made, number))
        return save_questions(made, checks, folder)

    summary, spending = with_model(provider or "", max_cost, make)
    value = {"out": str(folder), **summary, **spending_json(spending)}
    return Result(
        value, [_questions_table(summary, folder)], notes=_questions_notes(summary, folder)
    )


def with_model(
    spec: str,
    max_cost: float | None,
    work: "Callable[[LLMProvider | None], Awaitable[_Made]]",
) -> "tuple[_Made, Spending | None]":
    """What `work` returns for the model that `spec` names, and what that cost.

    `work` gets None for `extractive`, which is not a model and costs nothing.
    """

    async def run() -> "tuple[_Made, Spending | None]":
        if spec == EXTRACTIVE:
            return await work(None), None
        async with open_provider(spec, max_cost=max_cost) as model:
            return await work(model), model.spending

    return asyncio.run(run())


def spending_json(spending: "Spending | None") -> JsonObject:
    """The last entry of a summary; none if no model was asked."""
    return {} if spending is None else {"spending": spending.model_dump()}


def _too_few(made: WrittenQuestions, number: int) -> str:
    """Whether candidates were rejected or there were too few documents: the remedies differ."""
    reasons = []
    if rejected := sum(made.rejected.values()):
        reasons.append(f"{rejected} of {counted(made.drafted, 'candidate')} were rejected")
    if made.drafted < number * CANDIDATES_PER_QUESTION:
        documents = counted(made.drafted, "document")
        reasons.append(f"only {documents} had enough text, one question each")
    return f"{len(made.questions)} of {number} questions were made: {'; '.join(reasons)}"


def _documents(name: str) -> "tuple[Mapping[str, Document], list[str]]":
    """The documents, and the questions about them that are there already."""
    path = Path(name).expanduser()
    if name not in KNOWN and path.exists() and not is_dataset(path):
        if left := files_left_out(path):
            kinds = ", ".join(f"{number:,} {suffix}" for suffix, number in left.most_common())
            warn(f"{name}: only .md, .txt and .html files are read; left out: {kinds}")
        return read_source_documents(path), []
    data = choose_dataset(name)
    if not data.documents:
        raise UsageError(f"{name!r} has no documents, so there is nothing to ask about")
    return data.documents, [query.text for query in data.queries.values()]


def _questions_table(summary: JsonObject, out: Path) -> "Table":
    facts = [(name, summary[name]) for name in ("provider", "model")]
    facts += [(name, count(summary[name])) for name in ("questions", "drafted")]
    dropped = summary["dropped"].items()
    facts += [(f"dropped: {Rejection[why.upper()]}", count(number)) for why, number in dropped]
    return facts_table([*facts, ("result", str(out))])


def _questions_notes(summary: JsonObject, out: Path) -> Iterator[str]:
    yield summary["note"]
    if number := summary["ambiguous"]:
        words = counted(number, "question is", "questions are")
        yield f"{words} tagged ambiguous: BM25 ranks another document as high as the right one"
    yield f"evaluate on it with: assay eval TARGET --dataset {out}"
