"""Breaks a command off at every step, runs it again, and compares: `python -m tests.crash.points`.

Each point is two forks of this process, which has imported everything already: one that runs the
command on a `FaultyStorage`, and one that does what a user does afterwards. Then the result must be
that of an unbroken run, to the last digit, and whatever the first one said must be a message.
"""

import argparse
import gc
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.scenarios import SCENARIOS, Scenario
from tests.crash.storage import ERRORS, KILLS, Fault, FaultyStorage, applies
from tests.llm_providers.model_server import ModelServer
from tests.search.samples import WordEmbedder

_KILLED = -9
_LIMIT_S = 60


@dataclass
class Result:
    scenario: str
    steps: list[str]
    points: int = 0
    problems: list[str] = field(default_factory=list)


def crash_everywhere(scenario: Scenario, *, every: int = 1) -> Result:
    """Break `scenario` at each step in every way that applies, or at each `every`-th point."""
    with _folder() as home:
        template = home / "template"
        template.mkdir()
        os.chdir(template)
        with _quiet(home / "warm-output"):  # in this process: the forks inherit what it learns
            scenario.prepare()
            os.chdir(_copy(template, home / "warm"))
            assert scenario.command() == 0
        template = _copy(template, home / "sparse")
        expected, steps = _unbroken(scenario, home, template)
        result = Result(scenario.name, steps)
        for number, kind in enumerate(steps, start=1):
            for place, fault in enumerate((*KILLS, *ERRORS)):
                taken = (number + place) % every == 0 or number == len(steps)
                if applies(fault, kind) and taken:
                    result.points += 1
                    where = f"{scenario.name}, step {number} of {len(steps)} ({kind}), {fault}"
                    for problem in _broken(scenario, home, template, fault, number, expected):
                        result.problems.append(f"{where}: {problem}")
                        print(result.problems[-1], file=sys.stderr, flush=True)
    return result


def _unbroken(scenario: Scenario, home: Path, template: Path) -> tuple[Any, list[str]]:
    work = _copy(template, home / "work")

    def run() -> int:
        storage = FaultyStorage(work)
        storage.install()
        code = scenario.command()
        (home / "steps").write_text(json.dumps(storage.steps))
        return code

    code = _fork(run, work)
    assert code == 0, f"{scenario.name} fails without a fault:\n{_said(work)}"
    steps: list[str] = json.loads((home / "steps").read_text())
    kept = (work.parent / "stdout").read_bytes()
    return _digested(scenario, work, lambda: os.write(1, kept) and 0), steps


def _broken(
    scenario: Scenario, home: Path, template: Path, fault: Fault, number: int, expected: Any
) -> Iterator[str]:
    work = _copy(template, home / "work")

    def run() -> int:
        FaultyStorage(work, fault, number).install()
        return scenario.command()

    code = _fork(run, work)
    said = _said(work)
    if fault in KILLS and code != _KILLED:
        yield f"was not killed but ended with {code}: {said}"
    if "Traceback" in said or (code > 0 and "error: " not in said):
        yield f"no message but\n{said}"
    try:
        found = _digested(scenario, work, scenario.again)
    except AssertionError as error:
        yield f"cannot be repeated: {error}"
        return
    if found != expected:
        yield f"other results: {str(found)[:2000]}, not {str(expected)[:2000]}"


def _digested(scenario: Scenario, work: Path, before: Callable[[], int] = lambda: 0) -> Any:
    """In a fork: reading opens databases and engines."""

    def run() -> int:
        code = before()
        sys.stdout.flush()
        if code == 0:
            (work / "digest").write_text(json.dumps(scenario.digest(), sort_keys=True))
        return code

    code = _fork(run, work)
    assert code == 0, f"exit code {code}\n{_said(work)}"
    return json.loads((work / "digest").read_text())


def _fork(work: Callable[[], int], folder: Path) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.chdir(folder)
            resource.setrlimit(resource.RLIMIT_CPU, (_LIMIT_S, _LIMIT_S))
            for number, name in ((1, "../stdout"), (2, "../stderr")):  # not on the faulty disk
                os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
            code = work()
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _said(work: Path) -> str:
    return (work.parent / "stderr").read_text(errors="replace")[-3000:]


def _copy(template: Path, work: Path) -> Path:
    """With holes: an index is 100 MB of preallocated files, of which 100 kB are written."""
    shutil.rmtree(work, ignore_errors=True)
    subprocess.run(["cp", "-R", "--sparse=always", template, work], check=True)
    return work


@contextmanager
def _quiet(path: Path) -> Iterator[None]:
    kept = os.dup(1), os.dup(2)
    opened = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    for number in (1, 2):
        os.dup2(opened, number)
    try:
        yield
    finally:
        sys.stdout.flush()
        for number, old in enumerate(kept, start=1):
            os.dup2(old, number)
            os.close(old)
        os.close(opened)


@contextmanager
def _folder() -> Iterator[Path]:
    memory = Path("/dev/shm")
    base = memory if os.access(memory, os.W_OK) else None
    before = Path.cwd()
    with tempfile.TemporaryDirectory(dir=base, prefix="assay-crash-") as name:
        try:
            yield Path(name)
        finally:
            os.chdir(before)


def _environment(judge: str) -> None:
    for name in list(os.environ):
        if name.startswith(("ASSAY_", "QDRANT_", "RAG_EVAL_")) or name == "COLLECTION_NAME":
            del os.environ[name]
    os.environ |= {
        # Relative: each fork has a folder of its own.
        "ASSAY_CACHE": "cache",
        "QDRANT_PATH": "index",
        "RAG_EVAL_PROVIDER": "openai:judge",
        "RAG_EVAL_OPENAI_BASE_URL": f"{judge}/v1",
        "NO_PROXY": "*",
        "NO_COLOR": "1",
        "OMP_NUM_THREADS": "1",  # a fork does not inherit threads
    }
    sys.path.insert(0, "")


def _serve_judge() -> tuple[int, str]:
    """A process of its own, since a fork does not inherit threads."""
    server = ModelServer()
    server.http.handle_error = lambda *_: None  # type: ignore[method-assign]  # killed clients
    server.reply = _verdict
    child = os.fork()
    if child == 0:
        server.http.serve_forever()
    return child, server.url


def _verdict(prompt: str) -> str:
    """Of a judge that is always right: both answers have the same number."""
    answers = re.findall(r"<answer \w+>\s*([^<]*)", prompt)
    numbers = {re.fullmatch(r"(?:It is )?(\d+)\.?\s*", each) for each in answers}
    said = {found[1] if found else "" for found in numbers}
    return "TRUE" if len(said) == 1 and "" not in said else "FALSE"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", nargs="*", help=f"of {', '.join(SCENARIOS)}; all by default")
    parser.add_argument("--every", type=int, default=1, help="only each n-th point")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    given = parser.parse_args()
    from assay.search import embedding

    judge, url = _serve_judge()
    _environment(url)

    gc.disable()  # a collection would copy every page of the parent into each fork
    embedding.open_embedder = lambda *_: WordEmbedder()
    failed = False
    try:
        for name in given.scenario or SCENARIOS:
            result = crash_everywhere(SCENARIOS[name], every=given.every)
            failed |= bool(result.problems)
            if given.json:
                print(json.dumps(vars(result)), flush=True)
                continue
            print(
                f"{name}: {len(result.steps)} steps, {result.points} points, "
                f"{len(result.problems)} problems",
                flush=True,
            )
    finally:
        os.kill(judge, 9)
        os.waitpid(judge, 0)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
