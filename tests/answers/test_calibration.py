"""Agreement of judge and people, a mean that the judge's errors do not bias, and the command."""

import itertools
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


@pytest.mark.parametrize(
    ("row", "levels", "message"),
    [
        ({"answer": "a", "reference": "r", "label": True}, TRUTH, "jsonl:1: has no 'question'"),
        ({"question": "q", "answer": "a", "label": True}, TRUTH, "has no 'reference'"),
        ({**ROW, "label": "maybe"}, TRUTH, "a label is one of false, true; got 'maybe'"),
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


def test_a_criterion_is_calibrated_alike(tmp_path: Path) -> None:
    (tmp_path / "depth.md").write_text("---\nscale: 1-5\n---\nHow deep is the answer?")
    path = write(tmp_path, *[{**ROW, "label": 1 + place % 3} for place in range(40)])
    words = (str(path), "--criteria", str(tmp_path / "depth.md"), "--json")
    with ModelServer().running() as server:
        server.reply = lambda _: "4"
        printed = json.loads(invoke(*words, "--judge", f"openai:own@{server.url}"))
    assert (printed["kind"], printed["labelled"]) == ("criterion.depth", 40)
    assert printed["judged_mean"] == 0.75


def test_a_judge_is_asked_once_about_each_line(tmp_path: Path) -> None:
    path = write(tmp_path, row(True), row(False, answer="On 4 May"), row(None, answer="3 May"))
    with ModelServer().running() as server:
        arguments = (str(path), "--judge", f"openai:own@{server.url}", "--json")
        content = json.loads(invoke(*arguments, "--judge-set", "votes=3"))
        assert len(server.requests) == 12
        assert content["judge"]["provider"] == "openai:own"
        assert content["judge"]["votes"] == 4
        assert content["judge"]["prompts"]["judge_correctness"].startswith("judge_correctness@1+")
        assert content["judge"]["spending"]["calls"] == 12
        assert content["accuracy"]["mean"] == 0.5
        again = json.loads(invoke(*arguments, "--judge-set", "votes=3"))
        assert len(server.requests) == 12  # the second run is answered by the cache
        assert again["judge"]["spending"]["cached"] == 12
        assert again["confusion"] == content["confusion"]


def test_a_judge_that_eval_would_refuse_is_called_so(tmp_path: Path) -> None:
    path = write(tmp_path, *[row(False)] * 5)
    with ModelServer().running() as server:
        turns = itertools.cycle(["TRUE", "FALSE"])
        server.reply = lambda _: next(turns)
        content = json.loads(invoke(str(path), "--judge", f"openai:own@{server.url}", "--json"))
    assert "contradicted itself about 5 of 5 answers (100%)" in content["unreliable"]
