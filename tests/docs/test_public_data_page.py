"""docs/data.md: its commands run against a local mirror and hub, its tables name what is."""

import io
import json
import re
import shlex
import zipfile
from collections.abc import Iterator
from pathlib import Path

import ir_datasets
import pytest
from tests.data.file_server import file_server, publish
from tests.docs.page_commands import section
from typer.testing import CliRunner

from assay.cli.data import data_app
from assay.data import load_dataset
from assay.data.beir import sort_files

PAGE = section("data.md", "Public data sets")
COMMANDS = re.findall(r"^assay data .*$", PAGE, flags=re.MULTILINE)
PATHS = re.compile(r"`([\w./*-]+\.(?:jsonl|parquet|tsv)(?:\.gz)?)`")
FILES = {
    "corpus.jsonl": '{"_id": "d1", "text": "Tea is steeped."}\n',
    "queries.jsonl": '{"_id": "q1", "text": "tea?"}\n',
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
}


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "*")
    Path("docs.tsv").write_text("d1\tTea is steeped.\n")
    Path("queries.tsv").write_text("q1\ttea?\n")
    Path("qrels.txt").write_text("q1 0 d1 1\n")
    made = ir_datasets.create_dataset("docs.tsv", "queries.tsv", "qrels.txt")
    monkeypatch.setitem(ir_datasets.registry._registered, "vaswani", made)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(f"scifact/{name}", content)
    with file_server() as server:
        monkeypatch.setenv("ASSAY_BEIR_URL", server.url)
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        server.files["/scifact.zip"] = packed.getvalue()
        publish(server, "mteb/scifact", {name: text.encode() for name, text in FILES.items()})
        yield


@pytest.mark.parametrize("command", COMMANDS)
def test_its_commands_run(command: str) -> None:
    result = CliRunner().invoke(data_app, shlex.split(command)[2:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    if "--out" in command:
        out = shlex.split(command)[-1]
        assert load_dataset(out).judgments["test"] == {"q1": {"d1": 1}}


def test_the_page_has_the_three_sources() -> None:
    assert [command.split()[2:4][-1].partition(":")[0] for command in COMMANDS] == [
        "beir",
        "hf",
        "ir_datasets",
    ]


def test_every_layout_of_the_table_is_recognized() -> None:
    rows = re.findall(r"^\| `[^|]*corpus[^|]*\|[^|]*\|[^|]*\|$", PAGE, flags=re.MULTILINE)
    assert len(rows) == 4
    for row in rows:
        cells = [
            re.findall(r"`([\w./*-]+\.(?:jsonl|parquet|tsv)(?:\.gz)?)`", each)
            for each in row.split("|")
        ]
        corpus, queries, qrels = cells[1:4]
        for role, paths in (("corpus", corpus), ("queries", queries), ("qrels", qrels)):
            for path in paths:
                (files,) = sort_files([path.replace("*", "00000-of-00001")]).values()
                assert getattr(files, role), (role, path)


def test_the_files_of_a_download_have_a_record(tmp_path: Path) -> None:
    load_dataset("beir:scifact")
    record = json.loads((tmp_path / "cache" / "beir" / "scifact.zip.json").read_text())
    assert set(record) == {"url", "bytes", "sha256", "md5", "downloaded"}
