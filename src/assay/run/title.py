"""Titles for runs that are compared, made of what differs between them.

Ten runs of one target on ten branches all have the same name; their labels, branches, tags and
settings tell them apart.
"""

from collections.abc import Mapping, Sequence

from assay.run.config import settings
from assay.run.models import RunHeader

# The tag for what a run cost at the agent: a figure, which tells no runs apart.
COST_TAG = "cost_usd"

_MAX_LENGTH = 60
_MAX_FACTS = 4
# What cannot change a score, or is said in another way.
_SAMPLE = ("top_k", "num_queries", "seed")
_NOT_SETTINGS = frozenset(
    {"target", "dataset", "columns", "label", "tags", "note", "compare_to", "baseline", "gates"}
    | {"concurrency", "timeout", "retries", "warm_up", "private", "track"}
    | {"allow_first_run", "fail_on_regression", *_SAMPLE}
)


def distinguish(headers: Sequence[RunHeader]) -> list[str]:
    """A name for each run, different for each: its target, and in brackets what else differs.

    That is label, branch, tags, sample and settings, between runs of one target; then the commit,
    and the time only if nothing else tells two apart.
    """
    targets, every = [h.target.title for h in headers], [_facts(header) for header in headers]
    chosen = []
    for target, facts in zip(targets, every, strict=True):
        alike = [other for name, other in zip(targets, every, strict=True) if name == target]
        words = [facts[name] for name in differing(alike) if facts.get(name)]
        chosen.append(words[:_MAX_FACTS])
    commits = [header.repository.short_commit for header in headers]
    times = [header.started[:19].replace("T", " ") for header in headers]
    processes = [f"process {header.process}" for header in headers]
    for last in (commits, times, processes):
        names = [(target, *words) for target, words in zip(targets, chosen, strict=True)]
        for place, name in enumerate(names):
            if len({fact for other, fact in zip(names, last, strict=True) if other == name}) > 1:
                chosen[place] = [*chosen[place], *filter(None, [last[place]])]
    shown = zip(targets, map(", ".join, chosen), strict=True)
    return [f"{target} ({words})" if words else target for target, words in shown]


def differing(every: Sequence[Mapping[str, str]]) -> list[str]:
    """The names of the facts that are not the same in all runs."""
    names = dict.fromkeys(name for facts in every for name in facts)
    found = [name for name in names if len({facts.get(name, "") for facts in every}) > 1]
    # What the retriever recorded says the same as the options that were given, in other words.
    if any(name in settings() and name not in _NOT_SETTINGS for name in found):
        found = [name for name in found if not name.startswith("retriever ")]
    return found


def _facts(header: RunHeader) -> dict[str, str]:
    found = {"label": _cut(header.label or ""), "branch": _cut(header.repository.branch or "")}
    tags = sorted(header.tags.items())
    found |= {f"tag {key}": f"{key}={_cut(value)}" for key, value in tags if key != COST_TAG}
    found |= {name: _setting(name, header) for name in _SAMPLE} | described_settings(header)
    found.pop("agent", None)
    track = "" if header.track == "undeclared" else f"{header.track} track"
    version = found.pop("assay", "")
    return {**found, "track": track, "assay": version}


def described_settings(header: RunHeader) -> dict[str, str]:
    """What may change the scores of a target, by name: settings, retriever, the agent's version."""
    names = [name for name in settings() if name not in _NOT_SETTINGS]
    found = {name: _setting(name, header) for name in names}
    found |= {f"retriever {k}": f"{k} {_cut(str(v))}" for k, v in (header.retriever or {}).items()}
    found["embedder"] = f"embedder {header.embedder}" if header.embedder else ""
    found["agent"] = header.target.agent or ""
    version = header.versions.get("agent-assay", "")
    found["assay"] = f"assay {version}" if version else ""
    return {name: words for name, words in found.items() if words}


def _setting(name: str, header: RunHeader) -> str:
    setting, value = settings()[name], getattr(header.config, name)
    if value == setting.default:
        return f"{setting.flag} {value}" if setting.kind in (int, float) and value else ""
    if setting.kind is bool:
        return setting.flag if value else setting.negative_flag
    return f"{setting.flag} {_cut(setting.format(value).replace(chr(10), ' '))}"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"
