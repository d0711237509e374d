"""`assay data questions`: questions with expected documents and answers, made from documents."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.answer.passages import EXTRACTIVE
from assay.answer.provider_kinds import PROVIDER_FORMS
from assay.cli.console import print_json, say, show, warn
from assay.cli.options import ArchiveOption, MaxCostOption

if TYPE_CHECKING:
    from assay.answer.providers.provider import LLMProvider
    from assay.answer.questions.made_questions import MadeQuestions, QuestionKind
    from assay.answer.questions.writers import QuestionWriter
    from assay.data.dataset import Document

FOLDER = Path("questions")

_NOTE = (
    "Made by templates from the documents' own words; no model and no person wrote or checked it."
)


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
        typer.Option(
            help="Where to write the data set: a new folder in BEIR format, with the documents; or "
            "FILE.jsonl, a table for a service that has the documents itself.",
            envvar="ASSAY_QUESTIONS_OUT",
            metavar="DIR|FILE.jsonl",
        ),
    ] = FOLDER,
    count: Annotated[
        int,
        typer.Option(help="How many questions; kinds take turns.", min=1, metavar="N",
                     envvar="ASSAY_COUNT"),
    ] = 100,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            help="Which kinds, with commas between them: known-item, single-hop, multi-hop, "
            "comparison, temporal, unanswerable, and with --provider paraphrased. Default: all.",
            envvar="ASSAY_QUESTION_KINDS",
            metavar="KIND,KIND",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Random seed of the questions.", min=0, envvar="ASSAY_SEED",
                          metavar="S")
    ] = 42,
    provider: Annotated[
        str,
        typer.Option(
            help="The model that writes single-hop and paraphrased questions, "
            f"{PROVIDER_FORMS}; or extractive, which uses templates and no model.",
            envvar="RAG_EVAL_PROVIDER",
            metavar="SPEC",
        ),
    ] = EXTRACTIVE,
    max_cost: MaxCostOption = None,
    archive: ArchiveOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:  # fmt: skip
    """Make questions from documents, with answers.

    Every answer is checked to be in the documents, and for unanswerable questions not to be;
    provenance is kept. Known items (a title, a distinctive sentence) make a gate that needs no
    labels: see docs/questions.md.
    """
    from assay.answer.questions.made_questions import parse_question_kinds

    wanted = parse_question_kinds(kinds or (), model=provider != EXTRACTIVE)
    summary = write_made_questions(
        source, archive, wanted, count, seed, provider, max_cost, out.expanduser()
    )
    if as_json:
        print_json(summary)
    else:
        show_made_questions(summary)


def write_made_questions(
    source: str,
    archive: Path | None,
    kinds: "Sequence[QuestionKind]",
    number: int,
    seed: int,
    spec: str,
    max_cost: float | None,
    out: Path,
) -> dict[str, Any]:
    """Make and write the questions; the summary."""
    from assay.answer.questions.made_questions import check_output

    check_output(out)
    documents, taken = _documents(source, archive)

    async def make() -> dict[str, Any]:
        from assay.answer.providers.opening import open_provider

        if spec == EXTRACTIVE:
            return await _make(documents, taken, kinds, number, seed, None, out)
        async with open_provider(spec, max_cost=max_cost) as model:
            summary = await _make(documents, taken, kinds, number, seed, model, out)
            return summary | {"spending": asdict(model.spending)}

    return asyncio.run(make())


async def _make(
    documents: "Mapping[str, Document]",
    taken: Sequence[str],
    kinds: "Sequence[QuestionKind]",
    number: int,
    seed: int,
    model: "LLMProvider | None",
    out: Path,
) -> dict[str, Any]:
    from assay.answer.questions.made_questions import write_questions
    from assay.answer.questions.making import make_questions
    from assay.cli.console import progress_bar
    from assay.measure.answers.lexical import states

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
    return {"out": str(out), **write_questions(made, documents, _origin(kinds, writers), out)}


def _writers(model: "LLMProvider | None") -> "dict[QuestionKind, QuestionWriter]":
    from assay.answer.questions.made_questions import QuestionKind
    from assay.answer.questions.writers import ClozeWriter, ModelQuestionWriter, RewordingWriter

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
    from assay.answer.questions.making import CANDIDATES_PER_QUESTION
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
    from assay.answer.questions.source_documents import (
        files_left_out,
        is_dataset,
        read_source_documents,
    )
    from assay.cli.eval import choose_dataset
    from assay.data.load import KNOWN

    path = Path(name).expanduser()
    if name not in KNOWN and path.exists() and not is_dataset(path):
        if left := files_left_out(path):
            kinds = ", ".join(f"{number:,} {suffix}" for suffix, number in left.most_common())
            warn(f"{name}: only .md, .txt and .html files are read; left out: {kinds}")
        return read_source_documents(path), []
    data = choose_dataset(name, archive)
    return data.documents, [query.text for query in data.queries.values()]


def show_made_questions(summary: Mapping[str, Any]) -> None:
    """The summary as a table, then what to keep in mind."""
    from assay.answer.questions.made_questions import Rejection
    from assay.report.console import facts_table
    from assay.report.numbers import count, counted

    facts = [("provider", summary["provider"]), ("model", summary["model"])]
    facts.append(("questions", count(summary["questions"])))
    facts += [(f"  {kind}", count(number)) for kind, number in summary["kinds"].items()]
    facts.append(("drafted", count(summary["drafted"])))
    for name, dropped in summary["dropped"].items():
        facts.append((f"dropped: {Rejection[name.upper()]}", count(dropped)))
    show(facts_table([*facts, ("result", summary["out"])]))
    say(summary["note"])
    if number := summary["ambiguous"]:
        words = counted(number, "question is", "questions are")
        say(
            f"{words} tagged ambiguous: BM25 ranks another document as high as the right one, so "
            "keyword search finds it by chance"
        )
    if not summary["from_memory_checked"]:
        say(
            "Not checked, because it needs a model: whether the questions can be answered without "
            "the documents."
        )
    say(f"evaluate on it with: assay eval TARGET --dataset {summary['out']}")
