"""Titles for runs that are compared, made of what differs between them.

Ten runs of one target on ten branches all have the same name; their labels, branches, tags and
settings tell them apart.
"""

from collections.abc import Sequence

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
    | {"allow_first_run", "fail_on_regression"}
    | {*_SAMPLE}
)


def distinguish(headers: Sequence[RunHeader]) -> list[str]:
    """A name for each run, different for each: its target, and in brackets what else differs.

    Label, branch, tags and sample; between runs of one target also its settings and those of a
    built-in retriever; then the commit, and the time only if nothing else tells two apart.
    """
    targets = [header.target.title for header in headers]
    common, own = [_common_facts(h) for h in headers], [_own_facts(h) for h in headers]
    chosen = []
    for place, target in enumerate(targets):
        alike = [facts for other, facts in zip(targets, own, strict=True) if other == target]
        words = [*_differing(common[place], common), *_differing(own[place], alike)]
        chosen.append([word for word in words[:_MAX_FACTS] if word])
    for last in zip(*map(_last_facts, headers), strict=True):  # all commits, all minutes, …
        names = [(target, *words) for target, words in zip(targets, chosen, strict=True)]
        for place, name in enumerate(names):
            if len({fact for other, fact in zip(names, last, strict=True) if other == name}) > 1:
                chosen[place] = [*chosen[place], last[place]]
    shown = [", ".join(filter(None, words)) for words in chosen]
    return [f"{t} ({words})" if words else t for t, words in zip(targets, shown, strict=True)]


def _differing(facts: dict[str, str], among: Sequence[dict[str, str]]) -> list[str]:
    """The facts of one run that are not the same in all these runs."""
    names = dict.fromkeys(name for other in among for name in other)
    differing = [n for n in names if len({other.get(n, "") for other in among}) > 1]
    # What the retriever recorded says the same as the options that were given, in other words.
    given = [name for name in differing if not name.startswith("retriever ")]
    return [facts.get(name, "") for name in given or differing]


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


def comparison_title(names: Sequence[str]) -> str:
    """What a comparison of runs of these names is called; the others are against the first."""
    if len(names) > 3:
        return f"{len(names) - 1} runs against {names[0]}"
    return f"{' and '.join(names[1:])} against {names[0]}"


def _common_facts(header: RunHeader) -> dict[str, str]:
    found = {"label": _cut(header.label or "")}
    found["branch"] = _cut(header.repository.branch or "")
    tags = sorted(header.tags.items())
    found |= {f"tag {key}": f"{key}={_cut(value)}" for key, value in tags if key != COST_TAG}
    return found | {name: _setting(name, header) for name in _SAMPLE}


def _own_facts(header: RunHeader) -> dict[str, str]:
    found = described_settings(header)
    found.pop("agent", None)
    version = found.pop("assay", "")
    track = "" if header.track == "undeclared" else f"{header.track} track"
    return {**found, "track": track, "assay": version}


def _last_facts(header: RunHeader) -> list[str]:
    started = header.started.replace("T", " ")
    return [header.repository.short_commit, started[:16], started[:19], f"process {header.process}"]


def _setting(name: str, header: RunHeader) -> str:
    setting, value = settings()[name], getattr(header.config, name)
    if value == setting.default:
        return f"{setting.flag} {value}" if setting.kind in (int, float) and value else ""
    if setting.kind is bool:
        return setting.flag if value else setting.flag.replace("--", "--no-", 1)
    return f"{setting.flag} {_cut(setting.format(value).replace(chr(10), ' '))}"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"
