"""`RunConfig`: every setting of a run, declared once.

A field carries its help, flag, environment variable, form label and rules in its `Option`. The
command line, `assay.toml` and its JSON Schema, the web form, the command that repeats a run,
`--resume`, `assay merge` and the A2A evaluator's request are derived from this table: to add an
option, add a field here. What has a meaning only beside another setting names it with `needs`, or
is a key of a nested part such as `JudgeSettings`.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache, partial
from pathlib import Path
from typing import Any

from assay.errors import RunError, UsageError, did_you_mean
from assay.files import PROJECT_FILE, read_project_file
from assay.llm.passages import EXTRACTIVE
from assay.llm.provider_kinds import PROVIDER_FORMS
from assay.net.redact import full_text, mask_secrets
from assay.privacy import is_private
from assay.run.option import Option, OptionPart, option_fields, read_options
from assay.run.option import option_field as _option

TRACKS = ("zero-shot", "trained", "undeclared")
# Settings whose secrets are masked: see `assay.net.redact`.
MAY_HOLD_SECRETS = ("target", "baseline", "mapping", "request", "headers", "judge")

CHUNK_KEY = "chunk="  # The key of `mapping` that is about ids, whatever the target is

_MAX_LABEL_LENGTH = 200
_DAY = 86_400

_usual = partial(_option, group="Usual options", usual=True)
_data = partial(_option, group="Data", same_in_shards=True)
_calls = partial(_option, group="Calls", on_resume="free")
_target = partial(_option, group="Target")
_retriever = partial(_option, group="Built-in retriever", same_in_shards=True)
_answered = partial(_option, group="Answers and judge", needs="answers", same_in_shards=True)
# A judge reads answers that are in the log already: a resumed run may ask another one.
_judged = partial(_answered, needs="judge", on_resume="free")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings(OptionPart):
    """How a judge is asked: `--judge-set votes=4,timeout=600`, `judge_set = {votes = 4}`."""

    votes: int = _option(
        2, "calls for each answer, half of them with the reference first", low=1, high=99
    )
    max_flips: float = _option(
        0.2, "the share of answers on which it may contradict itself", low=0, high=1
    )
    controls: int = _option(
        5, "texts for its self-test, right and wrong ones; 0 for no self-test", low=0, high=100
    )
    timeout: float | None = _option(
        None, "seconds for one call; 120, or 600 on this machine", low=0.1, high=_DAY
    )
    concurrency: int | None = _option(
        None, "calls at once; 4, or 1 on this machine", low=1, high=1000
    )
    calibration: str = _option("", "the file that assay judge calibrate --out wrote")
    max_cost: float | None = _option(
        None, "stop before spending more than this many US dollars", low=0
    )
    require_calibrated: bool = _option(
        False, "refuse gates on judged figures unless it was calibrated on this data"
    )


_JUDGE_KEYS = "; ".join(f"{name} ({o.help})" for name, o in option_fields(JudgeSettings).items())


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything that decides a run's scores and how it is carried out; kept in `run.json`."""

    target: str
    target_name: str = ""  # What assay.toml calls the target
    dataset: str = _usual(
        "nfcorpus",
        "nfcorpus, notes, beir:NAME, hf:ORG/NAME, ir_datasets:NAME, the path of a BEIR or MTEB "
        "folder or zip, or a table of questions and expected ids (.csv, .tsv, .jsonl, .parquet). "
        "Default: nfcorpus, or notes if the download fails.",
        metavar="NAME|PATH",
        optional=True,
    )
    num_queries: int | None = _usual(
        None,
        "Ask only this many queries, drawn at random. Default: all.",
        metavar="N",
        low=1,
        same_in_shards=True,
        request_field="num_queries",
    )
    top_k: int = _usual(
        5,
        "How many documents to request for each query.",
        metavar="K",
        low=1,
        high=1000,
        same_in_shards=True,
        request_field="top_k",
        request_high=100,
    )
    gates: tuple[str, ...] = _usual(
        (),
        'A condition such as "ndcg@5>=0.30"; exit code 1 if it fails. Repeatable.',
        flag="--gate",
        metavar="EXPR",
        on_resume="free",
        request_field="gates",
    )
    baseline: str = _usual(
        "", "A second target to evaluate and compare with.", metavar="TARGET", on_resume="free"
    )
    compare_to: str = _usual(
        "",
        "Compare with an earlier run on the same data: the newest complete one with this label or "
        "git branch, or a run's folder or name. Gates may name it: ndcg@10>=main-0.01.",
        metavar="LABEL|BRANCH|RUN",
        on_resume="free",
        request_field="compare_to",
    )
    answers: bool = _usual(
        False,
        "Also evaluate answers: whether they are right, faithful and cited, and whether retrieval "
        "or generation causes the wrong ones.",
        same_in_shards=True,
        request_field="answers",
    )
    judge: str = _usual(
        "",
        f"The model that judges the answers: {PROVIDER_FORMS}; or extractive for no model. "
        "Default: RAG_EVAL_PROVIDER, else answers are checked against key facts.",
        # Its variable is RAG_EVAL_PROVIDER: of two, one would have to lose without a word.
        has_variable=False,
        metavar="SPEC",
        needs="answers",
        on_resume="free",
        same_in_shards=True,
    )
    columns: tuple[str, ...] = _data(
        (),
        "The columns of a table, if they have other names: query=prompt,ids=docs. Keys: query, "
        "ids, grades, doc_id, grade, query_id, answer, tags.",
        usual=True,
        metavar="KEY=COLUMN",
    )
    split: str = _data("test", "Which split of the judgments to use.", usual=True, metavar="NAME")
    seed: int = _data(
        42,
        "Random seed of the query sample.",
        metavar="S",
        low=0,
        high=2**63 - 1,
        request_field="random_seed",
        request_high=2**53 - 1,  # A2A carries numbers as doubles
    )
    mapping: tuple[str, ...] = _target(
        (),
        "Where the response has ids, scores, titles, texts, answer, citations or contexts: "
        "ids=hits[].id in JMESPath, or ids=re:PATTERN with one group. For MCP also "
        "query=NAME, top_k=NAME and arg.NAME=VALUE. For ids of chunks such as note-7#2, chunk='#' "
        "is what separates the document's id, or chunk=re:PATTERN. Repeatable.",
        usual=True,
        flag="--map",
        metavar="KEY=EXPR",
    )
    request: str = _target(
        "",
        'The body for a rest: target, in which "{query}" and "{top_k}" are replaced, or fields '
        "to add to the request of an openai: target. JSON or @FILE.",
        usual=True,
        metavar="JSON|@FILE",
    )
    headers: tuple[str, ...] = _target(
        (),
        "A header for a rest: or openai: target, 'Name: value'. $NAME in it is read from the "
        "environment for each call and never stored. Repeatable.",
        usual=True,
        flag="--header",
        separator="\n",
        metavar="HEADER",
    )
    preset: str = _target(
        "",
        "The search engine behind a rest: target, which sets request and mapping: elasticsearch, "
        "opensearch, solr, vespa or qdrant, with the index to search.",
        usual=True,
        metavar="NAME[:INDEX]",
    )
    concurrency: int = _calls(
        8,
        "How many queries to send at once.",
        usual=True,
        metavar="N",
        low=1,
        high=1000,
        request_field="concurrency",
        request_high=64,
    )
    timeout: float = _calls(
        60.0,
        "Timeout of one attempt at a query, in seconds.",
        usual=True,
        metavar="S",
        low=0.001,
        high=_DAY,
        request_field="timeout",
        request_high=3600,
    )
    retries: int = _calls(
        3,
        "How many times to retry after a connection error or HTTP 502 to 504. After 429, a query "
        "waits for up to two minutes, unless this is 0.",
        metavar="N",
        low=0,
        high=20,
    )
    warm_up: float = _calls(
        300.0,
        "How long to wait for an agent that is still loading: until /health/ready returns 200, or "
        "else until one query, which is not counted, is answered. 0 for no warm-up.",
        metavar="S",
        low=0,
        high=_DAY,
    )
    references: tuple[str, ...] = _answered(
        (),
        "A file of reference answers or of facts (vital or okay), as assay ground-truth writes "
        "them. Facts are found in the answers by the judge or else by rules. Repeatable, one of "
        "each kind.",
        usual=True,
        metavar="FILE",
    )
    judge_set: JudgeSettings = _judged(  # noqa: RUF009
        JudgeSettings(),
        f"Settings of the judge: {_JUDGE_KEYS}.",
        usual=True,
        metavar="KEY=VALUE,…",
        separator=",",
    )
    no_cache: bool = _judged(False, "Ask again for replies that are cached.", same_in_shards=False)
    criteria: str = _judged(
        "",
        "Your own criteria, a file (.md) or a folder of files, by which the judge rates every "
        "answer. Each is a metric, criterion.NAME, that gates can use.",
        metavar="FILE|DIR",
    )
    counterfactuals: bool = _answered(
        False,
        "Ask each question again with the right documents, with none and with misleading ones, to "
        "separate retrieval errors from generation errors.",
        on_resume="free",
    )
    poison: tuple[str, ...] = _answered(
        (),
        "Ask each question again with a planted document among its sources, once for each kind of "
        "attack, and report how often the answer follows it: override, false_fact, fake_citation, "
        "exfiltration, or all, which need not be written. Turns --answers on.",
        metavar="[KIND,…]",
        needs="",
    )
    faithfulness: str = _answered(
        "",
        "Also measure faithfulness by a three-class NLI cross-encoder of yours: a folder with an "
        ".onnx file and tokenizer.json, or a model of sentence-transformers.",
        metavar="onnx:DIR|st:NAME",
        on_resume="free",
    )
    label: str = _option(
        "",
        "A name for what you try, such as bm25-tuned. assay runs --label, compare and --compare-to "
        "find runs by it.",
        usual=True,
        metavar="NAME",
    )
    tags: tuple[str, ...] = _option(
        (),
        "A fact to store with the run, such as chunks=512. track=zero-shot or track=trained says "
        "whether the agent has seen judgments of this data set, note=TEXT is for later readers. "
        "Repeatable.",
        flag="--tag",
        metavar="KEY=VALUE",
    )
    allow_first_run: bool = _option(
        False,
        "If no run matches --compare-to yet, continue without it and skip the gates that name it. "
        "For a CI job that has not run on the main branch yet.",
        on_resume="free",
        request_field="allow_first_run",
        needs="compare_to",
    )
    fail_on_regression: bool = _option(
        False,
        "Exit with 1 if the run is significantly worse than the one that it is compared with.",
        usual=True,
        on_resume="free",
        request_field="fail_on_regression",
    )
    note: str = _option("", "A sentence to store with the run, for later readers.", as_tag=True)
    track: str = _option(
        "undeclared",
        "Whether the agent has seen judgments of this data set: zero-shot (no), trained (yes) or "
        "undeclared. Built-in agents are zero-shot if undeclared.",
        as_tag=True,
        choices=TRACKS,
        request_field="track",
    )
    embedder: str = _retriever(
        "",
        "An embedder instead of the built-in one, for builtin and purple targets: onnx:DIR "
        "(model.onnx and tokenizer.json), st:NAME|DIR (sentence-transformers), "
        "or openai:MODEL[@URL]. A server's API key is read from OPENAI_API_KEY or "
        "ASSAY_EMBEDDER_KEY.",
        metavar="SPEC",
    )
    bm25: tuple[str, ...] = _retriever(
        (),
        "Parameters of BM25, for builtin targets: k1=1.2, b=0.75, delta=0, title_weight=3, "
        "language=auto, separated by commas.",
        metavar="KEY=VALUE,…",
        separator=",",
    )
    private: bool = _option(
        False,
        "Write no text of queries, documents or answers: reports have only ids and figures. With "
        "--answers, resuming asks every question again.",
        same_in_shards=True,
        group="Output",
    )
    search: str = _usual(
        "",
        "Record the searches of the agent: the search tool that it uses through Assay, a target "
        "such as builtin:hybrid, rest:URL or mcp:URL. The agent gets its address as search_url.",
        metavar="TARGET",
        same_in_shards=True,
    )
    searches: str = _option(
        "",
        "Read the searches of the agent from the file that `assay serve mcp --record` writes, or "
        "from the address that serves it.",
        metavar="FILE|URL",
        same_in_shards=True,
        group="Data",
    )
    repeat: int = _data(
        1,
        "Ask every question this many times, and report how far the trials agree.",
        metavar="N",
        usual=True,
        low=1,
        high=100,
        request_field="num_trials",
        request_high=10,
    )
    shard_index: int = _data(
        0,
        "Which shard of the queries to run.",
        low=0,
        cli=False,
        request_field="shard_index",
        same_in_shards=False,
    )
    num_shards: int = _data(
        1,
        "How many shards to split the queries into.",
        low=1,
        cli=False,
        request_field="num_shards",
    )

    def __post_init__(self) -> None:
        for name in ("target", "target_name"):
            if not isinstance(getattr(self, name), str):
                raise UsageError(f"{name} must be a string, got {getattr(self, name)!r}")
        # Every caller's spelling of a value becomes one: runs are compared by their settings.
        for name, option in settings().items():
            object.__setattr__(self, name, option.read(getattr(self, name)))
        tags = parse_tags(self.tags)
        for name, option in settings().items():  # `note=…` and `track=…` are settings as well
            if option.as_tag and name in tags:
                object.__setattr__(self, name, option.read(tags.pop(name)))
        object.__setattr__(self, "tags", tuple(f"{key}={value}" for key, value in tags.items()))
        if is_private():  # whatever starts the run: a page, a request, Python
            object.__setattr__(self, "private", True)
        for name in MAY_HOLD_SECRETS:  # here and nowhere else: all that shows a run has it masked
            object.__setattr__(self, name, masked(getattr(self, name)))
        # Before `needs` is checked below: planted documents show in answers alone.
        if self.poison:
            object.__setattr__(self, "answers", True)
        for name, option in settings().items():
            unused = option.needs and not getattr(self, option.needs)
            if unused and getattr(self, name) != option.default:
                flag = f"--{option.needs.replace('_', '-')}"
                raise UsageError(f"{name} needs {flag}; set it as well")
        for name, text in (("label", self.label), *(("tag", tag) for tag in self.tags)):
            if len(text) > _MAX_LABEL_LENGTH or not text.isprintable():
                raise UsageError(
                    f"{name} {text[:40]!r} must be one line of at most {_MAX_LABEL_LENGTH} "
                    "characters; longer texts go into --tag note=TEXT"
                )
        if self.shard_index >= self.num_shards:
            raise UsageError(
                f"shard_index must be between 0 and {self.num_shards - 1}, got {self.shard_index}"
            )

    @property
    def chunk_separator(self) -> str:
        """What separates a document's id from its chunk's number: `--map 'chunk=#'`."""
        return next((text[6:] for text in self.mapping if text.startswith(CHUNK_KEY)), "")

    def with_changes(self, **changes: Any) -> "RunConfig":
        """As `dataclasses.replace`, but without settings that have no meaning any more."""
        kept = {each.name: getattr(self, each.name) for each in fields(self)}
        return RunConfig(**without_unneeded(kept | changes))

    @property
    def trials(self) -> Sequence[int]:
        """The numbers of the trials: from 1 with `--repeat`, else 0 alone."""
        return (0,) if self.repeat == 1 else range(1, self.repeat + 1)

    @property
    def ground_truth(self) -> str:
        """The file of `references` that has reference answers; empty if there is none."""
        return self._references_of("answers")

    @property
    def nuggets(self) -> str:
        """The file of `references` that has facts; empty if there is none."""
        return self._references_of("facts")

    def _references_of(self, kind: str) -> str:
        if not self.references:
            return ""
        # Imported late: a run without answers must not load what evaluates them.
        from assay.labels.references import reference_kinds

        fitting = [file for file in self.references if kind in reference_kinds(file)]
        if len(fitting) > 1:
            raise UsageError(f"{fitting[0]} and {fitting[1]} both hold {kind}; pass one of them")
        return fitting[0] if fitting else ""

    def to_json(self, *, full: bool = False) -> dict[str, Any]:
        """The settings as `run.json` keeps them; `full` with secrets, for a process to start."""
        values = asdict(self)
        if full:
            values |= {name: _map(full_text, getattr(self, name)) for name in MAY_HOLD_SECRETS}
        return values

    @classmethod
    def unknown_settings(cls, values: Mapping[str, Any]) -> list[str]:
        """The names that no setting has; one of a newer version, as a rule."""
        return sorted(set(_current(values)) - {each.name for each in fields(cls)})

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "RunConfig":
        """Read settings strictly; those that are younger than the run get their defaults.

        Raises `UsageError` for a wrong value, and `RunError` for what is no setting.
        """
        try:
            return cls(**_current(values))
        except TypeError as error:
            raise RunError(f"was not written by this version of Assay: {error}") from None


