"""Where a run comes from: the commit of the working folder, and the machine.

Nothing here raises or delays a run: what cannot be found out within two seconds is None.
"""

import os
import platform
import subprocess
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from assay.net.redact import redact_url
from assay.run.models import GitRecord, MachineRecord

_SECONDS = 2.0
_PACKAGES = ("agent-assay", "numpy", "PyStemmer")
# Continuous integration checks out a commit, not a branch, and names the branch here.
_BRANCH_VARIABLES = (
    *("GITHUB_HEAD_REF", "GITHUB_REF_NAME"),  # GitHub: of a pull request, of a push
    *("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_BRANCH"),  # GitLab
    *("CHANGE_BRANCH", "BRANCH_NAME"),  # Jenkins
)
# A run must not change the repository, ask for a password or start programs that it names.
_QUIET = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def read_provenance(folder: Path | None = None) -> tuple[GitRecord | None, MachineRecord]:
    """Of the working folder and of this machine; takes at most two seconds."""
    machine = MachineRecord(
        name=platform.node(),
        system=f"{platform.system()} {platform.release()}".strip(),
        processor=platform.machine(),
        cpus=os.cpu_count(),
    )
    return read_git(folder), machine


def read_git(
    folder: Path | None = None,
    *,
    seconds: float = _SECONDS,
    environment: Mapping[str, str] | None = None,
) -> GitRecord | None:
    """The state of the repository around `folder`; None without git, repository or time."""
    variables = os.environ if environment is None else environment
    deadline = time.monotonic() + seconds  # for all questions together

    def ask(*arguments: str) -> str | None:
        """What git prints; None if it fails, is missing or has no time left."""
        try:
            # core.fsmonitor of a repository names a program, which git would start.
            done = subprocess.run(
                ["git", "-c", "core.fsmonitor=false", *arguments],
                cwd=folder,
                env={**variables, **_QUIET},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=max(deadline - time.monotonic(), 0.001),
                check=False,
            )
        except (OSError, subprocess.SubprocessError, ValueError):
            return None
        return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None

    if ask("rev-parse", "--is-inside-work-tree") != "true":
        return None
    branch = ask("symbolic-ref", "--quiet", "--short", "HEAD")
    if not branch:
        branch = next(filter(None, map(variables.get, _BRANCH_VARIABLES)), None)
    commit = ask("rev-parse", "--quiet", "--verify", "HEAD") or None
    names = (ask("remote") or "").split()
    name = "origin" if "origin" in names else names[0] if len(names) == 1 else None
    remote = ask("config", "--get", f"remote.{name}.url") if name else None
    if remote and "://" in remote:
        remote = redact_url(remote)
    elif remote:  # host:path, where a user name before it may be a token
        host, colon, path = remote.partition(":")
        remote = f"{host.rpartition('@')[2]}{colon}{path}"
    # The repository's own settings may name programs that `git status` runs over its files. Those
    # of the user's settings, such as Git LFS, are the user's.
    settings = ask("config", "--list", "--show-scope", "--name-only") or "local\tfilter."
    own = ("local\tfilter.", "worktree\tfilter.")
    changes = None
    if not any(line.startswith(own) for line in settings.splitlines()):
        # The slowest last: what a large working tree leaves no time for is only this.
        changes = ask("status", "--porcelain", "--untracked-files=no", "--ignore-submodules")
    dirty = None if changes is None else bool(changes)
    return GitRecord(commit=commit, branch=branch, dirty=dirty, remote=remote or None)


def versions() -> dict[str, str]:
    """Of Python and the packages that decide a score."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from its sources
            found[name] = "unknown"
    return found
