"""docs/search.md: the commands for shards of an index run as they are shown."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.cli.app import app

_PAGE = Path(__file__).parents[2] / "docs" / "search.md"


def test_the_shards_of_the_page_become_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("QDRANT_URL", "QDRANT_PATH", "COLLECTION_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("QDRANT_PATH", str(tmp_path / "index"))
    block = re.search(r"### By any scheduler: shards\n\n```sh\n(.*?)```", _PAGE.read_text(), re.S)
    assert block is not None
    commands = [line.split("#")[0].split() for line in block[1].splitlines()]
    assert [words[1] for words in commands] == ["index", "index", "merge"]
    for words in commands:
        given = [
            each
            for word in words[1:]
            for each in (sorted(map(str, Path().glob(word))) if "*" in word else [word])
        ]
        result = CliRunner().invoke(app, given)
        assert result.exit_code == 0, (words, result.output, result.exception)
    assert "built, 0 texts embedded" in result.output  # they come from the parts
