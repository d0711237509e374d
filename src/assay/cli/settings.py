"""`assay.toml` in the working folder: defaults for options, below flags and the environment.

dataset = "notes"        # for every verb that has such an option

[eval]                   # for one verb
top_k = 10
gate = ["ndcg@10>=0.30"]
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.errors import UsageError

FILE = "assay.toml"


def read_settings(options: Mapping[str, set[str]], folder: Path | None = None) -> dict[str, Any]:
    """Defaults for each verb. `options` are the verbs with the names of their options."""
    path = (folder or Path()) / FILE
    if not path.is_file():
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{FILE} is not TOML: {error}") from None
    verbs = {key: value for key, value in content.items() if isinstance(value, dict)}
    shared = {_name(key): value for key, value in content.items() if key not in verbs}
    _refuse_unknown(shared, set().union(*options.values()), "")
    for verb, table in verbs.items():
        if verb not in options:
            raise UsageError(f"{FILE}: there is no verb {verb!r}; see: assay --help")
        _refuse_unknown(table, options[verb], f"[{verb}] ")
    return {
        verb: {
            name: value
            for name, value in {**shared, **_named(verbs.get(verb, {}))}.items()
            if name in names
        }
        for verb, names in options.items()
    }


def _named(table: Mapping[str, Any]) -> dict[str, Any]:
    return {_name(key): value for key, value in table.items()}


def _name(key: str) -> str:
    return key.replace("-", "_")


def _refuse_unknown(table: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in table:
        if _name(key) not in known:
            raise UsageError(f"{FILE}: {where}{key!r} is no option; see: assay VERB --help")