_OLD_BM25 = ("k1", "b", "delta", "title_weight", "language", "stop_words")
_OLD_JUDGE = {f"judge_{name}": name for name in option_fields(JudgeSettings)} | {
    "require_calibrated": "require_calibrated",
    "max_cost": "max_cost",
}


def _current(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run of an earlier version, under the names that they have now."""
    found = dict(values)
    # The options of BM25 and of the judge were settings of their own before they were parts.
    old = {name: found.pop(f"bm25_{name}", None) for name in _OLD_BM25}
    if chosen := [f"{name}={value}" for name, value in old.items() if value not in (None, "")]:
        found["bm25"] = chosen
    earlier = [found.pop(name, "") for name in ("ground_truth", "nuggets")]
    if any(earlier):
        found["references"] = [file for file in earlier if file]
    if folder := found.pop("model", ""):
        found["embedder"] = f"onnx:{folder}"
    kinds = found.pop("poison_kinds", None) or ["all"]
    if isinstance(found.get("poison"), bool):  # a switch, before it named its kinds
        found["poison"] = kinds if found["poison"] else []
    if isinstance(found.get("mapping"), str):  # one text, before the option was repeatable
        found["mapping"] = [found["mapping"]] if found["mapping"] else []
    if separator := found.pop("chunk_separator", ""):
        found["mapping"] = [*found.get("mapping", []), f"{CHUNK_KEY}{separator}"]
    if method := found.pop("method", ""):
        found["target"] = f"rest:{method} {found['target'].removeprefix('rest:')}"
    # Settings that are gone. They decided how an old run was made, not how it is read.
    for name in ("poison_into", "reasons", "device", "reranker"):
        found.pop(name, None)
    if flat := {key: found.pop(name) for name, key in _OLD_JUDGE.items() if name in found}:
        found["judge_set"] = {**found.get("judge_set", {}), **flat}
    if index := found.pop("index", ""):
        found["preset"] = f"{found.get('preset', '')}:{index}"
    return without_unneeded(found)


def without_unneeded(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without those whose `needs` is not set: they would change nothing."""
    found = dict(values)
    if found.get("poison"):
        found["answers"] = True
    for name, option in settings().items():  # a setting comes after the one that it needs
        if name in found and option.needs and not found.get(option.needs):
            del found[name]
    return found


def masked(value: Any) -> Any:
    """The value of a setting, a text or a tuple of texts, with its secrets masked."""
    return _map(mask_secrets, value)


def _map(change: Callable[[str], str], value: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    return tuple(map(change, value)) if isinstance(value, tuple) else value


def parse_tags(tags: Iterable[str]) -> dict[str, str]:
    """`KEY=VALUE` each, by key. Raises `UsageError` for one without a key, or a second one."""
    found: dict[str, str] = {}
    for text in tags:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key or key in found:
            raise UsageError(
                f"tag {text!r} must be KEY=VALUE with a key that no other tag has: chunks=512"
            )
        found[key] = value
    return found


@cache
def settings() -> dict[str, Option]:
    """Every setting that has an option, by name, in the order of the fields."""
    return option_fields(RunConfig)


# --- derived from the table ----------------------------------------------------------------------


def command_settings() -> list[Option]:
    """Those of `assay eval`, in order."""
    return [setting for setting in form_settings() if not setting.as_tag]


def form_settings() -> list[Option]:
    """Those of the form that starts an evaluation, in order."""
    return [setting for setting in settings().values() if setting.cli]


def arguments(config: RunConfig) -> list[tuple[str, str | None]]:
    """Flags with their values that repeat this run; a flag without a value is a switch.

    Every setting that means something is spelled out, whatever the environment says. Secrets are
    masked.
    """
    words: list[tuple[str, str | None]] = []
    for setting in command_settings():
        value, needs = getattr(config, setting.name), setting.needs
        if needs and not getattr(config, needs):  # it has no meaning
            continue
        if setting.kind is bool:
            if flag := setting.flag if value else setting.negative_flag:
                words.append((flag, None))
        elif setting.kind is tuple:
            words += [(setting.flag, str(each)) for each in value]
        elif setting.name == "judge":  # left out, the environment would choose one
            words.append((setting.flag, str(value) or EXTRACTIVE))
        elif text := setting.format(value):
            words.append((setting.flag, text))
    for setting in form_settings():
        if setting.as_tag and (value := getattr(config, setting.name)) != setting.default:
            words.append(("--tag", f"{setting.name}={value}"))
    if config.num_shards > 1:
        words.append(("--shard", f"{config.shard_index + 1}/{config.num_shards}"))
    return words


def parse_shard(text: str) -> tuple[int, int]:
    """`shard_index` and `num_shards` of `I/N`, where I counts from 1. Raises `UsageError`."""
    index, slash, count = text.strip().partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise UsageError(
            f"--shard {text!r} is not a shard; write I/N with I from 1 to N, such as --shard 1/4"
        )
    return int(index) - 1, int(count)


def read_option_table(table: Mapping[str, Any], where: str, *others: str) -> dict[str, Any]:
    """The values of settings in a table of a TOML file, by the names of the command's parameters.

    `others` are keys that the table may have as well. Raises `UsageError`, which names `where`,
    for an unknown key or a value of the wrong type.
    """
    known = {setting.param: setting for setting in command_settings()}
    return read_options(known, table, where, others)


def named_target(name: str, folder: Path | None = None) -> tuple[str, dict[str, Any]] | None:
    """The target that assay.toml calls `name` and its options, by the parameters of `assay eval`.

    None if `name` is not a plain name of the file. Raises `UsageError` for a table with an unknown
    key or a value of the wrong type, and for a plain name that only resembles one of the file.
    """
    if not name or ":" in name or Path(name).is_file():  # a table, meant as --dataset
        return None
    tables = read_project_file(folder).get("target")
    if not isinstance(tables, dict) or not tables:
        return None
    if not isinstance(table := tables.get(name), dict):
        names, hint = ", ".join(tables), did_you_mean(name, tables)
        raise UsageError(f"{PROJECT_FILE} has no [target.{name}]; it has: {names}{hint}")
    where = f"{PROJECT_FILE}: [target.{name}]"
    if not isinstance(target := table.get("target"), str) or not target:
        raise UsageError(f'{where} needs target = "rest:URL", or any other target')
    return target, read_option_table(table, where, "target")


def read_form(given: Mapping[str, str]) -> RunConfig:
    """The settings in a form's fields. Raises `UsageError`."""
    values = {
        setting.name: setting.read(given.get(setting.name, "").strip())
        for setting in form_settings()
        if setting.name in given or setting.kind is bool
    }
    return RunConfig(target=given.get("target", "").strip(), **values)


def form_fields(config: RunConfig) -> dict[str, str]:
    """The text of every field of the form for this run."""
    return {
        "target": config.target,
        **{each.name: each.format(getattr(config, each.name)) for each in form_settings()},
    }


def resumed(config: RunConfig, changes: Mapping[str, Any], run: str) -> RunConfig:
    """The settings of a resumed run: its own, with the `changes` that are allowed.

    Raises `UsageError` if a change would give other scores than the run was started for.
    """
    allowed = {}
    for name, value in changes.items():
        setting = settings().get(name)
        if setting is not None and setting.on_resume == "free":
            allowed[name] = value
            continue
        # Compared as it was stored: the run has its secrets masked.
        given = masked(value)
        if str(given) != str(getattr(config, name)):
            raise UsageError(
                f"run {run!r} was started with {name} {getattr(config, name)!r}, not {given!r}; "
                "omit it to resume the run, or start a new one"
            )
        if name in MAY_HOLD_SECRETS:  # the run's own has them masked
            allowed[name] = given
    return config.with_changes(**allowed)


def require_same(configs: Mapping[str, RunConfig]) -> None:
    """Raise `RunError` if runs, by their names, are not shards of one evaluation."""
    (first_name, first), *others = configs.items()
    for name, config in others:
        for setting in settings().values():
            value, expected = getattr(config, setting.name), getattr(first, setting.name)
            if setting.same_in_shards and value != expected:
                raise RunError(
                    f"run {name!r} has {setting.name} {value}, run {first_name!r} has {expected}: "
                    "not shards of one evaluation"
                )


def environment_defaults(names: Iterable[str]) -> dict[str, Any]:
    """The values that variables give to settings, by name; those without a variable are left out.

    Raises `UsageError`, which names the variable, for a value that the setting does not take.
    """
    found = {}
    for setting in (settings()[name] for name in names):
        if text := os.environ.get(setting.env or "", "").strip():
            found[setting.name] = setting.read(text, setting.env or "")
    return found


def request_settings() -> dict[str, Option]:
    """The settings that the A2A evaluator takes, by their key in its request."""
    every = settings().values()
    return {setting.request_field: setting for setting in every if setting.request_field}
