"""Calibrating a criterion: agreement, weighted kappa, bias, the command."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.answers.calibration import calibrate_ratings, read_rating_labels
from assay.answers.criteria import Criterion, rating_of
from assay.cli.app import app
from assay.errors import DataError

DEPTH = Criterion("depth", "How deep?", ("1", "2", "3", "4", "5"))
POLITE = Criterion("polite", "Polite?")


def test_a_judge_that_is_one_level_too_kind() -> None:
    labels = ["1", "2", "3", "4"] * 10
    ratings = [rating_of(DEPTH, [str(int(label) + 1)] * 2) for label in labels]
    found = calibrate_ratings(DEPTH, labels, ratings, ratings)
    assert found.agreement.mean == 0.0
    assert found.within_one.mean == 1.0
    assert found.bias is not None
    assert found.bias.mean == pytest.approx(1.0)
    assert found.kappa == pytest.approx(1 - 1 / 3.5)
    assert found.confusion["3"]["4"] == 10
    assert found.uncorrected == pytest.approx(0.625)
    assert found.corrected is not None
    assert found.corrected.mean == pytest.approx(0.375)


@pytest.mark.parametrize(("kinder", "labels"), [(0, 12), (2, 10), (12, 12)])
def test_the_interval_of_the_bias_reaches_to_where_the_judge_may_be_stricter(
    kinder: int, labels: int
) -> None:
    ratings = [rating_of(DEPTH, [str(2 + (n < kinder))] * 2) for n in range(labels)]
    bias = calibrate_ratings(DEPTH, ["2"] * labels, ratings).bias
    assert bias is not None
    assert bias.low is not None
    assert bias.high is not None
    assert -4 < bias.low < 0.1 < bias.high < 4
    assert bias.low < bias.mean - 0.5
    assert bias.high > bias.mean + 0.5


def test_an_undecided_judge_agrees_with_nobody() -> None:
    ratings = [rating_of(POLITE, ["YES", "NO"]), rating_of(POLITE, ["YES", "YES"])]
    found = calibrate_ratings(POLITE, ["YES", "YES"], ratings)
    assert found.agreement.mean == 0.5
    assert (found.undecided, found.differing) == (1, 0.5)
    assert found.confusion["YES"] == {"NO": 0, "YES": 1, "undecided": 1}
    assert found.corrected is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"question": "Q?", "answer": "A.", "label": 9}, "a level is one of 1, 2, 3, 4, 5, got 9"),
        ({"question": "Q?", "label": 3}, "has no 'answer', which the judge needs"),
        ({"question": "Q?", "answer": "A."}, "has no line with a label"),
        ({"ratings": [], "label": 3}, "must hold at least one rating"),
    ],
)
def test_wrong_lines_are_named(tmp_path: Path, line: dict[str, object], message: str) -> None:
    (tmp_path / "labels.jsonl").write_text(json.dumps(line))
    with pytest.raises(DataError, match=message):
        read_rating_labels(tmp_path / "labels.jsonl", DEPTH)


def test_labels_may_be_true_and_false(tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").write_text('{"rating": true, "label": false}')
    (row,) = read_rating_labels(tmp_path / "labels.jsonl", POLITE)
    assert row.label == "NO"
    assert row.recorded is not None
    assert row.recorded.votes == ("YES",)


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "depth.md").write_text("---\nscale: 1-5\n---\nHow deep is the answer?")
    lines: list[dict[str, object]]
    lines = [{"rating": 2 + place % 3, "label": 1 + place % 3} for place in range(40)]
    lines += [{"ratings": [3, 3]}] * 5
    (tmp_path / "labels.jsonl").write_text("\n".join(map(json.dumps, lines)))
    words = ["judge", "calibrate", str(tmp_path / "labels.jsonl")]
    words += ["--criteria", str(tmp_path / "depth.md")]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert "+1.0000 levels above people" in " ".join(shown.output.split())
    printed = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert printed["within_one"]["mean"] == 1.0
    assert printed["judge"] == {"provider": "recorded"}
