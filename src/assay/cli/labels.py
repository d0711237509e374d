"""`assay ground-truth`, `data questions` and `judge`: labels by models and by people."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from assay.answers.calibration import (
    MIN_KAPPA,
    MIN_LABELS,
    CalibrationRecord,
    LabeledRow,
    add_record,
    compare_with_labels,
    question_hash,
    read_labels,
)
from assay.answers.criteria import VOTES, rate_answer, read_criteria
from assay.answers.judge import TRUTH, Judge, Judgment, correctness_prompts, unreliable
from assay.cli.console import facts, progress_bar, warn
from assay.cli.options import (
    COLUMNS_OPTION,
    JUDGE_OPTION,
    MAX_COST_OPTION,
    RUNS_OPTION,
    SPLIT_OPTION,
    choose_dataset,
)
from assay.cli.verb import Result, argument, option, setting_option, switch
from assay.data.beir import require_new_folder
from assay.data.load import KNOWN, is_table
from assay.data.qrels import read_run
from assay.errors import UsageError
from assay.evaluation.answers.nuggets import PROMPT, SUPPORT, assign_by_judge
from assay.evaluation.gates import CORRECTNESS, NUGGETS
from assay.labels.model_grades import RELEVANT_FROM, GradingResult, grade_pool
from assay.labels.pool import (
    GRADES,
    MIN_GRADED,
    choose_pairs,
    grade_agreement,
    read_pool,
    write_pool,
)
from assay.labels.questions import (
    QuestionChecks,
    is_dataset,
    read_source_documents,
    save_questions,
    write_questions,
)
from assay.labels.reference_writing import (
    AnswerWriter,
    ModelExtractor,
    WritingResult,
    choose_queries,
    generate_references,
)
from assay.llm.passages import EXTRACTIVE
from assay.llm.prompt import load_prompt
from assay.llm.provider_kinds import PROVIDER_FORMS
from assay.llm.providers.opening import CachedProvider, open_provider
from assay.net.gather import gather_for
from assay.net.json import JsonObject
from assay.report.console import confusion_table
from assay.report.numbers import counted, difference, percent
from assay.run.config import JudgeSettings
from assay.run.folder import find_run, find_run_dataset

if TYPE_CHECKING:
    from assay.data.dataset import Dataset, Judgments

_NAMED = 5
_Made = TypeVar("_Made")

SOURCES_ARGUMENT = argument(
    "RUN", "Runs (folders or names), or TREC run files with --dataset; to grade, also a table."
)
DEPTH_OPTION = option(10, "How many documents of each ranking to take.", metavar="K", min=1)
SOURCE_DATASET_OPTION = option(
    None, "The data set. Default: that of the runs.", "ASSAY_DATASET", "NAME|PATH"
)
SOURCE_SPLIT_OPTION = option(
    None, "The split with people's judgments. Default: that of the runs.", metavar="NAME"
)


def ground_truth(
    dataset: str = argument("NAME|PATH", "nfcorpus, notes, or the path of a BEIR folder or zip."),
    split: str = SPLIT_OPTION,
    num_queries: int | None = option(
        None, "Draw this many queries. Default: all; on nfcorpus five.", "ASSAY_NUM_QUERIES", "N"
    ),
    nuggets: bool = switch("--nuggets", "Extract nuggets: key facts of judged documents."),
    seed: int = option(42, "Random seed of the sample.", "ASSAY_SEED", "S"),
    provider: str = option(
        EXTRACTIVE, f"The writer: {PROVIDER_FORMS}; or extractive.", "RAG_EVAL_PROVIDER", "SPEC"
    ),
    out: Path | None = option(
        None, "The file. Default: ground_truth.json; with --nuggets, nuggets.jsonl.", metavar="FILE"
    ),
    resume: bool = switch("--resume", "Add to an existing file what it lacks."),
    max_cost: float | None = MAX_COST_OPTION,
) -> Result:
    """Write reference answers or nuggets, from the most relevant documents of each question.

    After an interruption, repeat the command: replies of models are cached.
    """
    path = out or Path("nuggets.jsonl" if nuggets else "ground_truth.json")
    data = choose_dataset(dataset)
    queries = choose_queries(data, split, num_queries, seed)

    async def write(model: CachedProvider | None) -> WritingResult:
        writer = ModelExtractor(model) if nuggets and model else AnswerWriter(model)
        with progress_bar() as progress:
            return await generate_references(
                data, writer, path, queries=queries, split=split, resume=resume, progress=progress
            )

    if provider != EXTRACTIVE:
        made, asked = _with_model(provider, write, max_cost=max_cost)
    elif nuggets:
        raise UsageError("nuggets are extracted by a model: add --provider")
    else:
        made, asked = asyncio.run(write(None)), {}
    for query_id, why in islice(made.left_out.items(), _NAMED):
        warn(f"query {query_id!r} has no reference: {why}")
    value: JsonObject = {
        "out": str(path),
        "provider": asked.pop("model", provider),
        "written": made.written,
        "kept": made.kept,
        "left_out": made.left_out,
    }
    if nuggets:
        found = [fact for reference in made.references for fact in reference.facts]
        value |= {"nuggets": len(found), "vital": sum(fact.vital for fact in found)}
        value["rejected"] = {reason.name.lower(): n for reason, n in made.rejected.items()}
    return Result(value | asked, [facts(value, "left_out")])


def questions(
    source: str = argument("DOCUMENTS", "A folder of .md and .txt, a corpus.jsonl, or a data set."),
    out: Path = option(
        Path("questions"), "The new folder, in BEIR format.", "ASSAY_QUESTIONS_OUT", "DIR"
    ),
    number: int = option(
        100, "How many questions, one a document.", "ASSAY_COUNT", "N", "--num-queries", min=1
    ),
    seed: int = option(42, "Random seed of the questions.", "ASSAY_SEED", "S", min=0),
    provider: str | None = option(
        None, f"The model that writes them, {PROVIDER_FORMS}.", "RAG_EVAL_PROVIDER", "SPEC"
    ),
    max_cost: float | None = MAX_COST_OPTION,
) -> Result:
    """Have a model write questions and answers about documents.

    Every answer is checked to be in its document, and not to be known without it. After an
    interruption, repeat the command: replies of models are cached.
    """
    if provider in (None, EXTRACTIVE):
        raise UsageError(
            "questions are written by a model: add --provider, such as --provider openai:MODEL"
        )
    folder = out.expanduser()
    require_new_folder(folder)
    path, taken = Path(source).expanduser(), []
    if source not in KNOWN and path.exists() and not is_dataset(path):
        documents, left_out = read_source_documents(path)
        if left_out:
            warn(f"{source}: only .md and .txt files are read, {left_out:,} are left out")
    else:
        data = choose_dataset(source)
        data.require_documents("assay data questions")
        documents, taken = dict(data.documents), [each.text for each in data.queries.values()]
    checks = QuestionChecks(documents, taken)

    async def make(model: CachedProvider) -> JsonObject:
        with progress_bar() as progress:
            made = await write_questions(checks, model, number, seed=seed, progress=progress)
        if 0 < len(made.questions) < number:
            warn(
                f"{len(made.questions)} of {number} questions were made from "
                f"{counted(made.drafted, 'document')} with enough text; "
                f"{counted(made.rejected.total(), 'candidate')} rejected"
            )
        return save_questions(made, checks, folder)

    summary, asked = _with_model(provider, make, max_cost=max_cost)
    value = {"out": str(folder), **summary, "spending": asked["spending"]}
    notes = [summary["note"], f"evaluate on it with: assay eval TARGET --dataset {folder}"]
    return Result(value, [facts(value, "note", "created", "assay")], notes=notes)


def pool(
    sources: list[str] = SOURCES_ARGUMENT,
    out: Path = option(..., "The table to write, a .csv file.", None, "FILE", "--out"),
    top_k: int = DEPTH_OPTION,
    dataset: str | None = SOURCE_DATASET_OPTION,
    columns: list[str] | None = COLUMNS_OPTION,
    split: str | None = SOURCE_SPLIT_OPTION,
    runs: Path = RUNS_OPTION,
) -> Result:
    """Collect the unjudged documents of runs into a table to grade.

    People fill in the column label with grades from 0. The graded table is a data set.
    """
    if out.suffix.lower() != ".csv" or out.exists():
        raise UsageError(f"a pool is written to a new .csv file, got {str(out)!r}")
    rankings, data, judged = _read_sources(sources, dataset, split, runs, columns or ())
    pairs = choose_pairs(rankings, data, judged, depth=top_k, check=0, texts=False).pairs
    value = {"pool": None, "pairs": len(pairs), "queries": len({pair.query_id for pair in pairs})}
    if not pairs:
        none = "every document that these runs return is judged: there is nothing to grade"
        return Result(value, [], notes=[none])
    write_pool(out, pairs)
    notes = [f"fill in the column label, then use it as --dataset {out}"]
    if not data.documents:
        notes.append("the data set has no documents: the table has ids and no texts")
    return Result(value | {"pool": str(out)}, notes=notes)


def grade(
    sources: list[str] = SOURCES_ARGUMENT,
    judge: str | None = JUDGE_OPTION,
    judge_set: list[str] | None = setting_option(
        "judge_set", "votes (1), controls (5), timeout, concurrency and max_cost; see assay eval."
    ),
    top_k: int = DEPTH_OPTION,
    dataset: str | None = SOURCE_DATASET_OPTION,
    split: str | None = SOURCE_SPLIT_OPTION,
    columns: list[str] | None = COLUMNS_OPTION,
    runs: Path = RUNS_OPTION,
    out: Path = option(Path("grades.csv"), "The table; qrels go beside it.", metavar="FILE.csv"),
) -> Result:
    """Have a model grade unjudged passages of runs from 0 to 3.

    Writes a table, and qrels with people's judgments and, if they have none, the model's. Up to 50
    judged passages are graded too, for the agreement with people.
    """
    chosen = JudgeSettings.read(["votes=1", *(judge_set or ())], "judge_set")
    people: Judgments | None = None
    if len(sources) == 1 and is_table(sources[0]):
        passages = read_pool(Path(sources[0]))
    else:
        rankings, data, people = _read_sources(sources, dataset, split, runs, columns or ())
        passages = choose_pairs(rankings, data, people, depth=top_k)
    if not passages.pairs:
        raise UsageError(f"nothing to grade: the first {top_k} documents are all judged")

    async def ask(model: CachedProvider) -> GradingResult:
        with progress_bar() as progress:
            how = {"votes": chosen.votes, "controls": chosen.controls}
            return await grade_pool(model, passages, out, **how, people=people, progress=progress)

    result, asked = _with_model(judge, ask, **_limits(chosen))
    if result.doubt:
        notes = [f"not graded: {result.doubt}"]
        return Result({"doubt": result.doubt}, [], exit_code=3, notes=notes)
    return _graded(result, asked, out)


def _graded(result: GradingResult, asked: JsonObject, out: Path) -> Result:
    grades = [each["model_grade"] for each in result.records]
    value = {
        "judged_by": asked["model"],
        "graded": len(grades),
        "unreadable": result.unreadable,
        "unsteady": result.unsteady,
        "grades": {str(each): grades.count(each) for each in GRADES},
        "agreement": None,
        "out": str(out),
        "qrels": str(out.with_suffix(".qrels")),
        "spending": asked["spending"],
    }
    text: list[Any] = [facts(value, "agreement")]
    notes = [f"these grades are model-made ({asked['model']}), not by people"]
    graded = [r for r in result.records if r["label"] is not None]
    labels = [(r["label"], r["model_grade"]) for r in graded]
    if len(labels) < MIN_GRADED:
        people = counted(len(labels), "label")
        notes.append(f"warning: only {people} of people: the agreement says little")
    if labels:
        agreement = grade_agreement([label for label, _ in labels], [each for _, each in labels])
        value["agreement"] = asdict(agreement)
        about = f"agreement with people, relevant from grade {RELEVANT_FROM}:"
        text += ["", about, facts(asdict(agreement), "confusion")]
        text += ["", confusion_table(agreement.confusion, "model")]
    return Result(value, text, notes=notes)


def _read_sources(
    sources: Sequence[str],
    dataset: str | None,
    split: str | None,
    runs: Path,
    columns: Sequence[str],
) -> "tuple[list[Mapping[str, Sequence[str]]], Dataset, Judgments]":
    """What runs returned, the data set that they are about, and people's judgments of it."""
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
    return list(rankings.values()), data, data.judgments.get(split or "test", {})


