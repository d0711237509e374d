"""Runs the steps of CI files on this machine: what a runner of GitHub or GitLab would execute.

`run:` and `script:` lines are executed by bash, with the variables that the system sets. `uses:`
steps are other people's actions, which are not here; `pip` only notes what it was asked for.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import forked


@dataclass
class LocalRunner:
    """One job in one folder. `installed` is what pip was asked for, `output` all that was said."""

    folder: Path
    tools: Path
    variables: Mapping[str, str]
    output: str = ""

    @classmethod
    def create(cls, folder: Path, tools: Path, variables: Mapping[str, str]) -> "LocalRunner":
        """With an `assay` on the path that is this one, and a `pip` that installs nothing."""
        tools.mkdir(parents=True, exist_ok=True)
        forked.write_program(tools / "assay")
        _program(tools / "pip", f'echo "$@" >> {tools}/installed')
        _program(tools / "python", f'exec {sys.executable} "$@"')
        return cls(folder, tools, variables)

    @property
    def installed(self) -> str:
        path = self.tools / "installed"
        return path.read_text() if path.exists() else ""

    def run(self, script: str, extra: Mapping[str, str] | None = None) -> int:
        """The exit code of a script under `bash -e`, as runners start it."""
        kept = {name: value for name, value in os.environ.items() if not _is_ci(name)}
        path = f"{self.tools}:{os.environ['PATH']}"
        environment = {**kept, "PATH": path, **self.variables, **(extra or {})}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.output += done.stdout + done.stderr
        return done.returncode


def run_github_steps(
    runner: LocalRunner, steps: list[dict[str, Any]], expressions: dict[str, str]
) -> int:
    """The first exit code that is not 0. After it only steps with `if: always()` are executed."""
    for earlier in (runner.folder / "runs").glob("2*"):  # names tell seconds; a job takes less
        earlier.rename(earlier.with_name(f"1{earlier.name[1:]}"))
    failed = 0
    for step in steps:
        condition = str(step.get("if", ""))
        if "run" not in step or (failed and "always()" not in condition):
            continue
        if condition and not _holds(condition, expressions):
            continue
        extra = {k: _expand(str(v), expressions) for k, v in step.get("env", {}).items()}
        code = runner.run(_expand(step["run"], expressions), extra)
        if code and step.get("continue-on-error") is not True:
            failed = failed or code
        if "id" in step:
            for line in Path(runner.variables["GITHUB_OUTPUT"]).read_text().splitlines():
                name, _, value = line.partition("=")
                expressions[f"steps.{step['id']}.outputs.{name}"] = value
    return failed


def run_gitlab_job(runner: LocalRunner, job: Mapping[str, Any]) -> int:
    """The exit code of `before_script` and `script`, which GitLab runs in one shell."""
    lines = [*job.get("before_script", []), *job["script"]]
    variables = {name: str(value) for name, value in job.get("variables", {}).items()}
    return runner.run("\n".join(lines), variables)


def _program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def _is_ci(name: str) -> bool:
    return name.startswith(("GITHUB_", "CI_", "ASSAY_OUT")) or name in ("CI", "GITLAB_CI")


def _expand(text: str, expressions: Mapping[str, str]) -> str:
    """`${{ inputs.target }}` by its value; an unknown expression is a mistake of the file."""
    return re.sub(r"\$\{\{\s*(.+?)\s*\}\}", lambda match: expressions[match[1]], text)


def _holds(condition: str, expressions: Mapping[str, str]) -> bool:
    """`always()` and `inputs.name != ''`, joined by `&&`."""
    parts = re.sub(r"^\$\{\{\s*|\s*\}\}$", "", condition).split("&&")
    for part in map(str.strip, parts):
        if part == "always()":
            continue
        name, sign, value = re.fullmatch(r"(\S+) (==|!=) '(.*)'", part).groups()  # type: ignore[union-attr]
        if (expressions[name] == value) != (sign == "=="):
            return False
    return True
