"""`assay tune`: learn a better ranking from a data set's train judgments."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.console import print_json, show
from assay.cli.options import (
    ArchiveOption,
    DatasetOption,
    DeviceOption,
    EmbedderOption,
    JsonOption,
    ModelOption,
)


def tune(
    dataset: DatasetOption = "nfcorpus",
    archive: ArchiveOption = None,
    model: ModelOption = None,
    embedder: EmbedderOption = None,
    device: DeviceOption = "auto",
    seed: Annotated[
        int, typer.Option(help="Random seed of the training.", envvar="ASSAY_TUNE_SEED")
    ] = 0,
    splits: Annotated[
        str,
        typer.Option(
            help="train, or train,dev: the dev judgments are then added to the model "
            "after all choices and measurements are made.",
            envvar="ASSAY_TUNE_SPLITS",
            metavar="SPLITS",
        ),
    ] = "train",
    bm25: Annotated[
        bool,
        typer.Option(
            "--bm25",
            help="Only pick BM25's settings on the train split, and print the options that set "
            "them. No ranking is learned.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Learn to rank from the train judgments. Held-out queries decide, test is not used.

    What is printed is nDCG@10 on held-out queries: each was ranked by trees that had not seen its
    judgments. Expect this of new queries, and more on the train split, which the model has seen.

    The model is kept in the cache, where builtin:tuned and `assay serve ... --mode tuned` find
    it. One that does not beat hybrid on held-out queries is not saved: exit code 2.
    """
    if bm25:
        _pick_bm25(dataset, archive, seed, as_json)
        return
    from assay.cli.console import progress_bar
    from assay.data import load_dataset
    from assay.search.embedding import EmbedderSettings, open_embedder
    from assay.search.index import check_train_judgments, open_retriever
    from assay.search.tuning.tune import (
        check_splits,
        describe_gain,
        learn,
        model_path,
        save_if_better,
    )

    learned = check_splits(splits)
    with progress_bar() as progress:
        data = load_dataset(dataset, archive=archive, progress=progress)
        check_train_judgments(data)
        chosen = open_embedder(EmbedderSettings(embedder or "", str(model or ""), device))
        path = model_path(data, chosen, seed=seed)
        with open_retriever(data, embedder=chosen, progress=progress) as retriever:
            ranker = learn(data, chosen, retriever, seed=seed, splits=learned, progress=progress)
    save_if_better(ranker, path)
    if as_json:
        about = asdict(ranker.about)
        held_out = asdict(ranker.held_out) | {"seed_spread": ranker.held_out.seed_spread}
        print_json({"model": str(path), "about": about, "held_out": held_out})
        return
    show(
        f"{data.name}: learned from {' and '.join(ranker.splits)}, trained track",
        describe_gain(ranker.held_out),
        f"model: {path}",
    )


def _pick_bm25(dataset: str, archive: Path | None, seed: int, as_json: bool) -> None:
    from assay.cli.console import progress_bar
    from assay.data import load_dataset
    from assay.search.bm25_choice import choose_bm25

    with progress_bar() as progress:
        data = load_dataset(dataset, archive=archive, progress=progress)
        found = choose_bm25(data, seed=seed, progress=progress)
    if as_json:
        print_json({"dataset": data.name, "better": found.better, **asdict(found)})
        return
    compared = (
        f"nDCG@10 {found.ndcg_10:.4f} with {found.best}, {found.default_ndcg_10:.4f} with the "
        f"defaults (standard error of the difference {found.standard_error:.4f})"
    )
    advice = (
        f"use: {found.chosen.as_options()}"
        if found.better
        else f"keep the defaults ({found.chosen}): the difference may be chance"
    )
    show(f"{data.name}: {found.queries} train queries, trained track", compared, advice)