def calibrate(
    labels: Path = argument(
        "LABELS.jsonl",
        "JSON lines: question, answer, reference, label (true or false, by a person; without it, "
        "the share of right answers is estimated).",
    ),
    judge: str | None = JUDGE_OPTION,
    judge_set: list[str] | None = setting_option("judge_set"),
    criterion: Path | None = option(
        None, "Calibrate this criterion (.md): label is a level.", None, "FILE", "--criteria"
    ),
    nuggets: bool = switch("--nuggets", "Calibrate nuggets: label is support, partial or none."),
    out: Path | None = option(None, "Add the result to this file of calibrations."),
) -> Result:
    """Measure how well a judge agrees with people. Prints accuracy, kappa and flip rate."""
    if criterion is not None and nuggets:
        raise UsageError("give --criteria or --nuggets, not both")
    chosen = JudgeSettings.read(judge_set or (), "judge_set")
    # An even number: half of the votes have the reference first, as models prefer a position.
    subject = _subject(criterion, nuggets, chosen.votes + chosen.votes % 2)
    rows = read_labels(labels, subject.levels, subject.needs)
    labeled = [row for row in rows if row.label is not None]

    async def ask(provider: CachedProvider) -> list[Judgment]:
        work = partial(subject.ask, Judge(provider, subject.votes))
        with progress_bar() as progress:
            return await gather_for(rows, work, "judging", progress)

    judgments, about = _with_model(judge, ask, **_limits(chosen))
    prompts = {each.partition("@")[0]: each for each in subject.prompts}
    asked = {"provider": about["model"], "votes": subject.votes, "prompts": prompts}
    asked["spending"] = about["spending"]
    pairs = list(zip(rows, judgments, strict=True))
    result = compare_with_labels(
        [row.label for row in rows if row.label is not None],
        [judgment for row, judgment in pairs if row.label is not None],
        [judgment for row, judgment in pairs if row.label is None],
        subject.value,
    )
    if out is not None:
        record = CalibrationRecord(
            kind=subject.kind,
            judge=asked["provider"],
            votes=subject.votes,
            prompts=tuple(subject.prompts),
            labelled=len(labeled),
            agreement=result.accuracy.mean,
            kappa=result.kappa,
            kappa_low=result.kappa_low,
            bias=result.bias,
            questions=dict(Counter(question_hash(row.question) for row in labeled)),
            created=datetime.now(UTC).date().isoformat(),
        )
        add_record(out, record)
    value = {"kind": subject.kind, "judge": asked, **asdict(result)}
    value["unreliable"] = unreliable(judgments, max_flips=chosen.max_flips)
    shown = value | {
        "flip_rate": percent(result.flip_rate),
        "bias": f"{difference(result.bias)}, judge above people",
        "enough_for_a_gate": (result.kappa_low or 0.0) >= MIN_KAPPA,
    }
    means = ("labels_mean", "judged_mean", "uncorrected", "corrected")
    hidden = ("kind", "judge", "confusion", "unreliable", *means)
    text = [facts(shown, *hidden), "", confusion_table(result.confusion), ""]
    text.append(facts({name: shown[name] for name in means}))
    return Result(value, text, notes=_calibration_notes(value))


