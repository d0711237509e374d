"""A run that ranks and does not answer loads no language model, judge or ground truth."""

import subprocess
import sys

PLAIN_RUN = """
import sys, tempfile
import assay
from assay import Dataset, Document, Query

data = Dataset("tea", {"d": Document("d", "Tea", "Tea is hot.")}, {"q": Query("q", "tea")},
               {"test": {"q": {"d": 1}}})
with tempfile.TemporaryDirectory() as folder:
    outcome = assay.evaluate_agent(lambda query, top_k: ["d"], data, out=folder)
assert outcome.state == "complete"
print(*sys.modules)
"""
ANSWERING = (
    "assay.answer.providers",
    "assay.answer.ground_truth",
    "assay.evaluation.answers",
    "assay.measure.answers.calibration",
    "assay.measure.answers.diagnosis",
    "assay.measure.answers.judge",
    "anthropic",
    "ollama",
)


def test_a_plain_run_loads_nothing_that_answers_need() -> None:
    done = subprocess.run([sys.executable, "-c", PLAIN_RUN], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [name for name in done.stdout.split() if name.startswith(ANSWERING)] == []
