"""Builds sdist and wheel, checks them, and runs the README's examples from the installed wheel.

python scripts/dist.py [--out dist] [--venv DIR] [--no-install]

The wheel is installed into an empty environment.
The search service of the README is a small server here, with the answers of the real one.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

ROOT = Path(__file__).parents[1]
SERVICE = "localhost:9200"
MAX_MEMBER = 4_000_000
# What never belongs into a release: caches, runs, environments, archives of data sets.
RUBBISH = re.compile(
    r"__pycache__|\.py[co]$|\.(?:mypy|ruff|pytest)_cache|\.hypothesis|\.venv|\.git/|(?:^|/)runs/"
    r"|\.DS_Store|\.env|\.zip$|nfcorpus.*\.jsonl|scifact.*\.jsonl"
)
CORPUS = re.compile(r"(?:corpus|queries)\.jsonl(?:\.gz)?$")
OWN_CORPUS = "assay/data/notes/"
"""The one data set that may be inside: it was written for Assay."""


def build(out: Path, project: Path = ROOT) -> tuple[Path, Path]:
    """The sdist and the wheel of a project, in an empty folder."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out.resolve())]
    subprocess.run(command, cwd=project, check=True, stdout=subprocess.DEVNULL)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


def build_model(out: Path) -> tuple[Path, ...]:
    """The archives of the embedding model, added to `out`."""
    archives = build(out / "model", ROOT / "packages" / "agent-assay-minilm")
    moved = tuple(each.rename(out / each.name) for each in archives)
    (out / "model").rmdir()
    return moved


def members(archive: Path) -> dict[str, int]:
    """The files in an archive with their sizes."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {each.filename: each.file_size for each in wheel.infolist()}
    with tarfile.open(archive) as sdist:
        return {each.name.partition("/")[2]: each.size for each in sdist if each.isfile()}


def problems(archive: Path) -> Iterator[str]:
    """What is in an archive that should not be, or is missing."""
    files = members(archive)
    for name, size in files.items():
        if RUBBISH.search(name):
            yield f"{name} does not belong into a release"
        if size > MAX_MEMBER:
            yield f"{name} has {size} bytes, the most is {MAX_MEMBER}"
        if CORPUS.search(name) and OWN_CORPUS not in name and not name.startswith("tests/"):
            yield f"{name} looks like the text of a data set"
    tree = {path.relative_to(ROOT / "src").as_posix() for path in _sources()}
    if archive.suffix == ".whl":
        own = {name for name in files if not re.match(r"agent_assay-[^/]+\.dist-info/", name)}
        yield from (f"{name} is not in the wheel" for name in sorted(tree - own))
        yield from (f"{name} is in the wheel, and not in src" for name in sorted(own - tree))
    else:
        yield from (
            f"src/{name} is not in the sdist" for name in tree if f"src/{name}" not in files
        )
        for name in ("README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "Makefile"):
            if name not in files:
                yield f"{name} is not in the sdist"


def _sources() -> Iterator[Path]:
    for path in (ROOT / "src").rglob("*"):
        if path.is_file() and path.suffix not in (".pyc", ".pyo"):
            yield path


def check_metadata(archives: tuple[Path, ...]) -> None:
    """`twine check`, which fails where an index would refuse the description."""
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, archives)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"twine check failed:\n{done.stdout}{done.stderr}")


def install(wheel: Path, venv: Path) -> Path:
    """An empty environment with the wheel and what it depends on; its folder of programs."""
    programs = venv / ("Scripts" if os.name == "nt" else "bin")
    command = ["sh", str(ROOT / "scripts" / "install.sh"), str(venv), str(wheel)]
    clean = _environment(programs)
    subprocess.run(command, check=True, env={**clean, "PYTHON": sys.executable})
    return programs


def _environment(programs: Path) -> dict[str, str]:
    """Without what names this checkout, or settings of Assay."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ASSAY_", "PYTHONPATH", "VIRTUAL_ENV", "NFCORPUS"))
    }
    return {**kept, "PATH": f"{programs}{os.pathsep}{kept['PATH']}"}


def readme_examples() -> tuple[str, list[str]]:
    """The module `my_search.py` of the README, and the commands that use it or the service."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    module = "\n\n".join(re.findall(r"```python[^\n]*\n(.*?)```", text, flags=re.DOTALL))
    shell = "\n".join(re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL))
    commands = [line for line in shell.splitlines() if line.startswith("assay ")]
    return module, [line for line in commands if not line.startswith("assay serve ")]


def try_readme(programs: Path, folder: Path) -> None:
    """Run the README's examples in `folder`; exit where one fails."""
    module, commands = readme_examples()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "my_search.py").write_text(module, encoding="utf-8")
    environment = {**_environment(programs), "ASSAY_CACHE": str(folder / "cache")}
    ids = _answers(programs, environment, folder)
    (folder / "questions.csv").write_text(f"query,doc_ids\nwhat is first?,{ids[0]};{ids[1]}\n")
    with _Service(ids) as port:
        for command in commands:
            words = shlex.split(command.replace(SERVICE, f"localhost:{port}"))
            done = subprocess.run(
                words, cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            # A gate of an example may fail: that is what it shows.
            if done.returncode not in ((0, 1) if "--gate" in words else (0,)):
                sys.exit(f"{command}\nexits with {done.returncode}:\n{done.stdout}{done.stderr}")
            print(f"ok  {command}")


def _answers(programs: Path, environment: Mapping[str, str], folder: Path) -> list[str]:
    """Ids of documents for the service to return: those of the first query will do."""
    code = "import assay; print(*list(assay.load_dataset('notes').documents)[:20])"
    done = subprocess.run(
        [programs / "python", "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


class _Service:
    """A search service that answers as Elasticsearch does."""

    def __init__(self, ids: list[str]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                size = int(parse_qs(urlsplit(self.path).query).get("size", ["5"])[0])
                hits = [{"_id": each, "_score": 1.0} for each in ids[:size]]
                body = json.dumps({"hits": {"hits": hits}}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> int:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return int(self.server.server_address[1])

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def main() -> None:
    """Build, check, install, try."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--venv", type=Path, help="keep the environment in this folder")
    parser.add_argument("--no-install", action="store_true", help="only build and check")
    given = parser.parse_args()
    archives = build(given.out)
    wrong = [f"{each.name}: {problem}" for each in archives for problem in problems(each)]
    if wrong:
        sys.exit("\n".join(wrong))
    every = (*archives, *build_model(given.out))
    check_metadata(every)
    for each in every:
        print(f"ok  {each.name}, {each.stat().st_size:,} bytes, {len(members(each))} files")
    if given.no_install:
        return
    with tempfile.TemporaryDirectory(prefix="assay-dist-") as temporary:
        place = Path(temporary)
        programs = install(archives[1], given.venv or place / "venv")
        try_readme(programs, place / "project")


if __name__ == "__main__":
    main()
