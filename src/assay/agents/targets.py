"""From what the user wrote (`builtin:bm25`, `python:module:function`, ...) to an agent."""

from assay.agents.builtin import BuiltinAgent
from assay.agents.protocol import Agent
from assay.agents.python_call import PythonAgent, load_function
from assay.data.dataset import Dataset
from assay.errors import UsageError
from assay.progress import Progress, silent

KINDS = {
    "builtin": "builtin:bm25",
    "python": "python:module:function",
}


def open_target(
    target: str, dataset: Dataset, *, track: str = "undeclared", progress: Progress = silent
) -> Agent:
    kind, _, rest = target.partition(":")
    if kind == "builtin":
        return BuiltinAgent(rest, dataset, progress=progress)
    if kind == "python":
        return PythonAgent(load_function(rest), name=target, track=track)
    known = ", ".join(KINDS.values())
    raise UsageError(f"cannot tell what target {target!r} is; a target looks like: {known}")
