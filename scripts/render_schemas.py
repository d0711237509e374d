"""Writes docs/schemas/run/*.json from the models of a run's files; a test fails when stale.

python scripts/render_schemas.py [--check]
"""

import sys
from pathlib import Path

import orjson
from pydantic import BaseModel

from assay.run.models import AnswerRow, Comparison, ReportFile, RunHeader

FOLDER = Path(__file__).parents[1] / "docs" / "schemas" / "run"
FILES: dict[str, type[BaseModel]] = {
    "run.json": RunHeader,
    "report.json": ReportFile,
    "answers.json": AnswerRow,
    "comparison.json": Comparison,
}
"""`answers.json` is about one line of `answers.jsonl`."""


def rendered() -> dict[str, bytes]:
    """The schemas by file name."""
    return {
        name: orjson.dumps(
            {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                **model.model_json_schema(mode="serialization"),
            },
            option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
        )
        for name, model in FILES.items()
    }


def main() -> None:
    """Write the files, or say with `--check` which ones are stale."""
    stored = {path.name: path.read_bytes() for path in FOLDER.glob("*.json")}
    if "--check" in sys.argv:
        stale = sorted(name for name, content in rendered().items() if stored.get(name) != content)
        if stale:
            sys.exit(f"stale in docs/schemas/run: {', '.join(stale)}")
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, content in rendered().items():
        (FOLDER / name).write_bytes(content)


if __name__ == "__main__":
    main()
