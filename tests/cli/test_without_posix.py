"""The main path without what only POSIX has: no fcntl, no signal handlers of the loop, no SIGHUP.

This is no Windows, but a process that lacks what Windows lacks: an import or attribute that exists
only on POSIX fails here. Libraries are imported before, since they know where they are.
`msvcrt.locking` is played by a table of locks in memory.
"""

import subprocess
import sys
from pathlib import Path

import pytest

PRELUDE = """
import asyncio, asyncio.subprocess, os, selectors, signal, socket, subprocess, sys, types
import anyio, httpx, jinja2, jmespath, numpy, orjson, pydantic, rich.console, Stemmer, click.testing

POSIX = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "readline", "syslog"}

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in POSIX:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
for name in POSIX:
    sys.modules.pop(name, None)
for name in ("getuid", "geteuid", "getgid", "fchmod", "fchown", "fork", "killpg", "setsid",
             "sched_getaffinity", "statvfs", "O_DIRECTORY", "O_NOFOLLOW"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGALRM", "alarm"):
    delattr(signal, name)

def no_handler(self, *_):
    raise NotImplementedError

asyncio.SelectorEventLoop.add_signal_handler = no_handler

locks = {}

def locking(descriptor, mode, count):
    place = os.fstat(descriptor).st_ino
    if mode == msvcrt.LK_UNLCK:
        locks.pop(place, None)
    elif locks.setdefault(place, descriptor) != descriptor:
        try:
            os.fstat(locks[place])
        except OSError:  # closed, which unlocks it
            locks[place] = descriptor
        else:
            raise OSError("locked")

msvcrt = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK, msvcrt.LK_LOCK, msvcrt.LK_UNLCK, msvcrt.locking = 2, 1, 0, locking
sys.modules["msvcrt"] = msvcrt

class WindowsSys:
    platform = "win32"
    def __getattr__(self, name):
        return getattr(sys, name)

import assay.files
assay.files.sys = WindowsSys()

def run(*arguments):
    sys.argv = ["assay", *arguments]
    from assay.cli.app import main
    try:
        main()
    except SystemExit as exit:
        assert exit.code in (0, None), (arguments, exit.code)

"""

COMMANDS = """
run("eval", "python:mine:find", "--dataset", "notes", "--num-queries", "8", "--baseline",
    "builtin:bm25", "--gate", "success_rate>=0.9", "--junit", "junit.xml", "--markdown", "sum.md")
run("eval", "--resume", "latest")
run("runs", "--json")
run("report", "latest", "--html", "page.html")
names = sorted(os.listdir("runs"))
run("compare", *[name for name in names if not name.startswith(".")][:2])
run("export", "latest", "--format", "trec", "--out", "x.run")
run("score", "x.run", "--dataset", "notes")
run("data", "check", "notes")
run("init", "--ci", "none")
print("all done")
"""


@pytest.mark.slow
def test_the_main_path_needs_nothing_that_only_posix_has(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def find(query, top_k): return ['note-001'][:top_k]\n")
    (tmp_path / "all.py").write_text(PRELUDE + COMMANDS)
    done = subprocess.run(
        [sys.executable, "all.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "all done"


@pytest.mark.parametrize("wrong", ["import fcntl", "os.getuid()"])
def test_what_only_posix_has_is_really_missing(tmp_path: Path, wrong: str) -> None:
    done = subprocess.run([sys.executable, "-c", PRELUDE + wrong], cwd=tmp_path, check=False)
    assert done.returncode == 1
