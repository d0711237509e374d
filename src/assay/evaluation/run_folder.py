"""One folder for each run: `run.json`, `calls.jsonl`, `report.json` and what is made of it."""

import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from assay.agents.protocol import AgentInfo
from assay.agents.targets import redact_target
from assay.data.dataset import Dataset
from assay.errors import RunError
from assay.evaluation.answer_shapes import AnswerRow
from assay.evaluation.file_shapes import ComparisonFile, Header, require_shape
from assay.evaluation.plan import RunConfig, completed
from assay.evaluation.report_reading import read_head, read_whole
from assay.files import atomic_write, is_locked

LATEST = "latest"
FORMAT = 1

_HEADER_REMEDY = "take it from a copy of the run, or start another run with: assay eval"


@dataclass(frozen=True, slots=True)
class RunFolder:
    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def calls(self) -> Path:
        return self.path / "calls.jsonl"

    @property
    def report(self) -> Path:
        return self.path / "report.json"

    @property
    def summary(self) -> Path:
        return self.path / "summary.txt"

    @property
    def answers(self) -> Path:
        """One line a question, where answers were evaluated."""
        return self.path / "answers.jsonl"

    def read_header(self) -> dict[str, Any]:
        path = self.path / "run.json"
        header = _read_object(path, _HEADER_REMEDY)
        require_shape(Header, header, path, _HEADER_REMEDY)
        return {**header, "config": completed(header["config"])}

    def is_baseline(self) -> bool:
        try:
            return "baseline_of" in self.read_header()
        except RunError:  # whoever wants this run is to hear what is wrong with it
            return False

    def read_config(self) -> RunConfig:
        return RunConfig.from_json(self.read_header()["config"])

    def read_report(self) -> dict[str, Any]:
        report = self._with_comparison(read_whole(self._finished_report()))
        if self.answers.exists():
            report["answer_results"] = list(self.read_answers())
        return report

    def read_head(self) -> dict[str, Any]:
        """As `read_report` without the rows, and as quick for a large run as for a small one."""
        return self._with_comparison(read_head(self._finished_report()))

    def copy_report(self, stream: BinaryIO) -> None:
        """As `read_report`, without holding it: the rows of a large run take hundreds of MB."""
        with self.report.open("rb") as report:
            report.seek(len(b"{"))
            stream.write(b"{")
            if self._comparison.exists():
                stream.write(b'\n  "comparison": ' + self._comparison.read_bytes() + b",")
            if self.answers.exists():
                rows = b",\n".join(self.answers.read_bytes().splitlines())
                stream.write(b'\n  "answer_results": [\n' + rows + b"\n],")
            shutil.copyfileobj(report, stream)
        stream.flush()

    def write_comparison(self, comparison: Mapping[str, Any]) -> None:
        atomic_write(self._comparison, orjson.dumps(comparison, option=orjson.OPT_INDENT_2))

    def write_answers(self, rows: Iterable[Mapping[str, Any]]) -> None:
        lines = (orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
        atomic_write(self.answers, b"".join(lines))

    def read_answers(self) -> Iterator[dict[str, Any]]:
        with self.answers.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                remedy = f"write it anew with: assay eval --resume {self.path}"
                try:
                    row = orjson.loads(line)
                except orjson.JSONDecodeError:
                    raise RunError(
                        f"{self.answers}:{number}: not the answer to a question; {remedy}"
                    ) from None
                require_shape(AnswerRow, row, self.answers, remedy, f"line {number}")
                yield row

    @property
    def _comparison(self) -> Path:
        return self.path / "comparison.json"

    def _finished_report(self) -> Path:
        if not self.report.exists():
            self.read_header()  # says so where this is no run at all
            if is_locked(self.calls):
                raise RunError(
                    f"run {self.name!r} is still going on; its report comes when it has ended"
                )
            raise RunError(
                f"run {self.name!r} has no report yet; finish it with: "
                f"assay eval --resume {self.path}"
            )
        return self.report

    def _with_comparison(self, report: dict[str, Any]) -> dict[str, Any]:
        if self._comparison.exists():
            remedy = (
                f"delete it, or make it anew: assay eval --resume {self.path} --baseline TARGET"
            )
            report["comparison"] = _read_object(self._comparison, remedy)
            require_shape(ComparisonFile, report["comparison"], self._comparison, remedy)
        return report

    def state(self) -> str:
        """running, complete, interrupted, target lost; or unfinished, where it was killed."""
        if is_locked(self.calls):
            return "running"
        if not self.report.exists():
            return "unfinished"
        return str(self.read_head()["state"])


def create_run(
    out: Path, config: RunConfig, dataset: Dataset, agent: AgentInfo, *, baseline_of: str = ""
) -> RunFolder:
    """`baseline_of` names the run that this one is made for, to be compared with it."""
    now = datetime.now(UTC)
    shown = f"{redact_target(config.target)}-{dataset.name}"
    slug = re.sub(r"[^A-Za-z0-9]+", "-", shown).strip("-")[:60]
    path = out / f"{now:%Y%m%d-%H%M%S}-{slug}-{secrets.token_hex(2)}"
    try:
        path.mkdir(parents=True)
        header = {
            "format": FORMAT,
            "started": now.isoformat(timespec="seconds"),
            "process": os.getpid(),
            "config": config.to_json(),
            "target": {"name": agent.name, "protocol": agent.protocol, "details": agent.details},
            "track": agent.track,
            "dataset": {
                "name": dataset.name,
                "fingerprint": dataset.fingerprint,
                **({"references": dataset.references_fingerprint} if config.answers else {}),
            },
            "versions": versions(),
            **({"baseline_of": baseline_of} if baseline_of else {}),
        }
        atomic_write(path / "run.json", orjson.dumps(header, option=orjson.OPT_INDENT_2))
    except OSError as error:
        raise RunError(f"cannot write run folder {path}: {error.strerror}") from error
    return RunFolder(path)


def find_run(reference: str, out: Path) -> RunFolder:
    """A path, the name of a folder under `out`, the start of one, or `latest`.

    A run that was made as another's baseline is never the latest: that is the run it was made for.
    """
    for path in (Path(reference), out / reference):
        if (path / "run.json").is_file():
            return RunFolder(path)
    runs = list(list_runs(out))
    if reference == LATEST:
        latest = next((run for run in reversed(runs) if not run.is_baseline()), None)
        if latest is None:
            raise RunError(f"there is no run under {out}; make one with: assay eval")
        return latest
    matches = [run for run in runs if run.name.startswith(reference)]
    if len(matches) != 1:
        problem = "no run is" if not matches else f"{len(matches)} runs are"
        raise RunError(f"{problem} called {reference!r} under {out}; list them with: assay runs")
    return matches[0]


def list_runs(out: Path) -> Iterator[RunFolder]:
    """Oldest first: names start with the time."""
    if out.is_dir():
        for path in sorted(out.iterdir()):
            if (path / "run.json").is_file():
                yield RunFolder(path)


def versions() -> dict[str, str]:
    packages = ("agent-assay", "numpy", "PyStemmer")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def _read_object(path: Path, remedy: str) -> dict[str, Any]:
    try:
        value = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise RunError(f"{path} does not exist: {path.parent} is not a run folder") from None
    except orjson.JSONDecodeError as error:
        raise RunError(f"{path} is damaged: {error}; {remedy}") from None
    if not isinstance(value, dict):
        raise RunError(f"{path} is damaged: it does not hold an object; {remedy}")
    return value
