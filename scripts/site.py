"""Builds the docs as a site: `python scripts/site.py [SITE]`, by default into build/site.

The pages link to files of the repository (`../benchmarks/README.md`), as GitHub shows them. Here
all of them are copied to build/pages: README.md as the first page, files outside of docs/ below
`repository/`, with their links changed. MkDocs builds that folder strictly: a broken link fails.
"""

import os
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = ROOT / "build" / "pages"
IN_NAVIGATION = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")
FOLDERS = ("schemas", "schemas/run")
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", flags=re.DOTALL)


def site_path(path: Path) -> str:
    """Where a file of the repository is on the site."""
    if path == ROOT / "README.md":
        return "index.md"
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return f"repository/{path.relative_to(ROOT).as_posix()}"


def copy_page(path: Path) -> list[Path]:
    """Write a page with the links of the site; the files that it links to."""
    linked: list[Path] = []
    here = posixpath.dirname(site_path(path)) or "."

    def change(match: re.Match[str]) -> str:
        target = (path.parent / match[2]).resolve()
        if target.is_relative_to(DOCS) and target.relative_to(DOCS).as_posix() in FOLDERS:
            target /= "index.md"
        elif not target.is_file() or not target.is_relative_to(ROOT):
            return match[0]  # MkDocs says that it is broken
        else:
            linked.append(target)
        return f"{match[1]}{posixpath.relpath(site_path(target), here)}{match[3]}"

    parts = _CODE.split(path.read_text(encoding="utf-8"))
    parts[::2] = [_LINK.sub(change, part) for part in parts[::2]]
    out = PAGES / site_path(path)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(parts), encoding="utf-8")
    return linked


def assemble() -> None:
    """Fill build/pages."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(DOCS, PAGES)
    for folder in FOLDERS:
        names = sorted(path.name for path in (DOCS / folder).glob("*.json"))
        text = f"# {folder}\n\n" + "".join(f"- [{name}]({name})\n" for name in names)
        (PAGES / folder / "index.md").write_text(text, encoding="utf-8")
    waiting = [ROOT / "README.md", *DOCS.rglob("*.md"), *(ROOT / name for name in IN_NAVIGATION)]
    done = set[Path]()
    while waiting:
        path = waiting.pop()
        if path in done:
            continue
        done.add(path)
        if path.suffix == ".md":
            waiting += copy_page(path)
        elif not path.is_relative_to(DOCS):
            out = PAGES / site_path(path)
            out.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, out)


def main() -> None:
    """Assemble, build, and put the pages as they were written beside their HTML, for llms.txt."""
    site = Path(sys.argv[1] if sys.argv[1:] else ROOT / "build" / "site")
    assemble()
    # Not --quiet: it hides the warnings that --strict fails on, and then nothing fails.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    # Without the variable, the theme prints a note about another generator.
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=env, check=False)
    if built.returncode:
        sys.exit(built.returncode)
    for path in DOCS.rglob("*.md"):
        shutil.copyfile(path, site / path.relative_to(DOCS))


if __name__ == "__main__":
    main()
