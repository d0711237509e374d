"""What `--resume` takes from the run and what from the command line."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from assay.cli.evaluating import judge_spec
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.evaluation.plan import RunConfig
    from assay.evaluation.run_folder import RunFolder

_DECIDE_SCORES = (
    *("target", "dataset", "split", "num_queries", "seed", "top_k", "track", "mapping"),
    *("answers", "ground_truth"),
)
_DECIDE_PACE = ("concurrency", "timeout", "retries", "max_cost", "counterfactuals", "judge_votes")


def resumed_config(folder: "RunFolder", context: typer.Context) -> "RunConfig":
    """The run's own settings; its pace, gates and baseline may be changed, its questions not."""
    config = folder.read_config()
    given = _given(context)
    for name in _DECIDE_SCORES:
        if name in given and str(given[name]) != str(getattr(config, name)):
            raise UsageError(
                f"run {folder.name!r} was started with {name} {getattr(config, name)!r}, not "
                f"{given[name]!r}; leave it out to resume the run, or start another"
            )
    changes: dict[str, Any] = {name: given[name] for name in _DECIDE_PACE if name in given}
    if given.get("judge"):
        changes["judge"] = judge_spec(given["judge"])
    if given.get("gate"):
        changes["gates"] = tuple(given["gate"])
    if given.get("baseline"):
        changes["baseline"] = given["baseline"]
    return replace(config, **changes)


def _given(context: typer.Context) -> dict[str, Any]:
    """What stands on the command line itself: defaults and variables contradict nobody."""
    return {
        name: value
        for name, value in context.params.items()
        if (source := context.get_parameter_source(name)) and source.name == "COMMANDLINE"
    }
