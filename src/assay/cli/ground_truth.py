"""`assay ground-truth`: reference answers and nuggets."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.console import print_json, progress_bar, say, show, warn
from assay.cli.made_questions import spending_json, with_model
from assay.cli.options import (
    ArchiveOption,
    JsonOption,
    MaxCostOption,
    SplitOption,
    option,
    refuse_unused,
    switch,
)
from assay.errors import DataError, UsageError
from assay.llm.passages import EXTRACTIVE
from assay.llm.provider_kinds import PROVIDER_FORMS
from assay.net.json import JsonObject

if TYPE_CHECKING:
    from assay.labels.reference_writing import GenerationResult, GenerationTask, ReferenceWriter
    from assay.llm.providers.provider import LLMProvider


_FILE = Path("ground_truth.json")
_NUGGETS_FILE = Path("nuggets.jsonl")
_NAMED = 5


def ground_truth(
    context: typer.Context,
    dataset: Annotated[
        str,
        typer.Argument(
            help="nfcorpus, notes, or the path of a BEIR folder or zip.",
            metavar="NAME|PATH",
        ),
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
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write reference answers or nuggets.

    An answer is written from the 3 to 5 most relevant documents of its question and stored with its
    provenance. Continue an interrupted run with --resume.
    """
    ids = [each.strip() for each in queries.split(",") if each.strip()] if queries else []
    if ids and num_queries is not None:
        raise UsageError("give --queries or --num-queries, not both")
    if nuggets:
        refuse_unused(context, ("without_text",), "with --nuggets; leave it out")
    path = out or (_NUGGETS_FILE if nuggets else _FILE)
    number = documents or (10 if nuggets else 5)
    task = _task(dataset, archive, split, ids, num_queries, seed, number)
    summary = _write(task, provider, max_cost, path, resume, not without_text, nuggets=nuggets)
    if as_json:
        print_json(summary)
    else:
        _show(summary)


def _task(
    name: str,
    archive: Path | None,
    split: str,
    ids: Sequence[str],
    number: int | None,
    seed: int,
    documents: int,
) -> "GenerationTask":
    from assay.cli.dataset_and_judge import choose_dataset
    from assay.data.load import KNOWN
    from assay.labels.questions import is_dataset
    from assay.labels.reference_writing import GenerationTask, choose_queries

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


def _write(
    task: "GenerationTask",
    spec: str,
    max_cost: float | None,
    out: Path,
    resume: bool,
    text: bool,
    *,
    nuggets: bool,
) -> JsonObject:
    from assay.labels.reference_writing import (
        ExtractWriter,
        ModelExtractor,
        ModelWriter,
        SentenceExtractor,
        generate_references,
    )

    async def write(model: "LLMProvider | None") -> "tuple[str, GenerationResult]":
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


def _count_nuggets(made: "GenerationResult") -> JsonObject:
    facts = [fact for reference in made.references for fact in reference.facts]
    makers = [fact.by.value for fact in facts]
    return {
        "drawn": made.written,
        "kept": made.kept,
        "questions": sum(bool(each.facts) for each in made.references),
        "nuggets": len(facts),
        "vital": sum(fact.vital for fact in facts),
        "by": {maker: makers.count(maker) for maker in sorted(set(makers))},
        "rejected": {each.name.lower(): number for each, number in made.rejected.items()},
    }


def _warn_left_out(what: str, left_out: Mapping[str, str]) -> None:
    """Which questions are without `what`, by the reason."""
    for why in dict.fromkeys(left_out.values()):
        ids = [query_id for query_id, reason in left_out.items() if reason == why]
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        warn(f"without {what}: {', '.join(ids[:_NAMED])}{more}: {why}")


def _show(summary: JsonObject) -> None:
    """The summary for people: its numbers, and what was rejected with the reason."""
    from assay.labels.reference_writing import EXTRACT_NOTE, NuggetRejection
    from assay.report.console import facts_table
    from assay.report.numbers import count

    facts = [("provider", str(summary["provider"]))]
    facts += [(name, count(n)) for name, n in summary.items() if isinstance(n, int)]
    if makers := summary.get("by"):
        facts.append(("made by", ", ".join(f"{who} {count(n)}" for who, n in makers.items())))
    if left_out := summary["left_out"]:
        facts.append(("left out", count(len(left_out))))
    for name, number in summary.get("rejected", {}).items():
        facts.append(("rejected", f"{count(number)}: {NuggetRejection[name.upper()]}"))
    show(facts_table([*facts, ("result", str(summary["out"]))]))
    if "nuggets" in summary and summary["provider"] == EXTRACTIVE:
        say(EXTRACT_NOTE)
