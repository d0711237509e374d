"""Spellings of options that scripts of an earlier release use; accepted for one release."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from assay.cli.console import say
from assay.errors import UsageError

# Verbs and options of earlier versions, with what to do instead.
REMOVED = {
    "submission": "use: assay export RUN --format agentbeats",
    "--matrix": "the page of assay compare --html lists the queries that changed",
    "--overlap": "export both runs with --format trec for another tool",
    "--prefer": "rate both by a criterion: assay eval --criteria FILE",
    "--html": "report.html is in the run's folder; or: assay report --html FILE",
    "--reranker": "rerank in your own agent, and measure that",
    "--mcp-port": "start assay serve mcp beside it",
    "--token": "set ASSAY_TOKEN",
    "rekey": "replace the old ids in qrels/*.tsv (docs/labels.md)",
    "completion": 'run: eval "$(_ASSAY_COMPLETE=bash_source assay)"',
    "bench": "to measure a judge, label answers and use: assay judge calibrate",
    "labels": "a graded table is a data set, --dataset POOL.csv; the web UI exports qrels",
    "--qrels": "read TREC collections as --dataset ir_datasets:NAME",
    "--judge-max-flips": "at most 20% of the verdicts may flip",
    "--export": "edit the lines of nuggets.jsonl; a changed fact counts as yours",
    "--import": "edit the lines of nuggets.jsonl; a changed fact counts as yours",
    "--all-in-category": "upload again if the mapping was lost: it finds the notes",
    "--check": "50 judged passages are graded for the agreement",
    "--relevant-from": "a grade of 2 or more counts as relevant",
    "--dataset-out": "score with the file of qrels, which has people's judgments too",
    "--queries": "draw some with --num-queries, or delete records of the file",
    "--without-text": "use tools/generate_rag_ground_truth.py",
    "--dry-run": "leave it out; the suite file lists what is run",
    "--kinds": "a model writes the questions; name it with --provider",
    "--splits": "a tuned ranking learns from train",
    "--questions": "use: assay data questions DOCUMENTS --provider SPEC",
    "run-agent": "call an agent with curl (docs/contract.md)",
    "--sarif": "use --junit or --json",
    "--session-idle": "a session of assay serve mcp is dropped after 1800 idle seconds",
    "--max-sessions": "assay serve mcp has at most 1000 sessions",
    "hostile": "it is a fixture of the tests now: tests/hostile",
    "sync": "use a data set of your own, or: assay eval nextcloud:URL",
    "status": "run: assay nextcloud upload, which reports it",
    "wait": "run: assay nextcloud upload --wait TARGET",
}
# Not imported: every command reads this, and most need nothing of answers.
POISON_KINDS = frozenset(["all", "override", "false_fact", "fake_citation", "exfiltration"])
# The option of today, and what becomes of the value; without {}, it was a switch.
_RENAMED = {
    "--bm25-k1": ("--bm25", "k1={}"),
    "--bm25-b": ("--bm25", "b={}"),
    "--bm25-delta": ("--bm25", "delta={}"),
    "--bm25-title-weight": ("--bm25", "title_weight={}"),
    "--bm25-language": ("--bm25", "language={}"),
    "--model": ("--embedder", "onnx:{}"),
    "--ground-truth": ("--references", "{}"),
    "--nuggets": ("--references", "{}"),
    "--out": ("--runs", "{}"),
    "--judge-votes": ("--judge-set", "votes={}"),
    "--votes": ("--judge-set", "votes={}"),
    "--judge-max-flips": ("--judge-set", "max_flips={}"),
    "--judge-controls": ("--judge-set", "controls={}"),
    "--judge-timeout": ("--judge-set", "timeout={}"),
    "--judge-concurrency": ("--judge-set", "concurrency={}"),
    "--judge-calibration": ("--judge-set", "calibration={}"),
    "--max-cost": ("--judge-set", "max_cost={}"),
    "--require-calibrated": ("--judge-set", "require_calibrated"),
    "--no-require-calibrated": ("--judge-set", "require_calibrated=no"),
    "--note": ("--tag", "note={}"),
    "--track": ("--tag", "track={}"),
    "--chunk-separator": ("--map", "chunk={}"),
    "--poison-kind": ("--poison", "{}"),
    "--metric": ("--metrics", "{}"),
    "--count": ("--num-queries", "{}"),
    "--part": ("--out", "{}"),
    "--shards": ("--shard", "{}"),
    "--criterion": ("--criteria", "{}"),
    "--depth": ("--top-k", "{}"),
    "--yes": ("--force", ""),
}
# The verbs in which it was renamed, if an option of the old name goes on in others.
_IN_VERBS = {
    "--nuggets": ("eval", "score"),
    "--out": ("runs", "report", "compare"),
    "--max-cost": ("eval", "score"),
}
_SEPARATORS = {"--bm25": ",", "--judge-set": ",", "--tag": ";", "--map": ";"}
_VARIABLES = {"--archive": "NFCORPUS_ARCHIVE", "--device": "ASSAY_DEVICE"}
_INDEX = "--index"  # --preset solr --index docs is now --preset solr:docs
_METHOD = "--method"  # rest:URL --method PUT is now 'rest:PUT URL'


def current_spelling(arguments: Sequence[str]) -> list[str]:
    """`--bm25-k1 0.9` as `--bm25 k1=0.9`, with a line on stderr about each.

    Only values that follow their option, or stand behind its `=`, are changed.
    """
    found: list[str] = []
    apart: dict[str, str] = {}
    waiting = iter(_with_bare_poison(arguments))
    for word in waiting:
        flag, equals, value = word.partition("=")
        if flag in _VARIABLES:
            os.environ[_VARIABLES[flag]] = value if equals else next(waiting, "")
            say(f"warning: {flag} is now the variable {_VARIABLES[flag]}")
        elif flag == "--reasons":
            say("warning: --reasons is not needed any more: a judge rates with its reason")
        elif flag in (_INDEX, _METHOD):
            apart[flag] = value if equals else next(waiting, "")
        elif flag not in _RENAMED or arguments[0] not in _IN_VERBS.get(flag, arguments):
            found.append(word)
        else:
            name, form = _RENAMED[flag]
            if "{}" in form:
                value = value if equals else next(waiting, "")
            found += [name, form.format(value)] if form else [name]
            _warn(flag, name, form)
    if _METHOD in apart:
        found = _with_method(found, apart[_METHOD])
    return _with_index(found, apart[_INDEX]) if _INDEX in apart else found


def _with_bare_poison(arguments: Sequence[str]) -> Iterator[str]:
    """`--poison` as `--poison=all`: an option has a value."""
    for place, word in enumerate(arguments):
        following = "".join(arguments[place + 1 : place + 2])
        if word == "--poison" and not POISON_KINDS.issuperset(following.split(",")):
            yield "--poison=all"
        else:
            yield word


def _warn(old: str, name: str, form: str) -> None:
    new = f"{name} {form.format('VALUE')}".strip()
    say(f"warning: {old} is now {new}; the old name will be removed")


def _with_index(arguments: list[str], index: str) -> list[str]:
    _warn(_INDEX, "--preset", "NAME:{}")
    for place, word in enumerate(arguments):
        if word.startswith("--preset="):
            arguments[place] += f":{index}"
            return arguments
        if word == "--preset" and place + 1 < len(arguments):
            arguments[place + 1] += f":{index}"
            return arguments
    return [*arguments, "--preset", f":{index}"]


def _with_method(arguments: list[str], method: str) -> list[str]:
    say("warning: --method NAME is now part of the target: 'rest:NAME URL'")
    for place, word in enumerate(arguments):
        if word.startswith(("rest:", "http://", "https://")):
            arguments[place] = target_with_method(word, method)
            return arguments
    raise UsageError(f"--method is now part of the target; write 'rest:{method} URL'")


def target_with_method(target: str, method: str) -> str:
    """`rest:URL` as `rest:PUT URL`."""
    return f"rest:{method} {target.removeprefix('rest:')}"


def rename_variables(flags: Collection[str]) -> None:
    """`ASSAY_JUDGE_VOTES=4` becomes `ASSAY_JUDGE_SET=votes=4`, for a verb with these flags."""
    for flag, (name, form) in _RENAMED.items():
        if name not in _SEPARATORS or "{}" not in form or flag in flags or name not in flags:
            continue
        variable, new = (f"ASSAY_{each[2:].upper().replace('-', '_')}" for each in (flag, name))
        if not (value := os.environ.get(variable)):
            continue
        parts = [os.environ.get(new, ""), form.format(value)]
        os.environ[new] = _SEPARATORS[name].join(filter(None, parts))
        say(f"warning: {variable} is now {new}={form.format('VALUE')}")


def current_keys(table: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The keys of a table of assay.toml under today's names; `known` are those of today."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        flag = f"--{key.replace('_', '-')}"
        name, form = _RENAMED.get(flag, ("", ""))
        new = name[2:].replace("-", "_")
        if key == "device" and key not in known:
            os.environ.setdefault("ASSAY_DEVICE", str(value))
            _say_once("warning: device in assay.toml is now the variable ASSAY_DEVICE")
        elif key in known or new not in known or name not in _SEPARATORS:
            found.setdefault(key, value)  # an old spelling before it took it up already
        else:
            text = form.format(value) if "{}" in form else form
            text += "=no" if text == form and not value else ""
            found[new] = [*_texts(found.get(new, table.get(new, []))), text]
            _say_once(f"warning: {key} in assay.toml is now {new}: {form.format('VALUE')}")
    if "index" in found and "index" not in known and "preset" in found:
        found["preset"] = f"{found['preset']}:{found.pop('index')}"
        _say_once("warning: index in assay.toml is now part of preset: NAME:INDEX")
    if "method" in found and "method" not in known and "target" in found:
        found["target"] = target_with_method(found["target"], found.pop("method"))
        _say_once("warning: method in assay.toml is now part of target: 'rest:METHOD URL'")
    return found


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{key}={text}" for key, text in value.items()]
    return [value] if isinstance(value, str) else list(value)


@cache
def _say_once(message: str) -> None:
    """A table is read several times."""
    say(message)
