"""Spellings of earlier versions: accepted for one release, or answered with what to do instead."""

import os
from collections import deque
from collections.abc import Collection, Sequence

from assay.cli.console import say

REMOVED = {
    "submission": "use: assay export RUN --format agentbeats",
    "rekey": "replace the old ids in qrels/*.tsv (docs/labels.md)",
    "completion": 'run: eval "$(_ASSAY_COMPLETE=bash_source assay)"',
    "bench": "to measure a judge, label answers and use: assay judge calibrate",
    "labels": "a graded table is a data set, --dataset POOL.csv; the web UI exports qrels",
    "run-agent": "call an agent with curl (docs/contract.md)",
    "hostile": "it is a fixture of the tests now: tests/hostile",
    "sync": "use a data set of your own, or: assay eval nextcloud:URL",
    "status": "run: assay nextcloud upload, which reports it",
    "wait": "run: assay nextcloud upload --wait TARGET",
    "--overlap": "export both runs with --format trec for another tool",
    "--prefer": "rate both by a criterion: assay eval --criteria FILE",
    "--html": "report.html is in the run's folder; or: assay report --html FILE",
    "--reranker": "rerank in your own agent, and measure that",
    "--index": "write --preset NAME:INDEX",
    "--method": "write 'rest:METHOD URL'",
    "--token": "set ASSAY_TOKEN",
    "--reasons": "leave it out: a judge rates with its reason",
    "--qrels": "read TREC collections as --dataset ir_datasets:NAME",
    "--sarif": "use --junit or --json",
    "--strict": "look at skipped in --json",
}
# Not imported: every command reads this, and most need nothing of answers.
_POISON_KINDS = frozenset(["all", "override", "false_fact", "fake_citation", "exfiltration"])
# What is written today, {} being the value; a form without a dash sets that variable.
_RENAMED = {
    "--bm25-k1": "--bm25 k1={}",
    "--bm25-b": "--bm25 b={}",
    "--bm25-delta": "--bm25 delta={}",
    "--bm25-title-weight": "--bm25 title_weight={}",
    "--bm25-language": "--bm25 language={}",
    "--model": "--embedder onnx:{}",
    "--ground-truth": "--references {}",
    "--nuggets": "--references {}",
    "--out": "--runs {}",
    "--judge-votes": "--judge-set votes={}",
    "--votes": "--judge-set votes={}",
    "--judge-max-flips": "--judge-set max_flips={}",
    "--judge-controls": "--judge-set controls={}",
    "--judge-timeout": "--judge-set timeout={}",
    "--judge-concurrency": "--judge-set concurrency={}",
    "--judge-calibration": "--judge-set calibration={}",
    "--max-cost": "--judge-set max_cost={}",
    "--require-calibrated": "--judge-set require_calibrated",
    "--note": "--tag note={}",
    "--track": "--tag track={}",
    "--chunk-separator": "--map chunk={}",
    "--poison-kind": "--poison {}",
    "--metric": "--metrics {}",
    "--count": "--num-queries {}",
    "--shards": "--shard {}",
    "--criterion": "--criteria {}",
    "--depth": "--top-k {}",
    "--yes": "--force",
    "--archive": "NFCORPUS_ARCHIVE={}",
    "--device": "ASSAY_DEVICE={}",
}
# The verbs in which it was renamed, if an option of the old name goes on in others.
_IN_VERBS = {
    "--nuggets": ("eval", "score"),
    "--out": ("runs", "report", "compare"),
    "--max-cost": ("eval", "score", "judge"),
}
_SEPARATORS = {"--bm25": ",", "--judge-set": ",", "--tag": ";", "--map": ";"}


def current_spelling(arguments: Sequence[str]) -> list[str]:
    """`--bm25-k1 0.9` as `--bm25 k1=0.9`, with a line on stderr about each.

    Only values that follow their option, or stand behind its `=`, are changed.
    """
    found: list[str] = []
    words = deque(arguments)
    while words:
        flag, equals, value = (word := words.popleft()).partition("=")
        form = _RENAMED.get(flag, "")
        if word == "--poison" and not (words and _POISON_KINDS.issuperset(words[0].split(","))):
            found.append("--poison=all")  # for click, an option has a value
        elif not form or arguments[0] not in _IN_VERBS.get(flag, arguments):
            found.append(word)
        else:
            if "{}" in form and not equals:
                value = words.popleft() if words else ""
            say(f"warning: {flag} is now {form.format('VALUE')}; the old name will be removed")
            if form.startswith("-"):
                found += form.format(value).split(" ", 1)
            else:
                os.environ[form.partition("=")[0]] = value
    return _joined(found)


def _joined(words: list[str]) -> list[str]:
    """`--preset solr --index docs` as `--preset solr:docs`, `rest:URL --method PUT` likewise."""
    for n, word in enumerate(words):
        old, equals, value = word.partition("=")
        if old not in ("--index", "--method"):
            continue
        value = value if equals else "".join(words[n + 1 : n + 2])
        rest = words[:n] + words[n + (1 if equals else 2) :]
        for at, other in enumerate(rest):
            if old == "--index" and (rest[at - 1] == "--preset" or other.startswith("--preset=")):
                say("warning: --index is now --preset NAME:VALUE; the old name will be removed")
                return _joined([*rest[:at], f"{other}:{value}", *rest[at + 1 :]])
            if old == "--method" and other.startswith(("rest:", "http://", "https://")):
                say("warning: --method NAME is now part of the target: 'rest:NAME URL'")
                target = f"rest:{value} {other.removeprefix('rest:')}"
                return _joined([*rest[:at], target, *rest[at + 1 :]])
    return words


def rename_variables(flags: Collection[str]) -> None:
    """`ASSAY_JUDGE_VOTES=4` becomes `ASSAY_JUDGE_SET=votes=4`, for a verb with these flags."""
    for flag, form in _RENAMED.items():
        name, _, part = form.partition(" ")
        variable, new = (f"ASSAY_{each[2:].upper().replace('-', '_')}" for each in (flag, name))
        if name not in _SEPARATORS or flag in flags or name not in flags:
            continue
        if value := os.environ.get(variable):
            parts = [os.environ.get(new, ""), part.format(value)]
            os.environ[new] = _SEPARATORS[name].join(filter(None, parts))
            say(f"warning: {variable} is now {new}={part.format('VALUE')}")


def instead_of(name: str) -> str:
    """What to write in place of an option or verb of an earlier version; empty if it was none."""
    if name in _RENAMED:
        return f"write {_RENAMED[name].format('VALUE')}"
    return REMOVED.get(name, "")
