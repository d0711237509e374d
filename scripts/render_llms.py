"""Writes docs/llms.txt, the list of the docs for language models; a test fails when it is stale.

python scripts/render_llms.py [--check]

The order is that of the site's navigation. A page is named by its heading and described by its
first sentence.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGE = DOCS / "llms.txt"
INTRODUCTION = (
    "# Assay\n\n> Measures retrieval agents: search services, retrievers, RAG applications, A2A "
    "and MCP agents. Reports how good they are, with confidence intervals, whether retrieval or "
    "generation is at fault, whether they follow their protocol, and what changed since the last "
    "run. A command line (`assay`), a Python package and a web UI; `pip install agent-assay`.\n\n"
    "The commands that matter, for an assistant that measures what it changed, are in "
    "skills/assay/SKILL.md.\n"
)
_LENGTH = 240


def render() -> str:
    """The whole file."""
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    parts, listed = [INTRODUCTION], set[str]()
    for section in nav:
        for title, pages in section.items():
            own = (
                [page for page in pages if (DOCS / page).is_file()]
                if isinstance(pages, list)
                else []
            )
            listed.update(own)
            if own:
                parts.append(f"## {title}\n\n" + "\n".join(map(_line, own)) + "\n")
    rest = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    if more := [page for page in rest if page not in listed]:
        parts.append("## More\n\n" + "\n".join(map(_line, more)) + "\n")
    return "\n".join(parts)


def _line(page: str) -> str:
    text = (DOCS / page).read_text(encoding="utf-8")
    heading = re.search(r"^# (.+)$", text, flags=re.MULTILINE)
    about = next(_sentences(text), "")
    return f"- [{heading[1] if heading else page}]({page})" + (f": {about}" if about else "")


def _sentences(text: str) -> Iterator[str]:
    """The first sentence of each paragraph, without code, tables and marks."""
    for paragraph in re.sub(r"```.*?```", "", text, flags=re.DOTALL).split("\n\n"):
        words = " ".join(paragraph.split())
        if not words or words[0] in "#|>-<!" or not words[0].isupper():
            continue
        plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", words).replace("**", "")
        first = re.split(r"(?<=[.:])\s+(?=[A-Z`])|:$", plain)[0]
        yield first if len(first) <= _LENGTH else f"{first[:_LENGTH].rsplit(' ', 1)[0]}…"


def main() -> None:
    """Write the file, or say that it is stale."""
    page = render()
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page else f"{PAGE} is stale")
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
