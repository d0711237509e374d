"""What the green agent says at the end: a summary for people and the EvaluationReport."""

from typing import Any

from assay.serve.green.jobs import Job


def report_of(job: Job) -> dict[str, Any] | None:
    """The report of the run, with what was noticed about the request and the agent."""
    if job.outcome is None:
        return None
    return job.outcome.folder.read_report() | {
        "run": job.outcome.folder.name,
        "warnings": list(job.warnings()),
    }


def summary_of(job: Job) -> str:
    """The table that `assay report` shows. It begins with a word, so that no collector of JSON
    takes it for a second result."""
    assert job.outcome is not None
    return job.outcome.folder.summary.read_text(encoding="utf-8")
