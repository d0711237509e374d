"""Hooks of MkDocs: README.md is the first page, and linked files outside of docs/ are there.

On GitHub the pages link to files of the repository, `../benchmarks/README.md`. On the site those
are pages and files below `repository/`, and the links are changed as the pages are built. A link to
a file that does not exist is left as it is, so that a strict build fails on it.
"""

import posixpath
import re
import shutil
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
HOME = "index.md"
ALWAYS = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")
"""Files outside of docs/ that are in the navigation."""

_FOLDERS = ("schemas", "schemas/run")
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", flags=re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """A page that the navigation does not name yet is at its end."""
    listed = str(config.nav)
    pages = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    new = [page for page in pages if f"'{page}'" not in listed]
    if config.nav and new:
        config.nav.append({"More": new})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the first page, and everything outside of docs/ that a page links to."""
    waiting = [ROOT / "README.md", *(ROOT / name for name in ALWAYS)]
    pages = [Path(each.abs_src_path) for each in files.documentation_pages() if each.abs_src_path]
    for page in pages:
        waiting += _targets(page)
    for folder in _FOLDERS:
        listed = sorted(path.name for path in (DOCS / folder).glob("*.json"))
        text = f"# {folder}\n\n" + "".join(f"- [{name}]({name})\n" for name in listed)
        files.append(File.generated(config, f"{folder}/{HOME}", content=text))
    added = set[Path]()
    while waiting:
        path = waiting.pop()
        if path in added or path.is_relative_to(DOCS) or not path.is_file():
            continue
        added.add(path)
        files.append(File.generated(config, site_path(path), abs_src_path=str(path)))
        if path.suffix == ".md":
            waiting += _targets(path)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page with its links to where those files are on the site."""
    if page.file.abs_src_path is None:
        return markdown
    source = Path(page.file.abs_src_path)
    here = posixpath.dirname(page.file.src_uri)

    def change(match: re.Match[str]) -> str:
        path = (source.parent / match[2]).resolve()
        if path.is_relative_to(DOCS) and path.relative_to(DOCS).as_posix() in _FOLDERS:
            path /= HOME
        elif not path.is_file() or not path.is_relative_to(ROOT):
            return match[0]
        return f"{match[1]}{posixpath.relpath(site_path(path), here or '.')}{match[3]}"

    parts = _CODE.split(markdown)
    return "".join(
        part if place % 2 else _LINK.sub(change, part) for place, part in enumerate(parts)
    )


def on_post_build(config: MkDocsConfig) -> None:
    """The pages as they were written, beside their HTML: llms.txt links to them."""
    for path in DOCS.rglob("*.md"):
        target = Path(config.site_dir) / path.relative_to(DOCS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def site_path(path: Path) -> str:
    """Where a file of the repository is on the site."""
    if path == ROOT / "README.md":
        return HOME
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return f"repository/{path.relative_to(ROOT).as_posix()}"


def _targets(page: Path) -> list[Path]:
    """The files that a page links to, outside of code."""
    text = "".join(_CODE.split(page.read_text(encoding="utf-8"))[::2])
    links = (match[2] for match in _LINK.finditer(text))
    paths = [(page.parent / link).resolve() for link in links]
    return [path for path in paths if path.is_file() and path.is_relative_to(ROOT)]
