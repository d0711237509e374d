"""A data set by its name or its path."""

from pathlib import Path

from assay.data.beir import read_beir
from assay.data.dataset import Dataset
from assay.data.nfcorpus import find_archive
from assay.errors import UsageError
from assay.progress import Progress, silent

KNOWN = {
    "nfcorpus": "medical questions and abstracts; downloaded once, 2.4 MB, academic use only",
    "notes": "personal and work notes with reference answers; comes with Assay",
}


def load_dataset(
    name: str | Path, *, archive: Path | None = None, progress: Progress = silent
) -> Dataset:
    """`nfcorpus`, `notes`, or the path of a folder or zip in the form of BEIR.

    A known name wins over a folder of that name: write `./notes` for the folder. `archive` is an
    nfcorpus.zip that is already here.
    """
    if name == "nfcorpus":
        return read_beir(find_archive(archive, progress), "nfcorpus")
    if archive is not None:
        raise UsageError(
            f"an archive can be given for 'nfcorpus' only, not for {str(name)!r}; "
            "other archives are data sets themselves: --dataset FILE"
        )
    if name == "notes":
        return read_beir(Path(__file__).parent / "notes", "notes")
    require_dataset(name)
    return read_beir(Path(name).expanduser())


def require_dataset(name: str | Path) -> None:
    """Refuse a name that stands for nothing, before anything slow begins."""
    if name not in KNOWN and not Path(name).expanduser().exists():
        raise UsageError(
            f"no data set {str(name)!r}: the known names are {', '.join(KNOWN)}; or give the path "
            "of a folder or a zip in the form of BEIR"
        )
