"""`assay data rekey`: carry labels over to documents that have new ids."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.console import print_json, say, show_unwrapped, warn
from assay.cli.progress import progress_bar
from assay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assay.data.dataset import Dataset, Document
    from assay.data.rekey import RekeyMatch, RekeyResult

_SHOWN = 5


def rekey(
    old: Annotated[
        str,
        typer.Argument(
            help="The data set with the labels, and the texts that they were given to.",
            metavar="OLD",
            show_default=False,
        ),
    ],
    new: Annotated[
        str,
        typer.Argument(
            help="The new documents: a data set, or a table, file or folder of documents.",
            metavar="NEW",
            show_default=False,
        ),
    ],
    matches: Annotated[
        Path,
        typer.Option(
            "--list", help="Where to write the proposals.", envvar="ASSAY_REKEY_LIST", metavar="CSV"
        ),
    ] = Path("rekey.csv"),
    accept: Annotated[
        Path | None,
        typer.Option(
            help="Carry over what this list accepts: the file that --list wrote, corrected.",
            metavar="CSV",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Carry over all proposals with at least this score, without a look.",
            min=0.5, max=1.0, metavar="SCORE", envvar="ASSAY_REKEY_THRESHOLD",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The new data set's folder, with --accept or --threshold.",
            envvar="ASSAY_DATA_OUT", metavar="DIR",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:  # fmt: skip
    """Carry labels over to documents with new ids, by their texts.

    Without --accept or --threshold it only writes the list of proposals, to be looked at.
    """
    from assay.data.rekey import carry_over, find_matches
    from assay.data.rekey_file import read_accepted, write_matches

    if accept is not None and threshold is not None:
        raise UsageError("proposals are accepted by --accept or by --threshold; omit one of them")
    decides = accept is not None or threshold is not None
    if decides and out is None:
        raise UsageError("add --out DIR, the folder of the new data set")
    if out is not None and not decides:
        raise UsageError(
            "nothing is carried over without a decision: add --accept CSV, the corrected list, or "
            "--threshold SCORE"
        )
    labels, documents = _load(old, new)
    if accept is not None:
        pairs = read_accepted(accept)
        _finish(carry_over(labels, documents, pairs), out, json)
        return
    found = find_matches(labels, documents)
    write_matches(matches, found)
    if threshold is None:
        _say_found(found, matches, json)
        return
    pairs = [(m.old_id, m.new_id) for m in found if m.new_id and m.score >= threshold]
    say(f"wrote {matches}: what was proposed, with both texts")
    _finish(carry_over(labels, documents, pairs), out, json)


def _load(old: str, new: str) -> "tuple[Dataset, Mapping[str, Document]]":
    from assay.data.load import load_dataset

    with progress_bar() as progress:
        labels = load_dataset(old, progress=progress)
        path = Path(new).expanduser()
        if path.exists() and not _is_dataset(path):
            from assay.data.trec_corpus import read_corpus

            return labels, read_corpus(path)
        dataset = load_dataset(new, progress=progress)
    dataset.require_documents("assay data rekey")
    return labels, dataset.documents


def _is_dataset(path: Path) -> bool:
    if not path.is_dir():
        return path.suffix.lower() == ".zip"
    return any(path.glob("queries*")) or any(path.glob("*/queries*"))


def _say_found(found: "list[RekeyMatch]", path: Path, as_json: bool) -> None:
    from assay.report.numbers import count, counted

    documents = {each.old_id: each for each in reversed(found)}
    sure = {each.old_id for each in found if each.sure}
    lost = {doc_id for doc_id, each in documents.items() if each.how == "none"}
    doubtful = len(documents) - len(sure) - len(lost)
    kinds = {"documents": len(documents), "sure": len(sure), "doubtful": doubtful}
    if as_json:
        print_json({"list": str(path), "proposals": len(found), **kinds, "not_found": len(lost)})
        return
    show_unwrapped(
        f"{path}: {counted(len(documents), 'judged document')}, {count(len(sure))} found again for "
        f"sure, {count(doubtful)} to be looked at, {count(len(lost))} not found"
    )
    say(
        "write yes or no into its column accept, then carry the labels over with: assay data rekey "
        f"OLD NEW --accept {path} --out DIR"
    )


def _finish(result: "RekeyResult", out: Path | None, as_json: bool) -> None:
    from assay.data.beir import write_new_beir
    from assay.report.numbers import count

    assert out is not None
    if not result.carried:
        raise UsageError("no judgment would be carried over; accept some proposals of the list")
    write_new_beir(result.dataset, out)
    lost = result.lost_queries
    if as_json:
        figures = {"judgments": result.judgments, "carried": result.carried}
        print_json({"folder": str(out), **figures, "lost_queries": list(lost)})
    else:
        show_unwrapped(
            f"{out}: {count(result.carried)} of {count(result.judgments)} judgments carried over"
        )
    if lost:
        warn(
            f"questions that have no relevant document any more: {count(len(lost))}, for example "
            f"{', '.join(map(repr, lost[:_SHOWN]))}; they are in no mean"
        )
