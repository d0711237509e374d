"""`--listener scores-file` appends a line to scores.jsonl for each run that ended."""

import json
from pathlib import Path


class ScoresFile:
    def on_start(self, folder):
        """The run's folder exists; `folder.read_header()` has its settings."""

    def on_finish(self, run):
        line = json.dumps({"target": run.report.config.target, "metrics": run.metrics})
        with Path("scores.jsonl").open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
