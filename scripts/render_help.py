"""Writes docs/cli.md from `assay --help` of every verb, and docs/settings.md beside it.

python scripts/render_help.py [--check]
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from assay.cli.app import app
from assay.cli.verb import VerbGroup

sys.path.insert(0, str(Path(__file__).parents[1]))
from scripts import render_settings

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
INTRODUCTION = """# The command line

Made from `--help-all` by `scripts/render_help.py`; do not edit. `--help` shows the usual options.

Every option can also be set as `ASSAY_NAME` in the environment (`ASSAY_TOP_K=10`; another name is
in brackets), or in `assay.toml` in the working folder or one above it (`top_k = 10` for every verb,
or under `[eval]` for one). A flag wins over the variable, the variable over the file, the file over
the default.

Exit codes: 0 success, 1 a gate or check failed, 2 usage or input error, 3 the target could not be
reached, 130 interrupted.
"""


def commands() -> Iterator[tuple[str, ...]]:
    yield ()
    for name, entry in app.verbs.items():
        yield (name,)
        if isinstance(entry, VerbGroup):
            for inner in entry.verbs:
                yield (name, inner)


def render() -> str:
    runner = CliRunner(env={"COLUMNS": "88", "NO_COLOR": "1"})
    parts = [INTRODUCTION]
    groups = [(), *((name,) for name, entry in app.verbs.items() if isinstance(entry, VerbGroup))]
    for command in commands():
        flag = "--help" if command in groups else "--help-all"
        result = runner.invoke(app, [*command, flag], prog_name="assay")
        text = "\n".join(line.rstrip() for line in result.output.strip().splitlines())
        parts.append(f"## `{' '.join(('assay', *command))}`\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def main() -> None:
    page = render()
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page else f"{PAGE} is stale")
    PAGE.write_text(page, encoding="utf-8")
    render_settings.main()


if __name__ == "__main__":
    main()
