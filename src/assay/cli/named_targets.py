"""`[target.NAME]` in assay.toml: a target and its settings, for `assay eval NAME`.

[target.docs]
target = "rest:https://search.example.org/v1/search"
request = { query = "{query}", limit = "{top_k}" }    # or JSON as text, or "@body.json"
header = "Authorization: Bearer $SEARCH_TOKEN"
map = ["ids=hits[].id", "scores=hits[].score"]
timeout = 20
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.cli.settings import FILE, read_file
from assay.errors import UsageError, did_you_mean
from assay.run.options import read_option_table


@dataclass(frozen=True, slots=True)
class NamedTarget:
    """A target and its options, by the names of the parameters of `assay eval`."""

    target: str
    options: dict[str, Any] = field(default_factory=dict)


def named_target(name: str, folder: Path | None = None) -> NamedTarget | None:
    """The target that assay.toml calls `name`; None if `name` is not a plain name of the file.

    Raises `UsageError` for a table with an unknown key or a value of the wrong type, and for a
    plain name that only resembles one of the file.
    """
    if not name or ":" in name:
        return None
    tables = read_file(folder).get("target")
    if not isinstance(tables, dict) or not tables:
        return None
    table = tables.get(name)
    if not isinstance(table, dict):
        hint = did_you_mean(name, tables)
        raise UsageError(f"{FILE} has no [target.{name}]; it has: {', '.join(tables)}{hint}")
    target = table.get("target")
    if not isinstance(target, str) or not target:
        raise UsageError(f'{FILE}: [target.{name}] needs target = "rest:URL", or any other target')
    options = read_option_table(table, f"{FILE}: [target.{name}]", "target")
    return NamedTarget(target, options)
