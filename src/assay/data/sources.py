"""Data sets that are named by where they come from: `beir:`, `hf:` and `ir_datasets:`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from assay.data import beir_download, hub, ir_datasets_library
from assay.data.dataset import Dataset
from assay.data.text_file import Findings
from assay.errors import closest
from assay.progress import Progress

Read = Callable[[str, Findings | None, Progress], Dataset]


@dataclass(frozen=True, slots=True)
class DataSource:
    """One kind of name, `PREFIX:NAME`.

    Attributes:
        read: reads a data set by its whole name, and downloads it where it is not in the cache.
        is_here: whether that needs no network, as far as it is known.
        what: a line for `assay data list`.
    """

    read: Read
    is_here: Callable[[str], bool]
    what: str


SOURCES: Mapping[str, DataSource] = {
    "beir": DataSource(
        beir_download.read_beir_download,
        beir_download.is_beir_cached,
        f"the public sets of the BEIR benchmark: {', '.join(beir_download.MD5)}",
    ),
    "hf": DataSource(
        hub.read_hub,
        hub.is_hub_cached,
        "a retrieval data set on the model hub, in BEIR's or MTEB's layout: "
        "hf:ORG/NAME[@REVISION][#CONFIG]",
    ),
    "ir_datasets": DataSource(
        ir_datasets_library.read_ir_dataset,
        ir_datasets_library.is_ir_dataset_cached,
        "every set of the library ir_datasets (pip install 'agent-assay[ir-datasets]')",
    ),
}


def source_of(name: object) -> DataSource | None:
    """The source that a name begins with; None for names and paths without one."""
    prefix, colon, rest = str(name).partition(":")
    return SOURCES.get(prefix) if colon and rest else None


def similar_name(name: str, known: Mapping[str, str]) -> str | None:
    """What somebody meant who wrote a name that there is not; None where nothing is near."""
    prefix, colon, rest = name.partition(":")
    if colon:
        near = closest(prefix.replace("-", "_"), SOURCES, cutoff=0.5)
        return f"{near}:{rest}" if near else None
    if name.lower() in beir_download.MD5 and name.lower() not in known:
        return f"{beir_download.PREFIX}{name.lower()}"
    names = {**{each: each for each in known}, **_beir_names(known)}
    found = closest(name, names, cutoff=0.75)
    return names[found] if found else None


def _beir_names(known: Mapping[str, str]) -> dict[str, str]:
    return {
        each: f"{beir_download.PREFIX}{each}" for each in beir_download.MD5 if each not in known
    }
