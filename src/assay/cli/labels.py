"""`assay ground-truth`, `data questions`, `judge grade`, `judge pool`: labels that are missing."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from assay.cli.console import progress_bar, warn
from assay.cli.options import (
    ColumnsOption,
    JudgeOption,
    MaxCostOption,
    RunsOption,
    SplitOption,
    choose_dataset,
)
from assay.cli.verb import Result, argument, option, setting_option, switch
from assay.data import read_run
from assay.data.beir import require_new_folder
from assay.data.load import KNOWN
from assay.errors import UsageError
from assay.labels.model_grades import RELEVANT_FROM, GradingResult, grade_pool, qrels_beside
from assay.labels.pool import (
    GRADES,
    MIN_GRADED,
    GradeAgreement,
    GradingPool,
    choose_pairs,
    grade_agreement,
    read_pool,
    write_pool,
)
from assay.labels.questions import (
    CANDIDATES_PER_QUESTION,
    QuestionChecks,
    Rejection,
    WrittenQuestions,
    is_dataset,
    read_source_documents,
    save_questions,
    write_questions,
)
from assay.labels.reference_writing import (
    ExtractWriter,
    ModelExtractor,
    ModelWriter,
    NuggetRejection,
    ReferenceWriter,
    WritingResult,
    choose_queries,
    generate_references,
)
from assay.llm.passages import EXTRACTIVE
from assay.llm.provider_kinds import PROVIDER_FORMS
from assay.llm.providers.opening import CachedProvider, open_provider
from assay.net.json import JsonObject
from assay.report.console import confusion_table, facts_table
from assay.report.numbers import count, counted, figure, with_interval
from assay.run.config import JudgeSettings
from assay.run.folder import find_run, find_run_dataset

if TYPE_CHECKING:
    from rich.console import RenderableType

    from assay.data.dataset import Dataset, Document

_NAMED = 5
_POOLS = (".csv", ".tsv", ".jsonl", ".parquet")
_Made = TypeVar("_Made")

SourcesArgument = Annotated[
    list[str],
    argument(
        "RUN",
        "Runs (folders or names), or TREC run files with --dataset; to grade, also a table of "
        "query, doc_id, passage and, if a person gave it, label.",
    ),
]
DepthOption = Annotated[
    int, option("How many documents of each ranking to take.", metavar="K", min=1)
]
SourceDatasetOption = Annotated[
    str | None,
    option("The data set. Default: that of the runs.", "ASSAY_DATASET", "NAME|PATH"),
]
SourceSplitOption = Annotated[
    str | None,
    option("The split with people's judgments. Default: that of the runs.", metavar="NAME"),
]


def ground_truth(
    dataset: Annotated[
        str,
        argument("NAME|PATH", "nfcorpus, notes, or the path of a BEIR folder or zip."),
    ],
    split: SplitOption = "test",
    num_queries: Annotated[
        int | None,
        option(
            "Draw this many queries at random. Default: all judged queries; on nfcorpus the five "
            "of the RAG tests.",
            "ASSAY_NUM_QUERIES",
            "N",
        ),
    ] = None,
    nuggets: Annotated[
        bool,
        switch("--nuggets", "Extract nuggets: key facts of each query's judged documents."),
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
    out: Annotated[
        Path | None,
        option(
            "Where to write the result. Default: ground_truth.json; with --nuggets, nuggets.jsonl.",
            metavar="FILE",
        ),
    ] = None,
    resume: Annotated[
        bool, switch("--resume", "Keep the records of an existing file and add what is missing.")
    ] = False,
    max_cost: MaxCostOption = None,
) -> Result:
    """Write reference answers or nuggets.

    An answer is written from the 3 to 5 most relevant documents of its question and stored with its
    provenance. After an interruption, repeat the command: replies of models are cached.
    """
    path = out or Path("nuggets.jsonl" if nuggets else "ground_truth.json")
    data = choose_dataset(dataset)
    queries = choose_queries(data, split, num_queries, seed)

    async def write(model: CachedProvider | None) -> WritingResult:
        writer: ReferenceWriter
        if model is None:
            if nuggets:
                raise UsageError("nuggets are extracted by a model: add --provider")
            writer = ExtractWriter()
        else:
            writer = ModelExtractor(model) if nuggets else ModelWriter(model)
        with progress_bar() as progress:
            return await generate_references(
                data, writer, path, queries=queries, split=split, resume=resume, progress=progress
            )

    made, asked = _with_model(provider, max_cost, write)
    for why in dict.fromkeys(made.left_out.values()):
        ids = [query_id for query_id, reason in made.left_out.items() if reason == why]
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        warn(f"without a reference: {', '.join(ids[:_NAMED])}{more}: {why}")
    if made.cut:
        warn(f"truncated at the token limit: {', '.join(made.cut)}")
    facts = [fact for reference in made.references for fact in reference.facts]
    value: JsonObject = {
        "out": str(path),
        "provider": asked.get("model", provider),
        "written": made.written,
        "kept": made.kept,
        "cut": made.cut,
        "left_out": made.left_out,
    }
    if nuggets:
        rejected = {reason.name.lower(): number for reason, number in made.rejected.items()}
        vital = sum(fact.vital for fact in facts)
        value |= {"nuggets": len(facts), "vital": vital, "rejected": rejected}
    return Result(value | _spending(asked), [facts_table(_reference_facts(value))])


def _reference_facts(value: JsonObject) -> Iterator[tuple[str, str]]:
    yield "provider", str(value["provider"])
    for name, number in value.items():
        if isinstance(number, int):
            yield name, count(number)
    if left_out := value["left_out"]:
        yield "left out", count(len(left_out))
    for name, number in value.get("rejected", {}).items():
        yield "rejected", f"{count(number)}: {NuggetRejection[name.upper()]}"
    yield "result", str(value["out"])


def _with_model(
    spec: str, max_cost: float | None, work: Callable[[CachedProvider | None], Awaitable[_Made]]
) -> tuple[_Made, JsonObject]:
    """What `work` returns for the model that `spec` names, None for `extractive`; who was asked."""

    async def run() -> tuple[_Made, JsonObject]:
        if spec == EXTRACTIVE:
            return await work(None), {}
        async with open_provider(spec, max_cost=max_cost) as model:
            made = await work(model)
            return made, {"model": model.name, "spending": model.spending.model_dump()}

    return asyncio.run(run())


def _spending(asked: JsonObject) -> JsonObject:
    return {"spending": asked["spending"]} if asked else {}


def questions(
    source: Annotated[
        str,
        argument(
            "DOCUMENTS",
            "What to ask about: a folder of .md and .txt files, a corpus.jsonl, a BEIR folder or "
            "zip, nfcorpus or notes.",
        ),
    ],
    out: Annotated[
        Path,
        option(
            "Where to write the data set: a new folder in BEIR format, with the documents and a "
            "table questions.jsonl.",
            "ASSAY_QUESTIONS_OUT",
            "DIR",
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
    require_new_folder(folder)
    checks = QuestionChecks(*_documents(source))

    async def make(model: CachedProvider | None) -> JsonObject:
        assert model is not None
        with progress_bar() as progress:
            made = await write_questions(checks, model, number, seed=seed, progress=progress)
        if 0 < len(made.questions) < number:
            warn(_too_few(made, number))
        return save_questions(made, checks, folder)

    summary, asked = _with_model(provider or "", max_cost, make)
    facts = [(name, str(summary[name])) for name in ("provider", "model")]
    facts += [(name, count(summary[name])) for name in ("questions", "drafted")]
    for why, dropped in summary["dropped"].items():
        facts.append((f"dropped: {Rejection[why.upper()]}", count(dropped)))
    notes = [summary["note"], f"evaluate on it with: assay eval TARGET --dataset {folder}"]
    value = {"out": str(folder), **summary, **_spending(asked)}
    return Result(value, [facts_table([*facts, ("result", str(folder))])], notes=notes)


def _documents(name: str) -> "tuple[Mapping[str, Document], list[str]]":
    """The documents, and the questions about them that are there already."""
    path = Path(name).expanduser()
    if name not in KNOWN and path.exists() and not is_dataset(path):
        documents, left_out = read_source_documents(path)
        if left_out:
            kinds = ", ".join(f"{number:,} {suffix}" for suffix, number in left_out.most_common())
            warn(f"{name}: only .md and .txt files are read; left out: {kinds}")
        return documents, []
    data = choose_dataset(name)
    data.require_documents("assay data questions")
    return data.documents, [query.text for query in data.queries.values()]


def _too_few(made: WrittenQuestions, number: int) -> str:
    """Whether candidates were rejected or there were too few documents: the remedies differ."""
    reasons = []
    if rejected := sum(made.rejected.values()):
        reasons.append(f"{rejected} of {counted(made.drafted, 'candidate')} were rejected")
    if made.drafted < number * CANDIDATES_PER_QUESTION:
        documents = counted(made.drafted, "document")
        reasons.append(f"only {documents} had enough text, one question each")
    return f"{len(made.questions)} of {number} questions were made: {'; '.join(reasons)}"


def pool(
    sources: SourcesArgument,
    out: Annotated[Path, option("The table to write, a .csv file.", None, "FILE", "--out")],
    top_k: DepthOption = 10,
    dataset: SourceDatasetOption = None,
    columns: ColumnsOption = None,
    split: SourceSplitOption = None,
    runs: RunsOption = Path("runs"),
) -> Result:
    """Collect the unjudged documents of runs into a table to grade.

    The table has a row for each query and document with an empty column label: people fill it in
    with grades from 0, or a model with `assay judge grade`. The graded table is a data set.
    """
    if out.suffix.lower() != ".csv" or out.exists():
        raise UsageError(f"a pool is written to a new .csv file, got {str(out)!r}")
    found = _read_sources(sources, dataset, split, runs, columns or ())
    pairs = found.choose(top_k, check=0, texts=False).pairs
    queries = len({pair.query_id for pair in pairs})
    if not pairs:
        none = "every document that these runs return is judged: there is nothing to grade"
        return Result({"pool": None, "pairs": 0, "queries": 0}, notes=[none])
    write_pool(out, pairs)
    text = (
        f"{out}: {len(pairs):,} unjudged documents of {queries:,} queries; fill in the column "
        f"label, then use it as --dataset {out}"
    )
    notes = []
    if not found.dataset.documents:
        notes = ["the data set has no documents: the table has ids and no texts"]
    return Result({"pool": str(out), "pairs": len(pairs), "queries": queries}, [text], notes=notes)


def grade(
    sources: SourcesArgument,
    judge: JudgeOption = None,
    judge_set: Annotated[
        list[str] | None,
        setting_option(
            "judge_set",
            "votes (1; every second one shows the passage first), controls (5; passages of other "
            "queries to test the model with first), timeout and concurrency.",
        ),
    ] = None,
    max_cost: MaxCostOption = None,
    top_k: DepthOption = 10,
    dataset: SourceDatasetOption = None,
    split: SourceSplitOption = None,
    columns: ColumnsOption = None,
    runs: RunsOption = Path("runs"),
    out: Annotated[
        Path, option("Where to write the grades; qrels go beside it.", metavar="FILE.csv")
    ] = Path("grades.csv"),
) -> Result:
    """Have a model grade unjudged passages of runs from 0 to 3.

    Writes a table with provenance, and qrels with people's judgments and, if they have none, the
    model's. Of the judged passages up to 50 are graded too, and the agreement is printed. Replies
    are cached: run the same command again to continue after an interruption.
    """
    chosen = JudgeSettings.read(["votes=1", *(judge_set or ())], "judge_set")
    people = None
    if Path(sources[0]).suffix.lower() in _POOLS and Path(sources[0]).is_file():
        if len(sources) > 1:
            raise UsageError("give one table of passages, or runs; not both and not several tables")
        passages = read_pool(Path(sources[0]))
    else:
        found = _read_sources(sources, dataset, split, runs, columns or ())
        passages, people = found.choose(top_k), found.dataset.judgments.get(found.split)
    if not passages.pairs:
        raise UsageError(f"nothing to grade: the first {top_k} documents are all judged")

    async def work() -> tuple[GradingResult, str, JsonObject]:
        opened = open_provider(
            judge, max_cost=max_cost, timeout=chosen.timeout, concurrency=chosen.concurrency
        )
        async with opened as provider:
            with progress_bar() as progress:
                result = await grade_pool(
                    provider,
                    passages,
                    out,
                    votes=chosen.votes,
                    controls=chosen.controls,
                    people=people,
                    progress=progress,
                )
            return result, provider.name, provider.spending.model_dump()

    result, model, spending = asyncio.run(work())
    if result.doubt:
        return Result({"doubt": result.doubt}, exit_code=3, notes=[f"not graded: {result.doubt}"])
    grades = [each.model_grade for each in result.records]
    both = [(r.label, r.model_grade) for r in result.records if r.label is not None]
    agreement = None
    if both:
        agreement = grade_agreement([label for label, _ in both], [each for _, each in both])
    value = {
        "judged_by": model,
        "graded": len(grades),
        "unreadable": result.unreadable,
        "unsteady": result.unsteady,
        "grades": {str(each): grades.count(each) for each in GRADES},
        "agreement": None if agreement is None else asdict(agreement),
        "out": str(out),
        "spending": spending,
    }
    text: list[RenderableType] = [facts_table(_grading_facts(value, result, agreement, out))]
    if agreement is not None:
        text += ["", confusion_table(agreement.confusion, "model")]
    notes = []
    if result.unreadable:
        notes.append(f"warning: {result.unreadable} passages have no grade: no reply was 0 to 3")
    if agreement is None:
        notes.append("warning: no passage has a person's label: the quality is not known")
    elif agreement.labelled < MIN_GRADED:
        notes.append(
            f"warning: only {agreement.labelled} labels: below {MIN_GRADED} the agreement says "
            "little"
        )
    return Result(value, text, notes=notes)


def _grading_facts(
    value: JsonObject, result: GradingResult, agreement: GradeAgreement | None, out: Path
) -> Iterator[tuple[str, str]]:
    yield "judged by", f"{value['judged_by']}: model-made, not by people"
    yield "graded", count(value["graded"])
    yield "grades", ", ".join(f"{grade}: {count(n)}" for grade, n in value["grades"].items())
    if result.controls:
        yield "controls", f"{result.controls_right} of {result.controls} right"
    if agreement is not None:
        same = agreement.agreement
        yield "labels of people", count(agreement.labelled)
        agreed = with_interval(same.mean, same.low, same.high)
        yield "agree", f"{agreed}, relevant from grade {RELEVANT_FROM}"
        yield "Cohen's kappa", figure(agreement.kappa)
        if agreement.weighted_kappa is not None:
            yield "kappa, quadratic weights", figure(agreement.weighted_kappa)
    yield "result", f"{out}, {qrels_beside(out)}"


class _Sources(NamedTuple):
    """What runs returned, and the data set that they are about."""

    rankings: Sequence[Mapping[str, Sequence[str]]]
    dataset: "Dataset"
    split: str

    def choose(self, depth: int, **more: Any) -> GradingPool:
        people = self.dataset.judgments.get(self.split, {})
        return choose_pairs(self.rankings, self.dataset, people, depth=depth, **more)


def _read_sources(
    sources: Sequence[str],
    dataset: str | None,
    split: str | None,
    runs: Path,
    columns: Sequence[str],
) -> _Sources:
    rankings: dict[str, Mapping[str, Sequence[str]]] = {}
    data = None if dataset is None else choose_dataset(dataset, columns)
    for source in sources:
        if Path(source).is_file():
            rankings[source] = read_run(Path(source))
            continue
        folder = find_run(source, runs)
        report = folder.read_report()
        rankings[folder.name] = {row.query_id: row.retrieved_docs for row in folder.read_rows()}
        split = split or report.config.split
        if data is None:
            data, why = find_run_dataset(report)
            if data is None:
                raise UsageError(f"the texts of run {folder.name!r} are missing: {why}")
    if data is None:
        raise UsageError("a run file has no texts; add --dataset NAME|PATH")
    return _Sources(list(rankings.values()), data, split or "test")
