"""The data that a run was made on, where it is still at hand: for grades, titles and texts."""

import os
from collections.abc import Mapping
from typing import Any

from assay.data import Dataset, load_dataset
from assay.data.cache import cache_folder
from assay.errors import AssayError


def find_run_dataset(header: Mapping[str, Any]) -> tuple[Dataset | None, str]:
    """The data set of a `run.json` or report; else None, and why in a sentence.

    Nothing is downloaded: looking at a report must not take a network.
    """
    source = str(header["config"]["dataset"])
    if not _is_here(source):
        return None, f"the data set {source!r} is not on this machine"
    try:
        dataset = load_dataset(source)
    except AssayError as error:
        return None, str(error)
    if dataset.fingerprint != header["dataset"]["fingerprint"]:
        return None, f"the data set {source!r} has changed since the run"
    return dataset, ""


def _is_here(source: str) -> bool:
    if source != "nfcorpus" or os.environ.get("NFCORPUS_ARCHIVE"):
        return True
    return (cache_folder() / "nfcorpus.zip").is_file()