def _calibration_notes(value: Mapping[str, Any]) -> Iterator[str]:
    if value["labelled"] < MIN_LABELS:
        few = f"below {MIN_LABELS} the interval is not reliable"
        yield f"warning: only {value['labelled']} labels: {few}"
    if votes := value["unparseable_votes"]:
        yield f"warning: {votes} votes were not one of the allowed words; choose another model"
    if doubt := value["unreliable"]:
        yield f"warning: assay eval would not accept this judge: {doubt}"


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is calibrated: its levels, how the judge is asked about a row, and by which prompts."""

    kind: str
    levels: tuple[str, ...]
    needs: str  # the field that a row needs
    ask: Callable[[Judge, LabeledRow], Coroutine[Any, Any, Judgment]]
    prompts: tuple[str, ...]
    votes: int
    value: Callable[[Judgment], float | None] = lambda judgment: judgment.value


def _subject(criterion: Path | None, nuggets: bool, votes: int) -> _Subject:
    async def compare(judge: Judge, row: LabeledRow) -> Judgment:
        return await judge.correctness(row.question, row.answer, row.reference)

    async def assign(judge: Judge, row: LabeledRow) -> Judgment:
        return (await assign_by_judge(judge, row.question, row.answer, [row.nugget]))[0]

    async def rate(judge: Judge, row: LabeledRow) -> Judgment:
        return await rate_answer(judge, rated, row.question, row.answer, row.sources)

    def credit(judgment: Judgment) -> float | None:
        return None if judgment.worst is None else SUPPORT.index(judgment.worst) / 2

    if nuggets:
        prompt = load_prompt(PROMPT).id
        return _Subject(NUGGETS, SUPPORT, "nugget", assign, (prompt,), votes, credit)
    if criterion is None:
        prompts = correctness_prompts(votes)
        return _Subject(CORRECTNESS, TRUTH, "reference", compare, prompts, votes)
    rated, *more = read_criteria(criterion)
    if more:
        raise UsageError(f"--criteria takes one criterion here, {criterion} has {len(more) + 1}")
    return _Subject(rated.metric, rated.levels, "", rate, rated.prompts, VOTES)


def _with_model(
    spec: str | None, work: Callable[[CachedProvider], Awaitable[_Made]], **rules: Any
) -> tuple[_Made, JsonObject]:
    """What `work` returns for the model that `spec` names; the model's name and spending."""

    async def run() -> tuple[_Made, JsonObject]:
        async with open_provider(spec, **rules) as model:
            made = await work(model)
            return made, {"model": model.name, "spending": model.spending.model_dump()}

    return asyncio.run(run())


def _limits(how: JudgeSettings) -> JsonObject:
    return {"max_cost": how.max_cost, "timeout": how.timeout, "concurrency": how.concurrency}
