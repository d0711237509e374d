"""`assay eval --shard I/N`, by hand and as the examples for schedulers start it."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml
from tests import forked

from assay.errors import UsageError
from assay.run.config import parse_shard

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/3/5"])
def test_a_wrong_shard_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write I/N with I from 1 to N"):
        parse_shard(text)


def run_script(script: list[str], folder: Path, **variables: str) -> list[dict[str, int]]:
    """The shards of the runs that the script makes, with `assay` on its path."""
    forked.write_program(folder / "assay")
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        script,
        cwd=folder,
        env=os.environ | variables | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    headers = [json.loads(each.read_text()) for each in folder.rglob("run.json")]
    return [
        {name: header["config"][name] for name in ("shard_index", "num_shards")}
        for header in headers
    ]


def test_the_slurm_example_runs_its_shard(folder: Path) -> None:
    script = ["sh", str(EXAMPLES / "slurm-shards.sh")]
    for _ in ("at first", "requeued"):
        made = run_script(
            script, folder, SLURM_ARRAY_TASK_ID="2", DATASET="notes", TARGET="builtin:bm25"
        )
        assert made == [{"shard_index": 1, "num_shards": 4}]


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
        made = run_script([*container["command"], args], folder, **variables)
        assert made == [{"shard_index": 3, "num_shards": 4}]
