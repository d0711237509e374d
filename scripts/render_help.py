"""Writes docs/cli.md from `assay --help` of every verb, and docs/settings.md beside it.

python scripts/render_help.py [--check]
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from typer.main import get_command
from typer.testing import CliRunner

from assay.cli.app import app

sys.path.insert(0, str(Path(__file__).parents[1]))
from scripts import render_settings

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
INTRODUCTION = """# The command line

Made from `--help` by `scripts/render_help.py`; do not edit.

Every option can also be set by the variable named beside it, or in `assay.toml` in the working
folder (`top_k = 10` for every verb, or under `[eval]` for one). A flag wins over the variable, the
variable over the file, the file over the default.

Exit codes: 0 success, 1 a gate or check failed, 2 usage or input error, 3 the target could not be
reached, 130 interrupted.
"""


def commands() -> Iterator[tuple[str, ...]]:
    yield ()
    root = get_command(app)
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        yield (name,)
        for inner in getattr(command, "commands", {}):
            yield (name, inner)


def render() -> str:
    runner = CliRunner(env={"COLUMNS": "88", "TERMINAL_WIDTH": "88", "NO_COLOR": "1"})
    parts = [INTRODUCTION]
    for command in commands():
        result = runner.invoke(app, [*command, "--help"], prog_name="assay")
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
