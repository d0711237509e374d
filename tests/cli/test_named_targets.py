"""`[target.NAME]` in assay.toml."""

from pathlib import Path

import pytest

from assay.cli.app import app
from assay.cli.settings import read_settings
from assay.errors import UsageError
from assay.run.config import named_target

FILE = """
top_k = 3
[target.docs]
target = "rest:http://localhost:9200/{query}"
map = "ids=hits[].id"
request = { q = "{query}" }
header = ["A: b", "C: d"]
timeout = 5
[target.other]
target = "builtin:bm25"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "assay.toml").write_text(FILE)
    return tmp_path


def test_a_name_stands_for_a_target_with_its_settings(folder: Path) -> None:
    assert named_target("docs", folder) == (
        "rest:http://localhost:9200/{query}",
        {
            "map": ("ids=hits[].id",),
            "request": '{"q": "{query}"}',
            "header": ("A: b", "C: d"),
            "timeout": 5,
        },
    )
    assert named_target("builtin:bm25", folder) is None
    assert named_target("", folder) is None
    assert read_settings(app, folder)["eval",] == {"top_k": 3}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("dcos", FILE, "has no [target.dcos]; it has: docs, other. Did you mean 'docs'?"),
        ("x", '[target.x]\nmap = "a=b"', 'needs target = "rest:URL"'),
        ("x", '[target.x]\ntarget = "builtin:bm25"\nsize = 3', "'size' is not one of target,"),
        ("x", '[target.x]\ntarget = "builtin:bm25"\ntop_k = "x"', "must be an integer, got 'x'"),
        ("x", '[target.x]\ntarget = "builtin:bm25"\nheader = [1]', "a list of strings, got [1]"),
    ],
)
def test_what_is_wrong_in_a_table_is_named(
    name: str, content: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "assay.toml").write_text(content)
    with pytest.raises(UsageError) as caught:
        named_target(name, tmp_path)
    assert words in str(caught.value)
