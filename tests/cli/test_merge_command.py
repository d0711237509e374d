"""`assay merge`: shards by their names in, one run and its report out."""

import asyncio
import json
from pathlib import Path

from click.testing import CliRunner

from assay.cli.bench import merge
from assay.cli.runs import export
from assay.cli.verb import VerbCommand
from assay.data import load_dataset
from assay.evaluation.evaluation import Evaluation
from assay.run.config import RunConfig
from assay.run.folder import list_runs
from assay.targets import PythonAgent

app = VerbCommand("merge", merge)
submissions = VerbCommand("export", export)


def right(query: str, top_k: int) -> list[str]:
    return [f"d{query.split()[1]}"]


def make_shards(folder: Path) -> list[str]:
    """The names of the runs of two shards over the folder's data set."""
    source = str(folder / "tiny")
    dataset = load_dataset(source)
    names = []
    for index in (0, 1):
        config = RunConfig(target="python:right", dataset=source, num_shards=2, shard_index=index)
        agent = PythonAgent(right, name="python:right")
        outcome = asyncio.run(Evaluation.plan(config, dataset).start(agent, folder / "runs"))
        names.append(outcome.folder.name)
    return names


def test_shards_are_merged_and_written_as_a_submission(folder: Path) -> None:
    names = make_shards(folder)
    file = folder / "results.json"
    runs, form = ["--runs", str(folder / "runs")], ["--format", "agentbeats"]
    agent = {"AGENTBEATS_AGENT_ID": "id-1"}
    done = CliRunner().invoke(submissions, [*names, *form, "--out", str(file), *runs], env=agent)
    assert done.exit_code == 0, done.output
    assert json.loads(file.read_text())["participants"] == {"retrieval_agent": "id-1"}
    printed = CliRunner().invoke(submissions, [*names, *form, *runs], env=agent)
    assert json.loads(printed.stdout) == json.loads(file.read_text())
    merged = CliRunner().invoke(app, [*names, "--out", str(folder / "runs"), "--json"])
    assert merged.exit_code == 0, merged.output
    assert json.loads(merged.stdout)["summary"]["total_queries"] == 40
    assert len(list(list_runs(folder / "runs"))) == 3
