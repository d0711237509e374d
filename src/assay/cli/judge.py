"""`assay judge grade` and `pool`: documents that nobody has judged, for a model or for people."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from assay.cli.console import progress_bar
from assay.cli.options import (
    ColumnsOption,
    JudgeOption,
    MaxCostOption,
    RunsOption,
    choose_dataset,
)
from assay.cli.verb import Result, argument, option, setting_option, switch
from assay.data import read_run
from assay.data.beir import write_new_beir
from assay.errors import UsageError
from assay.labels.model_grades import (
    GradingResult,
    RelevanceGrader,
    fill_judgments,
    grade_pool,
    qrels_beside,
)
from assay.labels.pool import (
    MIN_GRADED,
    GradeAgreement,
    GradingPool,
    choose_pairs,
    grade_agreement,
    read_pool,
    write_pool,
)
from assay.llm.providers.opening import open_provider
from assay.report.console import confusion_table, facts_table
from assay.report.numbers import count, figure, with_interval
from assay.run.config import JudgeSettings
from assay.run.folder import find_run, find_run_dataset

if TYPE_CHECKING:
    from rich.console import RenderableType

    from assay.data.dataset import Dataset

_POOLS = (".csv", ".tsv", ".jsonl", ".parquet")


def pool(
    sources: Annotated[
        list[str],
        argument("RUN", "Runs (folders or names), or TREC run files with --dataset."),
    ],
    out: Annotated[Path, option("The table to write, a .csv file.", None, "FILE", "--out")],
    depth: Annotated[
        int, option("How many documents of each ranking to take.", metavar="K", min=1)
    ] = 10,
    dataset: Annotated[
        str | None, option("The data set, where the runs do not name it.", metavar="NAME|PATH")
    ] = None,
    columns: ColumnsOption = None,
    split: Annotated[
        str | None, option("The split whose judged documents are left out.", metavar="NAME")
    ] = None,
    runs: RunsOption = Path("runs"),
) -> Result:
    """Collect the unjudged documents of runs into a table to grade.

    The table has a row for each query and document with an empty column label: people fill it in
    with grades from 0, or a model with `assay judge grade`. The graded table is a data set.
    """
    if out.suffix.lower() != ".csv":
        raise UsageError(f"a pool is written to a .csv file, got {out.name!r}")
    if out.exists():
        raise UsageError(f"{out} exists, perhaps with grades in it; choose another --out")
    found = read_sources(sources, dataset, split, runs, depth, 0, columns or (), texts=False)
    if not found.pool.pairs:
        none = "every document that these runs return is judged: there is nothing to grade"
        return Result({"pool": None, "pairs": 0, "queries": 0}, notes=[none])
    write_pool(out, found.pool.pairs)
    queries = len({pair.query_id for pair in found.pool.pairs})
    text = (
        f"{out}: {len(found.pool.pairs):,} unjudged documents of {queries:,} queries; fill in the "
        f"column label, then use it as --dataset {out}"
    )
    notes = []
    if found.dataset is not None and not found.dataset.documents:
        notes = ["the data set has no documents: the table has ids and no texts"]
    value = {"pool": str(out), "pairs": len(found.pool.pairs), "queries": queries}
    return Result(value, [text], notes=notes)


def grade(
    sources: Annotated[
        list[str],
        argument(
            "RUN|POOL.csv",
            "Runs (folders or names), TREC run files with --dataset, or one table of query, "
            "doc_id, passage and, where a person gave it, label.",
        ),
    ],
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
    depth: Annotated[
        int, option("How many documents of each ranking to grade.", metavar="K", min=1)
    ] = 10,
    check: Annotated[
        int,
        option(
            "How many passages that people have judged to grade too, for the agreement.",
            metavar="N",
            min=0,
        ),
    ] = 50,
    relevant_from: Annotated[
        int,
        option(
            "The lowest grade that counts as relevant; lower ones are written as 0. Passages "
            "of grade 1 are on the topic, but do not answer the query.",
            metavar="GRADE",
            min=1,
            max=3,
        ),
    ] = 2,
    dataset: Annotated[
        str | None,
        option(
            "The data set with the texts. Default: that of the runs.", "ASSAY_DATASET", "NAME|PATH"
        ),
    ] = None,
    split: Annotated[
        str | None,
        option("The split with people's judgments. Default: that of the runs.", metavar="NAME"),
    ] = None,
    columns: ColumnsOption = None,
    runs: RunsOption = Path("runs"),
    out: Annotated[
        Path, option("Where to write the grades; qrels go beside it.", metavar="FILE.csv")
    ] = Path("grades.csv"),
    dataset_out: Annotated[
        Path | None,
        option(
            "Also write the data set with the model's grades where people judged nothing.",
            metavar="DIR",
        ),
    ] = None,
    resume: Annotated[
        bool, switch("--resume", "Keep the grades of --out and add the missing ones.")
    ] = False,
) -> Result:
    """Have a model grade unjudged passages of runs from 0 to 3.

    Writes a table with provenance, and qrels whose second column names the model. Where people have
    judged some of the passages, the model's agreement with them is printed.
    """
    chosen = JudgeSettings.parse(["votes=1", *(judge_set or ())], "judge_set")
    found = read_sources(sources, dataset, split, runs, depth, check, columns or ())
    if not found.pool.pairs:
        raise UsageError(
            f"nothing to grade: the first {depth} documents are all judged, or have no text, and "
            "--check is 0"
        )

    async def work() -> tuple[GradingResult, str, dict[str, Any]]:
        opened = open_provider(
            judge, max_cost=max_cost, timeout=chosen.timeout, concurrency=chosen.concurrency
        )
        async with opened as provider:
            with progress_bar() as progress:
                result = await grade_pool(
                    RelevanceGrader(provider, chosen.votes),
                    found.pool,
                    out,
                    resume=resume,
                    relevant_from=relevant_from,
                    controls=chosen.controls,
                    progress=progress,
                )
            return result, provider.name, provider.spending.model_dump()

    result, model, spending = asyncio.run(work())
    if result.doubt:
        return Result({"doubt": result.doubt}, exit_code=3, notes=[f"not graded: {result.doubt}"])
    summary = _Summary(model, result, relevant_from)
    if dataset_out is not None:
        _write_dataset(found, result, dataset_out)
    value = {**summary.as_json(), "out": str(out), "spending": spending}
    notes = [f"warning: {message}" for message in summary.warnings()]
    return Result(value, summary.rendered(out), notes=notes)


@dataclass(frozen=True)
class GradingSources:
    """What is to be graded, and the data set that it comes from."""

    pool: GradingPool
    dataset: "Dataset | None" = None
    split: str = "test"


def read_sources(
    sources: Sequence[str],
    dataset: str | None,
    split: str | None,
    runs: Path,
    depth: int,
    check: int,
    columns: Sequence[str] = (),
    *,
    texts: bool = True,
) -> GradingSources:
    """The pool that runs, run files or a table of passages make, and where it comes from."""
    first = Path(sources[0])
    if first.suffix.lower() in _POOLS and first.is_file():
        if len(sources) > 1:
            raise UsageError("give one table of passages, or runs; not both and not several tables")
        return GradingSources(GradingPool(*read_pool(first)))
    rankings: dict[str, Mapping[str, Sequence[str]]] = {}
    data: Dataset | None = None
    if dataset is not None:
        data = choose_dataset(dataset, columns)
    for each in sources:
        if Path(each).is_file():
            rankings[each] = read_run(Path(each))
            continue
        folder = find_run(each, runs)
        report = folder.read_report()
        rankings[folder.name] = {row.query_id: row.retrieved_docs for row in folder.read_rows()}
        split = split or report.config.split
        if data is None:
            data, why = find_run_dataset(report)
            if data is None:
                raise UsageError(f"the texts of run {folder.name!r} are missing: {why}")
    if data is None:
        raise UsageError("a run file has no texts; add --dataset NAME|PATH")
    used = split or "test"
    people = data.judgments.get(used, {})
    found = list(rankings.values())
    pool = choose_pairs(found, data, people, depth=depth, check=check, texts=texts)
    return GradingSources(pool, data, used)


@dataclass(frozen=True)
class _Summary:
    model: str
    result: GradingResult
    relevant_from: int

    def agreement(self) -> GradeAgreement | None:
        both = [(r.label, r.model_grade) for r in self.result.records if r.label is not None]
        if not both:
            return None
        labels, grades = zip(*both, strict=True)
        return grade_agreement(labels, grades, self.relevant_from)

    @property
    def counts(self) -> dict[str, int]:
        grades = [each.model_grade for each in self.result.records]
        return {str(grade): grades.count(grade) for grade in range(4)}

    def as_json(self) -> dict[str, Any]:
        agreement = self.agreement()
        return {
            "judged_by": self.model,
            "graded": len(self.result.records),
            "kept": self.result.kept,
            "unreadable": self.result.unreadable,
            "unsteady": self.result.unsteady,
            "grades": self.counts,
            "agreement": None if agreement is None else asdict(agreement),
        }

    def rendered(self, out: Path) -> "Iterator[RenderableType]":
        agreement = self.agreement()
        yield facts_table(self._facts(out, agreement))
        if agreement is not None:
            yield from ("", confusion_table(agreement.confusion, "model"))

    def _facts(self, out: Path, agreement: GradeAgreement | None) -> Iterator[tuple[str, str]]:
        yield "judged by", f"{self.model}: model-made, not by people"
        kept = f", {count(self.result.kept)} of them before" if self.result.kept else ""
        yield "graded", f"{count(len(self.result.records))}{kept}"
        yield "grades", ", ".join(f"{grade}: {count(n)}" for grade, n in self.counts.items())
        if (controls := self.result.controls) is not None:
            yield "controls", f"{controls.different_right} of {controls.different} right"
        if agreement is not None:
            same = agreement.agreement
            yield "labels of people", count(agreement.labelled)
            agreed = with_interval(same.mean, same.low, same.high)
            yield "agree", f"{agreed}, relevant from grade {self.relevant_from}"
            yield "Cohen's kappa", figure(agreement.kappa)
            if agreement.weighted_kappa is not None:
                yield "kappa, quadratic weights", figure(agreement.weighted_kappa)
        yield "result", f"{out}, {qrels_beside(out)}"

    def warnings(self) -> Iterator[str]:
        if self.result.unreadable:
            number = self.result.unreadable
            yield f"{number} replies were none of 0, 1, 2 and 3: these passages have no grade"
        agreement = self.agreement()
        if agreement is None:
            yield "no passage has a person's label, so it is not known how good these grades are"
        elif agreement.labelled < MIN_GRADED:
            yield f"only {agreement.labelled} labels: below {MIN_GRADED} the agreement says little"


def _write_dataset(found: GradingSources, result: GradingResult, folder: Path) -> None:
    if found.dataset is None:
        raise UsageError("--dataset-out needs runs; the table of grades is itself a data set")
    people = found.dataset.judgments.get(found.split, {})
    filled, words = fill_judgments(people, result.records)
    judgments = {**found.dataset.judgments, found.split: filled}
    write_new_beir(replace(found.dataset, judgments=judgments, judged_by=words), folder)
