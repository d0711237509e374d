"""`assay eval` as users start it: its files, exit codes, signals, answers and shards."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests import forked
from tests.cli.conftest import RunAssay, started, wait_for_calls

EXAMPLES = Path(__file__).parents[2] / "examples"
TINY = ("--dataset", "tiny")


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def report_of(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / "report.json").read_bytes())
    return content


def test_a_run_prints_a_table_and_leaves_its_folder(run_assay: RunAssay, folder: Path) -> None:
    done = run_assay("eval", "python:target:right", *TINY)
    assert done.returncode == 0, done.stderr
    assert "python:target:right on tiny test, undeclared track" in done.stdout
    assert "40 of 40 answered" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    names = {path.name for path in only_run(folder).iterdir()}
    assert names >= {"run.json", "calls.jsonl", "report.json", "report.html"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("x" * 5000,), "xxx...: File name too long"),
        (("python:target:number",), "target:number: a target is a string"),
        (("python:target:right", "--gate", "p@5>=0.5"), "the best possible Precision@5 is 0.4"),
        (("python:target:right", "--out", "target.py"), "cannot write run folder"),
        (("python:target:right", "--baseline", "builtin:nope"), "no target 'builtin:nope'"),
        (("builtin:bm25", "--judge", "oracle", "--answers"), "unknown provider 'oracle'"),
        (("builtin:bm25", "--judge", "ollama"), "--answers"),
        (("builtin:bm25", "--gate", "faithfulness>=0.5"), "--answers"),
        (("builtin:bm25", "--shard", "1/3/5"), "I/N"),
    ],
)
def test_a_users_mistake_is_told_before_the_run(
    run_assay: RunAssay, folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = run_assay("eval", *arguments, *TINY)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "runs").exists()


def test_offline_only_the_default_is_replaced_and_loudly(run_assay: RunAssay, folder: Path) -> None:
    offline = {"NFCORPUS_ARCHIVE": "", "ASSAY_BEIR_URL": "http://127.0.0.1:9"}
    offline["ASSAY_CACHE"] = str(folder / "empty-cache")
    done = run_assay("eval", "builtin:bm25", "--json", **offline)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dataset"]["name"] == "notes"
    assert "evaluating on the bundled set 'notes' instead" in done.stderr
    asked_for = run_assay("eval", "builtin:bm25", "--dataset", "nfcorpus", **offline)
    assert (asked_for.returncode, "--dataset notes" in asked_for.stderr) == (2, True)


def test_an_agent_cannot_end_the_run_or_spoil_its_json(run_assay: RunAssay, folder: Path) -> None:
    printing = run_assay("eval", "python:target:prints", *TINY, "--json", "--out", "other")
    assert json.loads(printing.stdout)["state"] == "complete"
    assert "more noise" in printing.stderr
    exiting = run_assay("eval", "python:target:exits", *TINY)
    assert (exiting.returncode, "(q0): SystemExit: 0" in exiting.stdout) == (3, True)
    assert report_of(only_run(folder))["failures"] == {"agent error": 40}


def test_a_resumed_run_takes_new_gates_and_refuses_other_questions(run_assay: RunAssay) -> None:
    assert run_assay("eval", "python:target:right", *TINY).returncode == 0
    gated = run_assay("eval", "--resume", "latest", "--gate", "ndcg@5>=0.99")
    assert (gated.returncode, "gate failed" in gated.stderr) == (1, True)
    assert "was asked before; none is sent again" in gated.stderr
    other = run_assay("eval", "--resume", "latest", "--top-k", "7")
    assert (other.returncode, "was started with top_k 5, not 7" in other.stderr) == (2, True)


SLOW = ("eval", "python:target:slow", *TINY, "--concurrency", "2")


def test_a_killed_run_loses_and_repeats_no_call(folder: Path, run_assay: RunAssay) -> None:
    with started(folder, *SLOW, HOLD_AFTER="25") as process:
        wait_for_calls(folder, 25)
        listed = json.loads(run_assay("runs", "--json").stdout)
        assert [row["state"] for row in listed] == ["running"]
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    run = only_run(folder)
    recorded = (run / "calls.jsonl").read_bytes()
    kept = recorded.count(b"\n")
    before = len((folder / "asked.txt").read_text().splitlines())
    assert not (run / "report.json").exists()

    resumed = run_assay("eval", "--resume", "latest")
    assert resumed.returncode == 0, resumed.stderr
    asked_again = len((folder / "asked.txt").read_text().splitlines()) - before
    assert asked_again == 40 - kept
    assert before - kept <= 2  # what was in flight: at most the concurrency
    assert (run / "calls.jsonl").read_bytes().startswith(recorded[: recorded.rfind(b"\n") + 1])

    whole = run_assay("eval", "python:target:right", *TINY, "--json")
    assert report_of(run)["statistics"] == json.loads(whole.stdout)["statistics"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_writes_a_partial_report(folder: Path, number: signal.Signals) -> None:
    with started(folder, *SLOW, PAUSE="0.3") as process:  # 6 s, unless it ends at the signal
        wait_for_calls(folder, 5)
        process.send_signal(number)
        output = process.stdout.read()
        code = process.wait(timeout=30)
    notes = (folder / "stderr").read_text()
    assert code == 130, notes
    assert "interrupted: 40 were planned" in output
    assert "assay eval --resume" in notes
    report = report_of(only_run(folder))
    assert report["state"] == "interrupted"
    assert 5 <= report["summary"]["total_queries"] < 40
    assert only_run(folder).stat().st_mode & 0o077 == 0


# --- answers ----------------------------------------------------------------------------------

ANSWER = ("eval", "builtin:bm25", "--dataset", "notes", "--num-queries", "20", "--answers")


def test_answers_are_evaluated_without_any_model(run_assay: RunAssay) -> None:
    done = run_assay(*ANSWER, "--counterfactuals")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "Fix " in done.stdout.split("again")[-1]
    assert "the right documents alone:" in done.stdout
    report = json.loads(run_assay("report", "--json").stdout)
    assert report["answers"]["questions"] == len(report["answer_results"]) == 20
    assert 0 < report["answers"]["metrics"]["fact_recall"] < 1


def test_without_a_target_the_reference_agent_answers(run_assay: RunAssay) -> None:
    done = run_assay(
        *("eval", "--dataset", "notes", "--num-queries", "3", "--answers", "--json"),
        RAG_EVAL_PROVIDER="extractive",
    )
    report = json.loads(done.stdout)
    assert report["target"]["name"] == "builtin:hybrid"
    assert report["answers"]["questions"] == 3


def test_without_its_judge_a_run_is_kept_to_be_resumed(run_assay: RunAssay, folder: Path) -> None:
    done = run_assay(*ANSWER, "--judge", "ollama:none@http://127.0.0.1:9", "--json")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "not all answers were judged" in done.stderr
    assert "assay eval --resume" in done.stderr
    report = json.loads(done.stdout)
    assert report["answers"]["metrics"]["fact_recall"] > 0
    (run,) = (folder / "runs").iterdir()
    resumed = run_assay("eval", "--resume", str(run), "--judge", "extractive", "--json")
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["answers"]["trouble"] is None


def test_a_target_without_answers_is_named_before_the_advice(run_assay: RunAssay) -> None:
    done = run_assay("eval", "python:target:right", *TINY, "--answers")
    assert "the target returned documents but no answers" in done.stderr
    assert "Fix the agent's errors first" in done.stdout


# --- shards -----------------------------------------------------------------------------------


def run_script(script: list[str], folder: Path, **variables: str) -> list[tuple[int, int]]:
    """The shards of the runs that the script makes, with `assay` on its path."""
    forked.write_program(folder / "assay")
    env = os.environ | variables | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(script, cwd=folder, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    configs = [json.loads(each.read_text())["config"] for each in folder.rglob("run.json")]
    return [(config["shard_index"], config["num_shards"]) for config in configs]


def test_the_slurm_example_runs_its_shard(folder: Path) -> None:
    script = ["sh", str(EXAMPLES / "slurm-shards.sh")]
    variables = {"SLURM_ARRAY_TASK_ID": "2", "DATASET": "notes", "TARGET": "builtin:bm25"}
    for _ in ("at first", "requeued"):
        assert run_script(script, folder, **variables) == [(1, 4)]


def test_the_kubernetes_example_runs_its_shard(folder: Path) -> None:
    claim, document = yaml.safe_load_all((EXAMPLES / "kubernetes-shards.yaml").read_text())
    job = document["spec"]
    assert job["completionMode"] == "Indexed"
    pod = job["template"]["spec"]
    (container,), (volume,) = pod["containers"], pod["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    # A volume belongs to root, unless the group of the image's user is asked for.
    user = pod["securityContext"]
    assert f"--uid {user['runAsUser']} assay" in (EXAMPLES.parent / "Dockerfile").read_text()
    assert user["fsGroup"] == user["runAsUser"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert int(variables["SHARDS"]) == job["completions"]
    args = container["args"][0].replace("/runs", str(folder / "pods"))
    variables |= {"JOB_COMPLETION_INDEX": "3", "TARGET": "builtin:bm25"}
    for _ in ("at first", "in the place of another pod"):
        assert run_script([*container["command"], args], folder, **variables) == [(3, 4)]
