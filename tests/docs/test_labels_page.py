"""docs/labels.md: a corpus that turned over, from the wrong verdict to labels that fit again."""

import csv
import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay import evaluate
from assay.cli.app import app
from assay.data import load_dataset
from assay.data.beir import write_beir
from assay.data.dataset import Dataset
from assay.run import label_fit
from assay.run.label_fit import ENOUGH

PAGE = (Path(__file__).parents[2] / "docs" / "labels.md").read_text(encoding="utf-8")
FLAT = " ".join(PAGE.split())
COMMANDS = re.findall(r"^assay .*$", PAGE, flags=re.MULTILINE)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    old = load_dataset("notes")
    write_beir(old, Path("old-set"))
    with Path("new-documents.jsonl").open("w", encoding="utf-8") as file:
        for number, document in enumerate(old.documents.values()):
            text = document.full_text
            row = {"doc_id": f"page-{number}", "text": text if number % 10 else f"{text} Edited."}
            file.write(json.dumps(row) + "\n")


def invoke(command: str) -> str:
    result = CliRunner().invoke(app, shlex.split(command)[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_labels_are_carried_over_as_the_page_says() -> None:
    propose, accept = [command for command in COMMANDS if command.startswith("assay data rekey")]
    assert "matched with certainty" in invoke(propose)
    with Path("rekey.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["how"] for row in rows if row["accept"] == "yes"} <= {"same", "near"}
    for row in rows:
        row["accept"] = row["accept"] or ("yes" if float(row["score"]) > 0.6 else "")
    with Path("rekey.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    assert "judgments carried over" in invoke(accept)
    old, new = load_dataset("old-set"), load_dataset("new-set")
    assert [q.id for q in new.queries_in("test")] == [q.id for q in old.queries_in("test")]
    assert all(
        doc_id.startswith("page-") for each in new.judgments["test"].values() for doc_id in each
    )


def test_a_threshold_needs_no_look_and_says_what_it_did() -> None:
    output = invoke(
        "assay data rekey old-set new-documents.jsonl --threshold 0.9 --out new-set --json"
    )
    value = json.loads(output[output.index("{") : output.rindex("}") + 1])
    assert 0 < value["carried"] <= value["judgments"]
    assert Path("rekey.csv").exists()


@pytest.mark.parametrize(
    "extra",
    ["--out x", "--threshold 0.9", "--accept rekey.csv", "--threshold 1 --accept a --out y"],
)
def test_nothing_is_carried_over_without_a_decision_and_a_place(extra: str) -> None:
    command = ["data", "rekey", "old-set", "new-documents.jsonl", *shlex.split(extra)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code != 0
    assert not Path("x").exists()
    assert not Path("rekey.csv").exists()


def test_the_overlap_command_runs() -> None:
    (command,) = [each for each in COMMANDS if "--overlap" in each]
    data = Dataset.from_dicts({"q1": "x"}, {"q1": ["a"]})
    runs = [evaluate(lambda q, k, found=found: found, data) for found in (["a"], ["b"])]
    named = command.replace("RUN_A", str(runs[0].folder)).replace("RUN_B", str(runs[1].folder))
    assert "Only judgments can tell" in " ".join(invoke(named).split())


def test_the_page_has_the_limits_of_the_code() -> None:
    assert f"lost more than {label_fit.LOST_FROM_CORPUS:.0%} of the judged" in FLAT
    assert f"less than {label_fit.STILL_RETURNED:.0%} come back" in FLAT
    assert f"at least {label_fit.NEW_IDS:.0%} of the ids" in FLAT
    assert f"less than {ENOUGH:.0%} of the first places are judged" in FLAT
    fit = label_fit.fit_of(
        label_fit.LabelCoverage(judged=104, in_corpus=None, returned=98),
        label_fit.LabelCoverage(judged=104, in_corpus=None, returned=0),
        1.0,
        documents_changed=False,
    )
    assert f"T{fit.words[1:]}." in FLAT
