"""Questions from documents, made and written by `assay data questions` and `ground-truth`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from assay.cli.console import progress_bar, say, show, warn
from assay.llm.passages import EXTRACTIVE
from assay.net.json import JsonObject

if TYPE_CHECKING:
    from assay.data.dataset import Document
    from assay.labels.questions.made_questions import (
        MadeQuestions,
        QuestionKind,
        QuestionsSummary,
    )
    from assay.labels.questions.writers import QuestionWriter
    from assay.llm.providers.provider import LLMProvider, Spending

_Made = TypeVar("_Made")

FOLDER = Path("questions")

_NOTE = (
    "Made by templates from the documents' own words; no model and no person wrote or checked it."
)


@dataclass(frozen=True, slots=True)
class SavedQuestions:
    """Where questions were written, what they are, and what the model cost that wrote them."""

    out: Path
    summary: "QuestionsSummary"
    spending: "Spending | None"

    def to_json(self) -> JsonObject:
        """What `--json` prints."""
        return {"out": str(self.out), **self.summary.to_json(), **spending_json(self.spending)}


def write_made_questions(
    source: str,
    archive: Path | None,
    kinds: "Sequence[QuestionKind]",
    number: int,
    seed: int,
    spec: str,
    max_cost: float | None,
    out: Path,
) -> SavedQuestions:
    """Make and write the questions; the summary."""
    from assay.answers.lexical import states
    from assay.labels.questions.made_questions import check_output, write_questions
    from assay.labels.questions.making import make_questions

    check_output(out)
    documents, taken = _documents(source, archive)

    async def make(model: "LLMProvider | None") -> "QuestionsSummary":
        writers = _writers(model)
        with progress_bar() as progress:
            made = await make_questions(
                documents,
                kinds,
                number,
                writers=writers,
                states=states,
                seed=seed,
                taken=taken,
                progress=progress,
            )
        if 0 < len(made.questions) < number:
            warn(_too_few(made, kinds, number))
        return write_questions(made, documents, _origin(kinds, writers), out)

    summary, spending = with_model(spec, max_cost, make)
    return SavedQuestions(out, summary, spending)


def with_model(
    spec: str,
    max_cost: float | None,
    work: "Callable[[LLMProvider | None], Awaitable[_Made]]",
) -> "tuple[_Made, Spending | None]":
    """What `work` returns for the model that `spec` names, and what that cost.

    `work` gets None for `extractive`, which is no model and costs nothing.
    """
    from assay.llm.providers.opening import open_provider

    async def run() -> "tuple[_Made, Spending | None]":
        if spec == EXTRACTIVE:
            return await work(None), None
        async with open_provider(spec, max_cost=max_cost) as model:
            return await work(model), model.spending

    return asyncio.run(run())


def spending_json(spending: "Spending | None") -> JsonObject:
    """The last entry of a summary; none where no model was asked."""
    return {} if spending is None else {"spending": asdict(spending)}


def _writers(model: "LLMProvider | None") -> "dict[QuestionKind, QuestionWriter]":
    from assay.labels.questions.made_questions import QuestionKind
    from assay.labels.questions.writers import ClozeWriter, ModelQuestionWriter, RewordingWriter

    if model is None:
        return {QuestionKind.SINGLE_HOP: ClozeWriter()}
    return {
        QuestionKind.SINGLE_HOP: ModelQuestionWriter(model),
        QuestionKind.PARAPHRASED: RewordingWriter(model),
    }


def _origin(
    kinds: "Sequence[QuestionKind]", writers: "Mapping[QuestionKind, QuestionWriter]"
) -> dict[str, str]:
    """What the set says about its questions; by templates alone, no writer has a word in it."""
    origins = [writers[kind].origin for kind in kinds if kind in writers]
    if not origins:
        return {"provider": EXTRACTIVE, "model": "none", "prompt": "none", "note": _NOTE}
    note = origins[-1]["note"]
    others = any(kind not in writers for kind in kinds)
    return {**origins[-1], "note": f"{note} {_NOTE}" if others else note}


def _too_few(made: "MadeQuestions", kinds: "Sequence[QuestionKind]", number: int) -> str:
    """Whether candidates were rejected or there were too few documents: the remedies differ."""
    from assay.labels.questions.making import CANDIDATES_PER_QUESTION
    from assay.report.numbers import counted

    reasons = []
    if rejected := sum(made.rejected.values()):
        reasons.append(f"{rejected} of {counted(made.drafted, 'candidate')} were rejected")
    few = [str(kind) for kind in kinds if made.count(kind) < number // len(kinds)]
    if len(kinds) > 1:
        reasons.append(f"the documents have no more for {', '.join(few) or 'these kinds'}")
    elif made.drafted < number * CANDIDATES_PER_QUESTION:
        documents = counted(made.drafted, "document")
        reasons.append(f"only {documents} had enough text, one question each")
    return f"{len(made.questions)} of {number} questions were made: {'; '.join(reasons)}"


def _documents(name: str, archive: Path | None) -> "tuple[Mapping[str, Document], list[str]]":
    """The documents, and the questions about them that are there already."""
    from assay.cli.dataset_and_judge import choose_dataset
    from assay.data.load import KNOWN
    from assay.labels.questions.source_documents import (
        files_left_out,
        is_dataset,
        read_source_documents,
    )

    path = Path(name).expanduser()
    if name not in KNOWN and path.exists() and not is_dataset(path):
        if left := files_left_out(path):
            kinds = ", ".join(f"{number:,} {suffix}" for suffix, number in left.most_common())
            warn(f"{name}: only .md, .txt and .html files are read; left out: {kinds}")
        return read_source_documents(path), []
    data = choose_dataset(name, archive)
    return data.documents, [query.text for query in data.queries.values()]


def show_made_questions(written: SavedQuestions) -> None:
    """The summary as a table, then what to keep in mind."""
    from assay.report.console import facts_table
    from assay.report.numbers import count, counted

    summary, out = written.summary, str(written.out)
    facts = [(name, summary.origin[name]) for name in ("provider", "model")]
    facts.append(("questions", count(summary.questions)))
    facts += [(f"  {kind}", count(number)) for kind, number in summary.kinds.items()]
    facts.append(("drafted", count(summary.drafted)))
    facts += [(f"dropped: {why}", count(number)) for why, number in summary.dropped.items()]
    show(facts_table([*facts, ("result", out)]))
    say(summary.origin["note"])
    if number := summary.ambiguous:
        words = counted(number, "question is", "questions are")
        say(
            f"{words} tagged ambiguous: BM25 ranks another document as high as the right one, so "
            "keyword search finds it by chance"
        )
    if not summary.from_memory_checked:
        say(
            "Not checked, because it needs a model: whether the questions can be answered without "
            "the documents."
        )
    say(f"evaluate on it with: assay eval TARGET --dataset {out}")
