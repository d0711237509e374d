"""Whether the judge behind a gate was calibrated on this data: said, and required where asked."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.llm_providers.model_server import ModelServer, openai_model

import assay
from assay.answers.calibration import (
    CalibrationRecord,
    add_record,
    calibration_status,
    question_hash,
    read_calibrations,
)
from assay.cli.app import app
from assay.data import Dataset
from assay.errors import DataError, UsageError

COUNT = 40
DATA = Dataset.from_dicts(
    {f"q{n}": f"What is number {n}?" for n in range(COUNT)},
    {f"q{n}": {"d": 1} for n in range(COUNT)},
    {"d": "Numbers."},
    answers={f"q{n}": f"It is {n}." for n in range(COUNT)},
    name="numbers",
)


def reply(prompt: str) -> str:
    """TRUE where both answers are the same words; support for what the answer has."""
    if prompt.startswith("Decide for each of"):
        return '["support"]' if prompt.count("It is 7.") == 2 else '["none"]'
    blocks = prompt.split("Answer:\n")[1:]
    said = [each.split("\n")[1] for each in blocks]
    return "TRUE" if len(set(said)) == 1 else "FALSE"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModelServer]:
    with openai_model(monkeypatch, tmp_path, reply) as running:
        yield running


def write_labels(number: int = COUNT, **more: Any) -> None:
    """Every second answer is wrong."""
    lines = [
        {
            "question": f"What is number {n}?",
            "answer": f"It is {n}." if n % 2 else "It is nothing.",
            "reference": f"It is {n}.",
            "label": bool(n % 2),
            **more,
        }
        for n in range(number)
    ]
    Path("labels.jsonl").write_text("\n".join(map(json.dumps, lines)))


def calibrate(*arguments: str) -> Result:
    command = ["judge", "calibrate", "labels.jsonl", "--judge", "openai:m", "--out", "c.jsonl"]
    return CliRunner().invoke(app, [*command, *arguments])


def agent(query: str, top_k: int) -> dict[str, Any]:
    return {"doc_ids": ["d"], "answer": f"It is {query.split()[-1].strip('?')}."}


def evaluate(gates: str = "correctness>=0.5", **more: Any) -> assay.Run:
    options: dict[str, Any] = {"judge": "openai:m", **more}
    return assay.evaluate(agent, DATA, answers=True, gates=gates, num_queries=6, **options)


def test_a_gate_says_that_its_judge_was_not_calibrated(server: ModelServer) -> None:
    run = evaluate()
    (gate,) = run.report.gates
    assert gate.passed
    assert "the judge openai:m was not calibrated on this data for correctness" in (gate.note or "")
    assert run.report.answers is not None
    assert run.report.answers.judge is not None
    assert "was not calibrated" in (run.report.answers.judge.calibration or "")
    assert "was not calibrated on this data" in run.folder.page_file.read_text()


def test_required_calibration_refuses_the_gate_before_any_call(server: ModelServer) -> None:
    with pytest.raises(
        UsageError, match=r"refused by --judge-set require_calibrated.*there is no calibration"
    ):
        evaluate(judge_set={"require_calibrated": True})
    # No label can calibrate what a judge decides sentence by sentence.
    with pytest.raises(UsageError, match="no labels calibrate the judge") as caught:
        evaluate("judged_faithfulness>=0.5", judge_set={"require_calibrated": True})
    assert "label some answers" not in str(caught.value)
    assert server.requests == []
    assert not Path("runs").exists()


def test_a_calibrated_judge_passes_and_its_agreement_is_told(server: ModelServer) -> None:
    write_labels()
    assert calibrate().exit_code == 0
    one_vote = {"votes": 1}  # as many in the other order
    run = evaluate(judge_set={"calibration": "c.jsonl", "require_calibrated": True, **one_vote})
    (gate,) = run.report.gates
    assert gate.passed
    assert gate.note == (
        "the judge openai:m was calibrated on 40 labels of this data: agreement 1.00, kappa 1.00 "
        "(at least 0.85)"
    )


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"judge": "openai:other"}, "there is no calibration of it"),
        ({}, {"votes": 4}, "other prompts or another number of votes"),
        ({"number": 12}, {}, "only 12 labels are about this data, at least 30 are needed"),
        ({"question": "Elsewhere?"}, {}, "only 0 labels are about this data"),
    ],
)
def test_a_calibration_of_something_else_is_none(
    server: ModelServer, change: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    write_labels(**change)
    assert calibrate().exit_code == 0
    judge = options.get("judge", "openai:m")
    votes = {"votes": options["votes"]} if "votes" in options else {}
    own = {"calibration": "c.jsonl", "require_calibrated": True, **votes}
    with pytest.raises(UsageError, match=message):
        evaluate(judge=judge, judge_set=own)


def test_figures_that_no_judge_decides_need_no_calibration(server: ModelServer) -> None:
    run = evaluate("faithfulness>=0", judge_set="require_calibrated")
    assert run.report.gates[0].note is None


def test_logged_rows_are_held_to_the_same(server: ModelServer) -> None:
    write_labels()
    calibrate()
    rows = [
        {"question": f"What is number {n}?", "answer": f"It is {n}.", "reference": f"It is {n}."}
        for n in range(COUNT)
    ]
    scored = assay.score_answers(
        rows, judge="openai:m", gates="correctness>=0.9", judge_set="calibration=c.jsonl"
    )
    assert "was calibrated on 40 labels" in (scored.gates[0].note or "")
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows[:5])))
    command = ["score", "rows.jsonl", "--judge", "openai:m", "--gate", "correctness>=0.9"]
    result = CliRunner().invoke(app, [*command, "--judge-set", "require_calibrated"])
    assert isinstance(result.exception, UsageError)
    with_file = [*command, "--judge-set", "require_calibrated,calibration=c.jsonl"]
    few = CliRunner().invoke(app, with_file)
    assert "only 5 labels are about this data" in str(few.exception)


def test_nuggets_are_calibrated_apart(server: ModelServer) -> None:
    lines = [
        {
            "question": f"What is number {n}?",
            "answer": "It is 7." if n % 2 else "It is 3.",
            "nugget": "It is 7.",
            "label": "support" if n % 2 else "none",
        }
        for n in range(COUNT)
    ]
    lines[0]["label"] = "partial"
    Path("labels.jsonl").write_text("\n".join(map(json.dumps, lines)))
    result = calibrate("--nuggets", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["labelled"], found["accuracy"]["mean"]) == (40, 39 / 40)
    assert found["confusion"]["partial"] == {"none": 1, "partial": 0, "support": 0, "undecided": 0}
    assert 0.9 < found["kappa"] < 1
    assert found["labels_mean"]["mean"] == 20.5 / 40
    assert found["judged_mean"] == 0.5
    (record,) = read_calibrations(Path("c.jsonl"))
    assert (record.kind, record.judge, record.votes) == ("nuggets", "openai:m", 2)
    write_labels()
    calibrate()
    assert [each.kind for each in read_calibrations(Path("c.jsonl"))] == ["nuggets", "correctness"]


def record_of(questions: list[str], kappa: float, kappa_low: float) -> CalibrationRecord:
    counted = dict(Counter(map(question_hash, questions)))
    return CalibrationRecord(
        "correctness", "m", 2, ("p",), len(questions), 0.5, kappa, counted, kappa_low
    )


def test_a_judge_that_agrees_by_chance_is_not_calibrated(tmp_path: Path) -> None:
    questions = [f"q{n}" for n in range(40)]
    record = record_of(questions, 0.0, -0.2)
    asked = ("correctness", "m", 2, ("p",), questions)
    status = calibration_status([record], *asked)
    assert not status.calibrated
    assert "the lower bound of its kappa is -0.20, at least 0.6 is needed" in status.words
    assert calibration_status([replace(record, kappa=0.8, kappa_low=0.6)], *asked).calibrated
    earlier = replace(record, kappa=0.8, kappa_low=None)
    assert "its kappa is unknown" in calibration_status([earlier], *asked).words
    add_record(tmp_path / "c.jsonl", record)
    add_record(tmp_path / "c.jsonl", replace(record, kappa=0.4))  # in place of the first
    assert [each.kappa for each in read_calibrations(tmp_path / "c.jsonl")] == [0.4]
    assert "q0" not in (tmp_path / "c.jsonl").read_text()  # hashes, and no questions


WRONG: list[dict[str, Any]] = [
    *({"kappa": "nan"}, {"kappa": 1.5}, {"agreement": None}, {"votes": 2.5}),
    *({"questions": {"a": -40}}, {"questions": []}),
]


@pytest.mark.parametrize("changed", WRONG)
def test_a_record_with_wrong_figures_is_refused(changed: dict[str, Any], tmp_path: Path) -> None:
    record = record_of(["q"] * 40, 0.4, 0.3)
    (tmp_path / "c.jsonl").write_text(json.dumps(asdict(record) | changed))
    with pytest.raises(DataError, match=r"c\.jsonl:1: is not a calibration record"):
        read_calibrations(tmp_path / "c.jsonl")
