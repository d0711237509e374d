"""Titles for runs that are compared, made of what differs between them.

Ten runs of one target on ten branches all have the same name; their labels, branches, tags and
settings tell them apart.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from assay.run.models import RunHeader
from assay.run.settings import settings

COST_TAG = "cost_usd"
"""The tag for what a run cost at the agent: a figure, which tells no runs apart."""

_LONGEST = 60
_MOST_FACTS = 4
# What cannot change a score, or is said in another way.
_SAMPLE = ("top_k", "num_queries", "seed")
_NOT_SETTINGS = frozenset(
    {"target", "dataset", "columns", "label", "tags", "note", "compare_to", "baseline", "gates"}
    | {"concurrency", "timeout", "retries", "warm_up", "private", "track", "allow_first_run"}
)

_Fact = Callable[[RunHeader], str]


def distinguish(headers: Sequence[RunHeader]) -> list[str]:
    """A name for each run, different for each: its target, and in brackets what else differs.

    Label, branch, tags and sample; between runs of one target also its settings and those of a
    built-in retriever; then the commit, and the time only where nothing else tells two apart.
    """
    facts = [fact for fact in _common_facts(headers) if _differs(fact, headers)]
    groups = [[e for e in headers if e.target.title == each.target.title] for each in headers]
    chosen = [
        [*facts, *[fact for fact in _own_facts(group) if _differs(fact, group)]][:_MOST_FACTS]
        for group in groups
    ]
    names = [_name(each, own) for each, own in zip(headers, chosen, strict=True)]
    for fact in _LAST_FACTS:
        same = [[e for e, name in zip(headers, names, strict=True) if name == n] for n in names]
        chosen = [
            [*own, fact] if _differs(fact, alike) else own
            for own, alike in zip(chosen, same, strict=True)
        ]
        names = [_name(each, own) for each, own in zip(headers, chosen, strict=True)]
    return names


def _differs(fact: _Fact, headers: Sequence[RunHeader]) -> bool:
    return len({fact(each) for each in headers}) > 1


def described_settings(header: RunHeader) -> dict[str, str]:
    """What may change the scores of a target, by name: settings, retriever, the agent's version."""
    names = [name for name in settings() if name not in _NOT_SETTINGS and name not in _SAMPLE]
    found = {name: _setting(name, header) for name in names}
    found |= {f"retriever {key}": _retriever(key, header) for key in header.retriever or {}}
    found["embedder"] = f"embedder {header.embedder}" if header.embedder else ""
    found["agent"] = header.target.agent or ""
    found["assay"] = _version(header)
    return {name: words for name, words in found.items() if words}


def comparison_title(names: Sequence[str]) -> str:
    """What a comparison of runs of these names is called; the others are against the first."""
    if len(names) > 3:  # a title that nobody reads to its end says nothing
        return f"{len(names) - 1} runs against {names[0]}"
    return f"{' and '.join(names[1:])} against {names[0]}"


def _name(header: RunHeader, facts: Sequence[_Fact]) -> str:
    words = ", ".join(filter(None, (fact(header) for fact in facts)))
    return f"{header.target.title} ({words})" if words else header.target.title


def _common_facts(headers: Sequence[RunHeader]) -> Iterator[_Fact]:
    yield lambda each: _shortened(each.label or "")
    yield lambda each: _shortened((each.git.branch if each.git else None) or "")
    for key in sorted({key for each in headers for key in each.tags} - {COST_TAG}):
        yield partial(_tag, key)
    for name in _SAMPLE:
        yield partial(_setting, name)


def _own_facts(headers: Sequence[RunHeader]) -> Iterator[_Fact]:
    names = [name for name in settings() if name not in _NOT_SETTINGS and name not in _SAMPLE]
    chosen = [fact for name in names if _differs(fact := partial(_setting, name), headers)]
    yield from chosen
    if chosen:  # what the retriever recorded says the same in other words
        return
    yield lambda each: f"embedder {each.embedder}" if each.embedder else ""
    for key in sorted({key for each in headers for key in each.retriever or {}}):
        yield partial(_retriever, key)
    yield lambda each: "" if each.track == "undeclared" else f"{each.track} track"
    yield _version


def _tag(key: str, header: RunHeader) -> str:
    return f"{key}={_shortened(header.tags[key])}" if key in header.tags else f"no {key}"


def _setting(name: str, header: RunHeader) -> str:
    setting, value = settings()[name], getattr(header.config, name)
    flag = setting.flag
    if value == setting.default:
        silent = setting.kind in (bool, str, tuple) or setting.is_part or value is None
        return "" if silent else f"{flag} {value}"
    if setting.kind is bool:
        return flag if value else flag.replace("--", "--no-", 1)
    return f"{flag} {_shortened(setting.format(value).replace(chr(10), ' '))}"


def _retriever(key: str, header: RunHeader) -> str:
    value = (header.retriever or {}).get(key)
    return "" if value is None else f"{key} {_shortened(str(value))}"


def _version(header: RunHeader) -> str:
    version = header.versions.get("agent-assay", "")
    return f"assay {version}" if version else ""


def _commit(header: RunHeader) -> str:
    if header.git is None or not header.git.commit:
        return ""
    return header.git.commit[:8] + (" with changes" if header.git.dirty else "")


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


_LAST_FACTS: tuple[_Fact, ...] = (
    _commit,
    lambda header: header.started[:16].replace("T", " "),  # to the minute
    lambda header: header.started[:19].replace("T", " "),  # to the second
    lambda header: f"process {header.process}",
)
