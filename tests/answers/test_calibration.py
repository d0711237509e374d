"""Agreement of judge and people, a mean that the judge's errors do not bias, and the command."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.llm_providers.model_server import ModelServer

from assay.answers.calibration import compare_with_labels, prediction_powered_mean, read_labels
from assay.answers.judge import TRUTH, Judgment
from assay.cli.app import judge_verbs
from assay.errors import DataError

SCALE = ("1", "2", "3", "4", "5")


def said(*votes: str | None, levels: tuple[str, ...] = TRUTH) -> Judgment:
    return Judgment(votes, levels, both_orders=False)


TRUE, FALSE, NONE = said("TRUE"), said("FALSE"), said(None)


def test_an_undecided_judge_agrees_with_nobody() -> None:
    labels = ["TRUE", "TRUE", "FALSE", "FALSE"]
    result = compare_with_labels(labels, [TRUE, NONE, NONE, TRUE])
    assert result.accuracy.mean == 0.25
    assert result.confusion == {
        "true": {"true": 1, "false": 0, "undecided": 1},
        "false": {"true": 1, "false": 0, "undecided": 1},
    }
    assert (result.undecided, result.unparseable_votes, result.flip_rate) == (2, 2, None)
    assert (result.corrected, result.uncorrected) == (None, None)


def test_a_lenient_judge_is_corrected_by_its_errors() -> None:
    """It lets one wrong answer in two pass; over the others it claims 0.75."""
    labels = ["TRUE"] * 20 + ["FALSE"] * 20
    rest = [TRUE] * 750 + [FALSE] * 250
    result = compare_with_labels(labels, [TRUE] * 30 + [FALSE] * 10, rest)
    assert (result.uncorrected, result.bias) == (0.75, 0.25)
    assert result.corrected is not None
    assert result.corrected.mean == pytest.approx(0.5)
    error, spread = 0.25 * 0.75 / 40, 0.75 * 0.25 / 1000
    reach = 1.959964 * np.sqrt(error + spread)
    assert result.corrected.low == pytest.approx(0.5 - reach, abs=1e-6)
    assert result.corrected.high == pytest.approx(0.5 + reach, abs=1e-6)


def test_a_judge_that_is_one_level_too_kind() -> None:
    labels = ["1", "2", "3", "4"] * 10
    ratings = [said(str(int(label) + 1), levels=SCALE) for label in labels]
    found = compare_with_labels(labels, ratings, ratings)
    assert (found.accuracy.mean, found.bias) == (0.0, 0.25)
    assert found.kappa == pytest.approx(1 - 1 / 3.5)
    assert found.confusion["3"]["4"] == 10
    assert found.uncorrected == pytest.approx(0.625)
    assert found.corrected is not None
    assert found.corrected.mean == pytest.approx(0.375)


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


def test_intervals_stay_between_0_and_1_and_need_two_labels() -> None:
    estimate = prediction_powered_mean([1, 1, 0], [0, 0, 0], [1, 1])
    assert (estimate.mean, estimate.high) == (1.0, 1.0)
    assert prediction_powered_mean([1], [1], [1, 0]).low is None


@pytest.mark.parametrize(("labels", "bound"), [(10, 0.3085), (1000, 0.00368)])
def test_a_judge_that_made_no_error_is_not_taken_for_certain(labels: int, bound: float) -> None:
    """The exact bound for 0 of so many at 95%, as tables have it."""
    found = prediction_powered_mean([1] * labels, [1] * labels, [1] * 500)
    assert (found.mean, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(1 - bound, abs=1e-4)


ROW = {"question": "q", "answer": "a", "reference": "r", "label": True}


def write(tmp_path: Path, *rows: object) -> Path:
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_labels_are_read_with_what_judges_said_before(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        ROW,
        {**ROW, "label": "FALSE", "verdict": True},
        {"label": None, "verdicts": ["true", False, "unparseable"]},
        {**ROW, "reference": None, "label": False},
    )
    rows = read_labels(path, TRUTH, "reference")
    assert [row.label for row in rows] == ["TRUE", "FALSE", None, "FALSE"]
    assert [row.recorded for row in rows] == [None, TRUE, said("TRUE", "FALSE", None), None]
    assert rows[3].reference is None


@pytest.mark.parametrize(
    ("row", "levels", "message"),
    [
        ({"answer": "a", "reference": "r", "label": True}, TRUTH, "jsonl:1: has no 'question'"),
        ({"question": "q", "answer": "a", "label": True}, TRUTH, "has no 'reference'"),
        ({**ROW, "label": "maybe"}, TRUTH, "a label is one of false, true; got 'maybe'"),
        ({**ROW, "verdicts": []}, TRUTH, "at least one verdict"),
        ({**ROW, "label": None}, TRUTH, "has no line with a label"),
        ({**ROW, "label": 9}, SCALE, "a label is one of 1, 2, 3, 4, 5; got 9"),
        ({**ROW, "label": 3, "contexts": "x"}, SCALE, "'contexts' must be a list of texts"),
    ],
)
def test_a_line_that_cannot_be_used_is_told(
    row: dict[str, object], levels: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as caught:
        read_labels(write(tmp_path, row), levels, "reference")
    assert message in str(caught.value)


def row(label: bool | None, **more: Any) -> dict[str, Any]:
    return {"question": "When?", "answer": "On 3 May", "reference": "3 May", "label": label} | more


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(judge_verbs, ["calibrate", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RAG_EVAL_PROVIDER", raising=False)
    monkeypatch.delenv("RAG_EVAL_PRICES", raising=False)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    rows = [row(True, verdict=True)] * 20 + [row(False, verdict=False)] * 15
    rows += [row(False, verdicts=[True, False, True])] * 5 + [row(None, verdict=True)] * 60
    return str(write(tmp_path, *rows))


def test_recorded_verdicts_need_no_model(recorded: str) -> None:
    content = json.loads(invoke(recorded, "--json"))
    assert content["judge"] == {"provider": "recorded"}
    assert content["accuracy"]["mean"] == pytest.approx(35 / 40)
    assert content["kappa"] == pytest.approx(0.75)
    assert content["confusion"]["false"] == {"true": 5, "false": 15, "undecided": 0}
    assert content["flip_rate"] == 1.0
    assert (content["labelled"], content["unlabelled"]) == (40, 60)
    assert content["uncorrected"] == 1.0
    assert content["corrected"]["mean"] == pytest.approx(0.875)
    assert "0.8750 [" in invoke(recorded)


def test_a_criterion_is_calibrated_alike(tmp_path: Path) -> None:
    (tmp_path / "depth.md").write_text("---\nscale: 1-5\n---\nHow deep is the answer?")
    lines: list[dict[str, object]]
    lines = [{"rating": 2 + place % 3, "label": 1 + place % 3} for place in range(40)]
    path = write(tmp_path, *lines, *[{"ratings": [3, 3]}] * 5)
    words = (str(path), "--criteria", str(tmp_path / "depth.md"))
    printed = json.loads(invoke(*words, "--json"))
    assert (printed["kind"], printed["labelled"]) == ("criterion.depth", 40)
    assert printed["judge"] == {"provider": "recorded"}


def test_a_model_is_asked_where_no_verdict_is_recorded(tmp_path: Path) -> None:
    path = write(tmp_path, row(True), row(False, answer="On 4 May"), row(True, verdict=True))
    with ModelServer().running() as server:
        arguments = (str(path), "--judge", f"openai:own@{server.url}", "--json")
        content = json.loads(invoke(*arguments, "--judge-set", "votes=3"))
        assert len(server.requests) == 8
        assert content["judge"]["provider"] == "openai:own"
        assert content["judge"]["votes"] == 4
        assert content["judge"]["prompts"]["judge_correctness"].startswith("judge_correctness@1+")
        assert content["judge"]["spending"]["calls"] == 8
        assert content["accuracy"]["mean"] == pytest.approx(2 / 3)
        again = json.loads(invoke(*arguments, "--judge-set", "votes=3"))
        assert len(server.requests) == 8  # the second run is answered by the cache
        assert again["judge"]["spending"]["cached"] == 8
        assert again["confusion"] == content["confusion"]


def test_a_judge_that_eval_would_refuse_is_called_so(tmp_path: Path) -> None:
    path = write(tmp_path, *[row(False, verdicts=[True, False, True])] * 5)
    content = json.loads(invoke(str(path), "--json"))
    assert "contradicted itself about 5 of 5 answers (100%)" in content["unreliable"]
