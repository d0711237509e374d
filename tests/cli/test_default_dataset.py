"""`assay eval` on a fresh machine: NFCorpus where it can be had, else the bundled set, loudly."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

RunAssay = Callable[..., "subprocess.CompletedProcess[str]"]

NOBODY_LISTENS = "http://127.0.0.1:9"


def offline(folder: Path) -> dict[str, str]:
    return {
        "NFCORPUS_ARCHIVE": "",
        "ASSAY_BEIR_URL": NOBODY_LISTENS,
        "ASSAY_CACHE": str(folder / "empty-cache"),
    }


def test_offline_it_falls_back_loudly_to_the_bundled_set(run_assay: RunAssay, folder: Path) -> None:
    done = run_assay("eval", "builtin:bm25", "--json", **offline(folder))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dataset"]["name"] == "notes"
    assert "warning: NFCorpus is not available" in done.stderr
    assert "evaluating on the bundled set 'notes' instead" in done.stderr


def test_offline_a_set_that_was_asked_for_is_not_swapped(run_assay: RunAssay, folder: Path) -> None:
    done = run_assay("eval", "builtin:bm25", "--dataset", "nfcorpus", **offline(folder))
    assert done.returncode == 2
    assert "NFCORPUS_ARCHIVE=FILE" in done.stderr
    assert "--dataset notes" in done.stderr
