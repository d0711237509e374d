"""`hf:ORG/NAME`: data sets on a model hub, over plain HTTP, kept in the cache by their commit.

A commit that was downloaded once is used from then on without asking the hub: the data of a run
stays the same when others change theirs. `hf:ORG/NAME@REVISION` takes another one.
"""

import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import orjson

from assay.data.beir import MAX_FILES, DatasetFiles, choose_config, read_files, sort_files
from assay.data.cache import cache_folder, write_cached
from assay.data.dataset import Dataset
from assay.data.text_file import Findings, plain_file
from assay.errors import DataError, DownloadError, UsageError
from assay.files import read_file, read_text_file
from assay.net.json import JsonObject
from assay.net.redact import redact_url
from assay.progress import Progress

if TYPE_CHECKING:
    from assay.net.client import TokenFor

PREFIX = "hf:"
BASE_VARIABLE = "HF_ENDPOINT"
HUB_TOKEN_VARIABLE = "HF_TOKEN"
_BASE = "https://huggingface.co"
_MAX_LISTING = 64 * 2**20
_MAX_FILE = 16 * 2**30
_SHAPE = re.compile(
    r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?(?:#(?P<config>[\w.-]+))?"
)
_JUDGED = "qrels/"
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


@dataclass(frozen=True, slots=True)
class HubName:
    """`ORG/NAME@REVISION#CONFIG`, the last two optional."""

    repo: str
    revision: str = ""
    config: str = ""

    @classmethod
    def parse(cls, text: str) -> "HubName":
        """Parse `hf:ORG/NAME@REVISION#CONFIG`. Raises `UsageError`."""
        match = _SHAPE.fullmatch(text.removeprefix(PREFIX))
        if match is None or ".." in text:
            raise UsageError(
                f"{text!r} is not a data set on the hub; write hf:ORG/NAME, with @REVISION and "
                "#CONFIG if they are needed"
            )
        return cls(match["repo"], match["revision"] or "", match["config"] or "")

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        return f"{PREFIX}{self.repo}{revision}{f'#{self.config}' if self.config else ''}"

    @property
    def folder(self) -> Path:
        """Where its commits are in the cache."""
        return cache_folder() / "hub" / self.repo.replace("/", "--")

    def cached_commit(self) -> str | None:
        """The commit that was downloaded for this revision; None if there is none."""
        if _COMMIT.fullmatch(self.revision) and (self.folder / self.revision).is_dir():
            return self.revision
        try:
            commit = read_text_file(self._reference, encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None
        return commit if _COMMIT.fullmatch(commit) else None

    def remember(self, commit: str) -> None:
        """Use this commit for the revision from now on."""
        write_cached(self._reference, commit.encode("ascii"))

    @property
    def _reference(self) -> Path:
        return self.folder / "refs" / quote(self.revision or "main", safe="")


def read_hub(text: str, findings: Findings, progress: Progress) -> Dataset:
    """The data set `hf:ORG/NAME`, downloaded once.

    Raises:
        UsageError: the hub has no such data set, or it has several configurations.
        DownloadError: it could not be downloaded; what came is kept, and the next call continues.
    """
    name = HubName.parse(text)
    commit, paths = _listing(name)
    files = choose_config(sort_files(paths), name.config, f"{PREFIX}{name.repo}")
    local = _local(name, commit, files.all_paths, progress)
    if not files.qrels:
        files, local = _with_judgments(name, files, local, progress)
    opened = {path: plain_file(place) for path, place in local.items()}
    return read_files(files, opened, str(replace(name, revision="")), findings)


def is_hub_cached(text: str) -> bool:
    """Whether reading it needs no network."""
    try:
        name = HubName.parse(text)
        commit = name.cached_commit()
        return commit is not None and (name.folder / commit / "files.json").is_file()
    except (UsageError, DataError):
        return False


def _with_judgments(
    name: HubName, files: DatasetFiles, local: dict[str, Path], progress: Progress
) -> tuple[DatasetFiles, dict[str, Path]]:
    """BEIR's sets keep their judgments in a repository of their own, `NAME-qrels`."""
    beside = HubName(f"{name.repo}-qrels")
    try:
        commit, listed = _listing(beside)
    except UsageError:
        return files, local
    # All tables of such a repository are judgments, whatever their folder is called.
    found = sort_files(f"{_JUDGED}{path}" for path in listed)
    judged = next((each.qrels for each in found.values() if each.qrels), {})
    paths = [path.removeprefix(_JUDGED) for each in judged.values() for path in each]
    theirs = _local(beside, commit, paths, progress)
    return replace(files, qrels=judged), local | {f"{_JUDGED}{p}": at for p, at in theirs.items()}


def _listing(name: HubName) -> tuple[str, list[str]]:
    """The commit, and the paths of all its files."""
    from assay.net.download import fetch_json
    from assay.net.json import parse_object

    commit = name.cached_commit()
    if commit is not None:
        with suppress(OSError):
            known = parse_object(read_file(name.folder / commit / "files.json")) or {}
            if isinstance(paths := known.get("paths"), list):
                return commit, list(map(str, paths))
    base = _base()
    revision = f"/revision/{quote(name.revision, safe='')}" if name.revision else ""
    url = f"{base}/api/datasets/{name.repo}{revision}"
    try:
        found = fetch_json(url, limit=_MAX_LISTING, auth=_token(base))
    except DownloadError as error:
        raise _unavailable(name, base, error) from error
    commit, paths = _read_listing(found, name)
    write_cached(name.folder / commit / "files.json", orjson.dumps({"paths": paths}))
    name.remember(commit)
    return commit, paths


def _read_listing(found: object, name: HubName) -> tuple[str, list[str]]:
    fields: JsonObject = found if isinstance(found, dict) else {}
    commit, siblings = str(fields.get("sha")), fields.get("siblings")
    if not _COMMIT.fullmatch(commit) or not isinstance(siblings, list):
        raise DownloadError(
            f"the list of files of {str(name)!r} was not understood; is {BASE_VARIABLE} the "
            "address of a hub?"
        )
    paths = [each.get("rfilename") for each in siblings if isinstance(each, dict)]
    known = [path for path in paths if isinstance(path, str)]
    for path in known:
        _inside(name.folder, path)
    return commit, known


def _local(name: HubName, commit: str, paths: list[str], progress: Progress) -> dict[str, Path]:
    """Where each file is on this machine; what is missing is downloaded."""
    from assay.net.download import DownloadLimits, download_file, read_record

    if len(paths) > MAX_FILES:
        raise DataError(f"{name} has {len(paths):,} files, more than {MAX_FILES:,}")
    base, local = _base(), {}
    for path in paths:
        place = _inside(name.folder / commit, path)
        if read_record(place) is None:
            url = f"{base}/datasets/{name.repo}/resolve/{commit}/{quote(path)}"
            try:
                download_file(
                    url,
                    place,
                    DownloadLimits(_MAX_FILE),
                    what=f"downloading {place.name}",
                    auth=_token(base),
                    progress=progress,
                )
            except DownloadError as error:
                raise _broken(name, path, error) from error
        local[path] = place
    return local


def _inside(folder: Path, path: str) -> Path:
    """The place of a file below `folder`: a hub that sends `../x` writes nowhere else."""
    parts = path.split("/")
    if path.startswith("/") or "\\" in path or any(p in ("", ".", "..") for p in parts):
        raise DataError(
            f"the hub lists {path[:100]!r}, a path outside of the data set; it is not read"
        )
    return folder.joinpath(*parts)


def _base() -> str:
    return (os.environ.get(BASE_VARIABLE) or _BASE).rstrip("/")


def _token(base: str) -> "TokenFor | None":
    from assay.net.client import token_for
    from assay.net.outbound import policy_of_process

    return token_for(base, policy_of_process(), HUB_TOKEN_VARIABLE)


def _unavailable(name: HubName, base: str, error: DownloadError) -> UsageError | DownloadError:
    if error.status in (401, 403, 404):
        revision = f" at revision {name.revision!r}" if name.revision else ""
        return UsageError(
            f"the hub has no data set {name.repo!r}{revision}, or it is not public "
            f"({error}); for a private or gated one set {HUB_TOKEN_VARIABLE}"
        )
    return DownloadError(
        f"data set {str(name)!r} is not in the cache, and the hub could not be asked "
        f"({redact_url(base)}): {error}. Without a network, copy the data set's folder here and "
        f"pass its path; {BASE_VARIABLE} names another hub or a mirror"
    )


def _broken(name: HubName, path: str, error: DownloadError) -> DownloadError:
    denied = f"; accept its terms on the hub and set {HUB_TOKEN_VARIABLE}"
    return DownloadError(
        f"{path} of data set {str(name)!r} could not be downloaded: {error}"
        f"{denied if error.status in (401, 403) else '; run the command again to continue'}"
    )
