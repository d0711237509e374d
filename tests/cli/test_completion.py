"""`assay completion`: the candidates, and the scripts in real shells."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import forked
from typer.main import get_command
from typer.testing import CliRunner

from assay.cli.app import app
from assay.cli.completion import _COMPLETERS, SCRIPTS, candidates
from assay.run.listing import ORDERS

SHELLS = "ASSAY_SHELLS"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two runs, a named target and an executable called assay."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_OUT", raising=False)
    for name in ("20260101-000000-a", "20260202-000000-b"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text("{}")
    (tmp_path / "runs" / "not-a-run").mkdir()
    (tmp_path / "assay.toml").write_text(
        '[target.docs]\ntarget = "rest:http://h/?q={query}&api_key=hidden-5"\n'
    )
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "assay"
    forked.write_program(command)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    return tmp_path


def complete(*words: str) -> list[str]:
    return [value for value, _ in candidates(get_command(app), words)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("ev",), ["eval"]),
        (("serve", "g"), ["green"]),
        (("eval", "builtin:b"), ["builtin:bm25"]),
        (("eval", "do"), ["docs"]),
        (("eval", "--baseline", "purp"), ["purple:hybrid"]),
        (("eval", "--data"), ["--dataset"]),
        (("eval", "--dataset=no"), ["--dataset=notes"]),
        (("eval", "docs", "--top-k", "5", "--dataset", "no"), ["notes"]),
        (("eval", "--json", "--resume", "2026"), ["20260202-000000-b", "20260101-000000-a"]),
        (("eval", "--dataset", "beir:scif"), ["beir:scifact"]),
        (("report", "lat"), ["latest"]),
        (("compare", "latest", "latest", "20260101"), ["20260101-000000-a"]),
        (("export", "latest", "20260202"), ["20260202-000000-b"]),
        (("eval", "--track", "zero"), ["zero-shot"]),
        (("eval", "--preset", "so"), ["solr"]),
        (("search", "a query", "--mode", "hy"), ["hybrid"]),
        (("export", "latest", "--format", "la"), ["latex"]),
        (("runs", "--sort="), [f"--sort={each}" for each in ORDERS]),
        (("completion", ""), ["bash", "zsh", "fish"]),
        (("score", ""), []),  # a file: the shell completes it
        (("nosuchverb", ""), []),
    ],
)
def test_candidates(project: Path, words: tuple[str, ...], expected: list[str]) -> None:
    assert complete(*words) == expected


def test_runs_of_another_folder_are_found(project: Path) -> None:
    (project / "runs").rename(project / "other")
    assert complete("report", "--out", "other", "2026010") == ["20260101-000000-a"]
    assert complete("report", "2026010") == []


def test_a_description_shows_no_secret(project: Path) -> None:
    (about,) = [text for value, text in candidates(get_command(app), ["eval", "docs"])]
    assert "rest:" in about
    assert "hidden-5" not in about


def test_a_broken_settings_file_completes_nothing_and_says_nothing(project: Path) -> None:
    (project / "assay.toml").write_text("[")
    done = subprocess.run(
        ["assay", "__complete", "eval", ""], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_completer_belongs_to_a_parameter() -> None:
    def names(command: object) -> set[str]:
        inner = getattr(command, "commands", {}).values()
        own = {param.name for param in command.params}  # type: ignore[attr-defined]
        return own.union(*(names(each) for each in inner))

    assert set(_COMPLETERS) - names(get_command(app)) == set()


def test_an_unknown_shell_is_refused_with_the_nearest() -> None:
    result = CliRunner().invoke(app, ["completion", "zhs"])
    assert "Did you mean 'zsh'?" in str(result.exception)


@pytest.mark.parametrize("words", ["eval --dataset=", "export --format=", "runs --sort="])
def test_completion_imports_nothing_heavy(project: Path, words: str) -> None:
    code = (
        f"import sys; sys.argv = ['assay', '__complete', *{words.split()!r}]\n"
        "from assay.cli.app import main; main()\n"
        "print(sorted({'numpy', 'pydantic', 'httpx', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_bash_completes_words_with_colons_and_equals_signs(project: Path) -> None:
    script = project / "assay.bash"
    script.write_text(SCRIPTS["bash"])
    asked = ["assay eval builtin:b", "assay eval --dataset=no", "assay ev", "assay report 20260202"]
    tries = "".join(
        f'COMP_LINE="{line}"; COMP_POINT={len(line)}; _assay_completion; echo ${{COMPREPLY[@]}}\n'
        for line in asked
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", f". {script}\n{tries}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["bm25", "notes", "eval", "20260202-000000-b"]


@pytest.mark.parametrize(
    ("shell", "set_up"),
    [
        (["bash", "--norc", "-i"], 'eval "$(assay completion bash)"'),
        (["zsh", "-f", "-i"], 'autoload -U compinit; compinit -D; eval "$(assay completion zsh)"'),
    ],
    ids=["bash", "zsh"],
)
def test_the_tab_key_completes(project: Path, shell: list[str], set_up: str) -> None:
    if not os.environ.get(SHELLS):
        pytest.skip(f"set {SHELLS}=1 where bash, zsh and fish are installed")
    typed = {
        "assay ev": "assay eval ",
        "assay eval builtin:b": "assay eval builtin:bm25 ",
        "assay eval --dataset not": "assay eval --dataset notes ",
    }
    for shown, screen in screens(shell, f"{set_up}; echo READY-$((6*7))\n", typed):
        assert shown in screen


def screens(shell: list[str], set_up: str, typed: dict[str, str]) -> Iterator[tuple[str, str]]:
    """What is expected, and what a terminal shows after each line of keys and Tab, or in 20 s."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="dumb", PS1="$ ", PROMPT="$ ")
        os.execvp(shell[0], shell)
    try:
        os.write(terminal, set_up.encode())
        _read_until(terminal, "READY-42")
        for keys, until in typed.items():
            os.write(terminal, f"{keys}\t".encode())
            yield until, _read_until(terminal, until)
            os.write(terminal, b"\x15")  # Ctrl-U empties the line
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def _read_until(terminal: int, until: str) -> str:
    seen, deadline = b"", time.monotonic() + 20
    while until.encode() not in seen and (left := deadline - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            seen += os.read(terminal, 4096)
    return seen.decode(errors="replace")


def test_fish_completes(project: Path) -> None:
    if not os.environ.get(SHELLS):
        pytest.skip(f"set {SHELLS}=1 where bash, zsh and fish are installed")
    script = project / "assay.fish"
    script.write_text(SCRIPTS["fish"])
    (project / "queries.csv").write_text("query,doc_ids\n")
    asked = ["assay ev", "assay eval builtin:b", "assay score quer", "assay eval --dataset no"]
    lines = "\n".join(f'complete --do-complete "{each}"' for each in asked)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {script}\n{lines}"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert found == ["eval", "builtin:bm25", "queries.csv", "notes"]
