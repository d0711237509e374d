"""Agreement of judge and people, and a mean that the judge's errors do not bias."""

import json
from pathlib import Path

import numpy as np
import pytest

from assay.answers.calibration import calibrate_judge, prediction_powered_mean, read_labels
from assay.answers.judge import Judgment, Vote
from assay.errors import DataError, UsageError
from assay.metrics.statistics import cohen_kappa

TRUE, FALSE, NONE = (Judgment((vote,)) for vote in (Vote.TRUE, Vote.FALSE, Vote.UNPARSEABLE))


def test_kappa_of_the_textbook() -> None:
    """Cohen's measure on 20, 5, 10, 15 is 0.4: (0.7 - 0.5) / (1 - 0.5)."""
    labels = [True] * 25 + [False] * 25
    verdicts = [True] * 20 + [False] * 5 + [True] * 10 + [False] * 15
    assert cohen_kappa(labels, verdicts) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("labels", "verdicts", "kappa"),
    [
        ([True, False], [True, False], 1.0),
        ([True, False], [False, True], -1.0),
        ([True, True, False, False], [True, False, True, False], 0.0),
        ([True, True], [True, True], None),
        ([True, True], [None, None], 0.0),
    ],
)
def test_kappa_where_it_is_plain(
    labels: list[bool], verdicts: list[bool | None], kappa: float | None
) -> None:
    assert cohen_kappa(labels, verdicts) == kappa


def test_an_undecided_judge_agrees_with_nobody() -> None:
    result = calibrate_judge([True, True, False, False], [TRUE, NONE, NONE, TRUE])
    assert result.accuracy.mean == 0.25
    assert result.confusion == {
        "true": {"true": 1, "false": 0, "undecided": 1},
        "false": {"true": 1, "false": 0, "undecided": 1},
    }
    assert (result.undecided, result.unparseable_votes, result.flip_rate) == (2, 2, None)
    assert (result.corrected, result.uncorrected) == (None, None)


def test_a_lenient_judge_is_corrected_by_its_errors() -> None:
    """It lets one wrong answer in two pass; over the others it claims 0.75."""
    labels = [True] * 20 + [False] * 20
    judged = [TRUE] * 30 + [FALSE] * 10
    rest = [TRUE] * 750 + [FALSE] * 250
    result = calibrate_judge(labels, judged, rest)
    assert result.uncorrected == 0.75
    assert result.corrected is not None
    assert result.corrected.mean == pytest.approx(0.5)
    error, spread = 0.25 * 0.75 / 40, 0.75 * 0.25 / 1000
    reach = 1.959964 * np.sqrt(error + spread)
    assert result.corrected.low == pytest.approx(0.5 - reach, abs=1e-6)
    assert result.corrected.high == pytest.approx(0.5 + reach, abs=1e-6)


def test_the_interval_holds_the_truth_as_often_as_it_claims() -> None:
    """A biased judge, 2,000 experiments: 95% within the noise of the count."""
    chance, held, naive = np.random.default_rng(5), 0, 0
    for _ in range(2000):
        truth = chance.random(1100) < 0.6
        judged = np.where(truth, chance.random(1100) < 0.95, chance.random(1100) < 0.3)
        estimate = prediction_powered_mean(truth[:100], judged[:100], judged[100:])
        assert estimate.low is not None
        assert estimate.high is not None
        held += estimate.low <= 0.6 <= estimate.high
        naive += abs(judged[100:].mean() - 0.6) < 0.03
    assert 0.93 <= held / 2000 <= 0.97
    assert naive / 2000 < 0.05  # the judge alone is almost always wrong by more than that


def test_a_good_judge_makes_the_interval_shorter_than_labels_alone() -> None:
    chance = np.random.default_rng(7)
    truth = chance.random(5000) < 0.6
    judged = np.where(chance.random(5000) < 0.95, truth, ~truth)
    powered = prediction_powered_mean(truth[:200], judged[:200], judged[200:])
    alone = calibrate_judge(truth[:200].tolist(), [TRUE] * 200).labels_mean
    assert powered.low is not None
    assert powered.high is not None
    assert alone.low is not None
    assert alone.high is not None
    assert powered.high - powered.low < 0.75 * (alone.high - alone.low)


def test_intervals_stay_between_0_and_1_and_need_two_labels() -> None:
    estimate = prediction_powered_mean([1, 1, 0], [0, 0, 0], [1, 1])
    assert (estimate.mean, estimate.high) == (1.0, 1.0)
    assert prediction_powered_mean([1], [1], [1, 0]).low is None


def test_a_judge_that_made_no_error_on_few_labels_is_not_taken_for_certain() -> None:
    few = prediction_powered_mean([1] * 10, [1] * 10, [1] * 500)
    many = prediction_powered_mean([1] * 1000, [1] * 1000, [1] * 500)
    assert (few.mean, few.high) == (1.0, 1.0)
    # The exact bound for 0 of 10 at 95%, as tables have it.
    assert few.low == pytest.approx(1 - 0.3085, abs=1e-4)
    assert many.low == pytest.approx(1 - 0.00368, abs=1e-4)


@pytest.mark.parametrize(
    ("labels", "judged", "rest"),
    [([1], [1, 0], [1]), ([], [], [1]), ([1], [1], []), ([1], [float("nan")], [1])],
)
def test_what_cannot_be_estimated_is_refused(
    labels: list[float], judged: list[float], rest: list[float]
) -> None:
    with pytest.raises(UsageError):
        prediction_powered_mean(labels, judged, rest)


def test_calibration_needs_labels() -> None:
    with pytest.raises(UsageError, match="no answer has a label"):
        calibrate_judge([], [], [TRUE])
    with pytest.raises(UsageError, match="got 1 and 2"):
        calibrate_judge([True], [TRUE, TRUE])


def write(tmp_path: Path, *rows: object) -> Path:
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


ROW = {"question": "q", "answer": "a", "reference": "r", "label": True}


def test_labels_are_read_with_what_judges_said_before(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        ROW,
        {**ROW, "label": "FALSE", "verdict": True},
        {"label": None, "verdicts": ["true", False, "unparseable"]},
        {**ROW, "reference": None, "label": False},
    )
    rows = read_labels(path)
    assert [row.label for row in rows] == [True, False, None, False]
    assert rows[0].recorded is None
    assert rows[1].recorded == TRUE
    assert rows[2].recorded == Judgment((Vote.TRUE, Vote.FALSE, Vote.UNPARSEABLE))
    assert rows[3].reference is None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"answer": "a", "reference": "r", "label": True}, "labels.jsonl:1: has no 'question'"),
        ({"question": "q", "answer": "a", "label": True}, "no 'reference'; add it, or null"),
        ({**ROW, "label": "maybe"}, "'label' must be true or false, got 'maybe'"),
        ({**ROW, "label": 1}, "'label' must be true or false, got 1"),
        ({**ROW, "verdict": "perhaps"}, "a verdict is true, false or 'unparseable'"),
        ({**ROW, "verdicts": []}, "at least one verdict"),
        ({**ROW, "label": None}, "has no line with a label"),
        ({**ROW, "answer": 7}, "'answer' must be a string"),
    ],
)
def test_a_line_that_cannot_be_used_is_told(
    row: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as caught:
        read_labels(write(tmp_path, row))
    assert message in str(caught.value)
