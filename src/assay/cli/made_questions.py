"""`assay data questions`: a model writes questions about documents, each checked."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from assay.cli.console import print_json, progress_bar, say, show, warn
from assay.cli.options import ArchiveOption, JsonOption, MaxCostOption, option
from assay.errors import UsageError
from assay.llm.passages import EXTRACTIVE
from assay.llm.provider_kinds import PROVIDER_FORMS
from assay.net.json import JsonObject

if TYPE_CHECKING:
    from assay.data.dataset import Document
    from assay.labels.questions import WrittenQuestions
    from assay.llm.providers.provider import LLMProvider, Spending

_Made = TypeVar("_Made")


def questions(
    source: Annotated[
        str,
        typer.Argument(
            help="What to ask about: a folder of .md, .txt and .html files, a corpus.jsonl, a BEIR "
            "folder or zip, nfcorpus or notes.",
            metavar="DOCUMENTS",
            show_default=False,
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
    count: Annotated[
        int, option("How many questions, one about each document.", "ASSAY_COUNT", "N", min=1)
    ] = 100,
    seed: Annotated[int, option("Random seed of the questions.", "ASSAY_SEED", "S", min=0)] = 42,
    provider: Annotated[
        str | None,
        option(f"The model that writes them, {PROVIDER_FORMS}.", "RAG_EVAL_PROVIDER", "SPEC"),
    ] = None,
    max_cost: MaxCostOption = None,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a model write questions and answers about documents.

    Every answer is checked to be in its document, and not to be known without it; provenance is
    kept. Replies are cached: run the same command again to continue after an interruption.
    """
    from assay.labels.questions import (
        ModelQuestionWriter,
        QuestionChecks,
        require_free,
        save_questions,
        write_questions,
    )

    if provider in (None, EXTRACTIVE):
        raise UsageError(
            "questions are written by a model: add --provider, such as --provider openai:MODEL"
        )
    folder = out.expanduser()
    require_free(folder)
    checks = QuestionChecks(*_documents(source, archive))

    async def make(model: "LLMProvider | None") -> JsonObject:
        assert model is not None
        with progress_bar() as progress:
            made = await write_questions(
                checks, ModelQuestionWriter(model), count, seed=seed, progress=progress
            )
        if 0 < len(made.questions) < count:
            warn(_too_few(made, count))
        return save_questions(made, checks, folder)

    summary, spending = with_model(provider or "", max_cost, make)
    if as_json:
        print_json({"out": str(folder), **summary, **spending_json(spending)})
    else:
        _show(summary, folder)


def with_model(
    spec: str,
    max_cost: float | None,
    work: "Callable[[LLMProvider | None], Awaitable[_Made]]",
) -> "tuple[_Made, Spending | None]":
    """What `work` returns for the model that `spec` names, and what that cost.

    `work` gets None for `extractive`, which is not a model and costs nothing.
    """
    from assay.llm.providers.opening import open_provider

    async def run() -> "tuple[_Made, Spending | None]":
        if spec == EXTRACTIVE:
            return await work(None), None
        async with open_provider(spec, max_cost=max_cost) as model:
            return await work(model), model.spending

    return asyncio.run(run())


def spending_json(spending: "Spending | None") -> JsonObject:
    """The last entry of a summary; none if no model was asked."""
    return {} if spending is None else {"spending": spending.model_dump()}


def _too_few(made: "WrittenQuestions", number: int) -> str:
    """Whether candidates were rejected or there were too few documents: the remedies differ."""
    from assay.labels.questions import CANDIDATES_PER_QUESTION
    from assay.report.numbers import counted

    reasons = []
    if rejected := sum(made.rejected.values()):
        reasons.append(f"{rejected} of {counted(made.drafted, 'candidate')} were rejected")
    if made.drafted < number * CANDIDATES_PER_QUESTION:
        documents = counted(made.drafted, "document")
        reasons.append(f"only {documents} had enough text, one question each")
    return f"{len(made.questions)} of {number} questions were made: {'; '.join(reasons)}"


def _documents(name: str, archive: Path | None) -> "tuple[Mapping[str, Document], list[str]]":
    """The documents, and the questions about them that are there already."""
    from assay.cli.dataset_and_judge import choose_dataset
    from assay.data.load import KNOWN
    from assay.labels.questions import files_left_out, is_dataset, read_source_documents

    path = Path(name).expanduser()
    if name not in KNOWN and path.exists() and not is_dataset(path):
        if left := files_left_out(path):
            kinds = ", ".join(f"{number:,} {suffix}" for suffix, number in left.most_common())
            warn(f"{name}: only .md, .txt and .html files are read; left out: {kinds}")
        return read_source_documents(path), []
    data = choose_dataset(name, archive)
    if not data.documents:
        raise UsageError(f"{name!r} has no documents, so there is nothing to ask about")
    return data.documents, [query.text for query in data.queries.values()]


def _show(summary: JsonObject, out: Path) -> None:
    from assay.labels.questions import Rejection
    from assay.report.console import facts_table
    from assay.report.numbers import count, counted

    facts = [(name, summary[name]) for name in ("provider", "model")]
    facts += [(name, count(summary[name])) for name in ("questions", "drafted")]
    dropped = summary["dropped"].items()
    facts += [(f"dropped: {Rejection[why.upper()]}", count(number)) for why, number in dropped]
    show(facts_table([*facts, ("result", str(out))]))
    say(summary["note"])
    if number := summary["ambiguous"]:
        words = counted(number, "question is", "questions are")
        say(f"{words} tagged ambiguous: BM25 ranks another document as high as the right one")
    say(f"evaluate on it with: assay eval TARGET --dataset {out}")
