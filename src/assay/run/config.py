"""`RunConfig`: every setting of a run, declared once.

A field carries its help, flag, environment variable, form label and rules in its `Option`. The
command line, the web form, the command that repeats a run, `--resume`, `assay merge` and the A2A
evaluator's request are derived from this table by `assay.run.settings`: to add an option, add a
field here.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache, lru_cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from assay.errors import RunError, UsageError
from assay.net.redact import mask_secrets
from assay.privacy import is_private
from assay.run.answer_settings import AnswerSettings
from assay.run.option import Option, OptionFields, check_range, convert
from assay.run.option import option_field as _option
from assay.run.target_settings import LabelSettings, RetrieverSettings, TargetSettings, check_labels

if TYPE_CHECKING:
    from pydantic import TypeAdapter

TRACKS = ("zero-shot", "trained", "undeclared")
MAY_HOLD_SECRETS = ("target", "baseline", "mapping", "request", "headers", "judge")
"""Settings whose secrets are masked: see `assay.net.redact`."""

_usual = OptionFields(group="Usual options")
_data = OptionFields(group="Data", same_in_shards=True)
_calls = OptionFields(group="Calls", on_resume="free")


@dataclass(frozen=True, slots=True)
class RunConfig(TargetSettings):
    """Everything that decides a run's scores and how it is carried out; kept in `run.json`."""

    target: str
    target_name: str = ""
    """What assay.toml calls the target."""
    dataset: str = _usual(
        "nfcorpus",
        "nfcorpus, notes, beir:NAME, hf:ORG/NAME, ir_datasets:NAME, the path of a BEIR or MTEB "
        "folder or zip, or a table of questions and expected ids (.csv, .tsv, .jsonl, .parquet). "
        "Default: nfcorpus, or notes if the download fails.",
        metavar="NAME|PATH",
        label="Data set",
        optional=True,
    )
    columns: tuple[str, ...] = _data(
        (),
        "The columns of a table, if they have other names: query=prompt,ids=docs. Keys: query, "
        "ids, grades, doc_id, grade, query_id, answer, tags.",
        metavar="KEY=COLUMN", label="Columns of a table of questions", placeholder="by their names",
    )  # fmt: skip
    split: str = _data(
        "test", "Which split of the judgments to use.", metavar="NAME", label="Split"
    )
    num_queries: int | None = _usual(
        None,
        "Ask only this many queries, drawn at random. Default: all.",
        metavar="N",
        label="Queries",
        placeholder="all",
        low=1,
        same_in_shards=True,
        request_field="num_queries",
    )
    seed: int = _data(
        42,
        "Random seed of the query sample.",
        metavar="S",
        label="Seed",
        low=0,
        high=2**63 - 1,
        request_field="random_seed",
        request_high=2**53 - 1,  # A2A carries numbers as doubles
    )
    top_k: int = _usual(
        5,
        "How many documents to request for each query.",
        metavar="K",
        label="Top k",
        low=1,
        high=1000,
        same_in_shards=True,
        request_field="top_k",
        request_high=100,
    )
    concurrency: int = _calls(
        8,
        "How many queries to send at once.",
        metavar="N",
        label="Concurrency",
        low=1,
        high=1000,
        request_field="concurrency",
        request_high=64,
    )
    timeout: float = _calls(
        60.0,
        "Timeout of one attempt at a query, in seconds.",
        metavar="S",
        label="Timeout (seconds)",
        request_field="timeout",
        request_high=3600,
    )
    retries: int = _calls(
        3,
        "How many times to retry after a connection error or HTTP 502 to 504. After 429, a query "
        "waits for up to two minutes, unless this is 0.",
        metavar="N",
        label="Retries",
        low=0,
        high=20,
    )
    warm_up: float = _calls(
        300.0,
        "How long to wait for an agent that is still loading: until /health/ready returns 200, or "
        "else until one query, which is not counted, is answered. 0 for no warm-up.",
        metavar="S",
        label="Warm-up (seconds)",
        low=0,
        high=86_400,
    )
    gates: tuple[str, ...] = _usual(
        (),
        'A condition such as "ndcg@5>=0.30"; exit code 1 if it fails. Repeatable; in the '
        "variable, separate gates with ;",
        flag="--gate",
        metavar="EXPR",
        label="Gates, one per line",
        placeholder="ndcg@5>=0.30",
        on_resume="free",
    )
    track: str = _option(
        "undeclared",
        "Whether the agent has seen judgments of this data set: zero-shot (no), trained (yes) or "
        "undeclared. Built-in agents are zero-shot if undeclared.",
        metavar="TRACK",
        label="Track",
        choices=TRACKS,
        request_field="track",
        group="Run",
    )
    baseline: str = _usual(
        "",
        "A second target to evaluate and compare with.",
        metavar="TARGET",
        label="Baseline",
        placeholder="none",
        on_resume="free",
    )
    private: bool = _option(
        False,
        "Write no text of queries, documents or answers: reports have only ids and figures. With "
        "--answers, resuming asks every question again.",
        label="Private: keep no text of queries, documents and answers",
        same_in_shards=True,
        group="Output",
    )
    shard_index: int = _data(
        0, "Which shard of the queries to run.", low=0, cli=False,
        request_field="shard_index", same_in_shards=False,
    )  # fmt: skip
    num_shards: int = _data(
        1, "How many shards to split the queries into.", low=1, cli=False,
        request_field="num_shards",
    )  # fmt: skip

    def __post_init__(self) -> None:
        for name, kinds in field_types().items():
            object.__setattr__(self, name, convert(name, getattr(self, name), kinds))
        if is_private():  # whatever starts the run: a page, a request, Python
            object.__setattr__(self, "private", True)
        for name in MAY_HOLD_SECRETS:  # here and nowhere else: all that shows a run has it masked
            object.__setattr__(self, name, masked(getattr(self, name)))
        for name, option in option_table().items():
            check_range(name, getattr(self, name), option)
        check_labels(self)
        if self.poison:
            object.__setattr__(self, "answers", True)
        if not self.answers and (
            self.judge or self.counterfactuals or self.references or self.faithfulness
        ):
            raise UsageError(
                "a judge, counterfactuals, references and faithfulness require --answers "
                "(answers=True in Python); add it"
            )
        if self.criteria and not self.judge:
            raise UsageError("criteria are rated by a judge; add --judge (judge= in Python)")
        if self.max_cost is not None and not self.judge:
            raise UsageError("max_cost limits what a judge may spend; add --judge")
        if self.judge_timeout is not None and not self.judge_timeout < float("inf"):
            raise UsageError(f"judge_timeout must be finite, got {self.judge_timeout}")
        if self.shard_index >= self.num_shards:
            raise UsageError(
                f"shard_index must be between 0 and {self.num_shards - 1}, got {self.shard_index}"
            )
        if not 0 < self.timeout < float("inf"):
            raise UsageError(f"timeout must be a positive number of seconds, got {self.timeout}")

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
        from assay.labels.references import reference_kinds

        fitting = [each for each in self.references if kind in reference_kinds(each)]
        if len(fitting) > 1:
            raise UsageError(f"{fitting[0]} and {fitting[1]} both hold {kind}; pass one of them")
        return fitting[0] if fitting else ""

    def to_json(self) -> dict[str, Any]:
        """The settings as `run.json` keeps them."""
        return asdict(self)

    @classmethod
    def unknown_settings(cls, values: Mapping[str, Any]) -> list[str]:
        """The names that no setting has; one of a newer version, as a rule."""
        return sorted(set(_current(values)) - {each.name for each in fields(cls)})

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "RunConfig":
        """Read settings strictly; those that are younger than the run get their defaults."""
        values = _current(values)
        unknown = cls.unknown_settings(values)
        if unknown or "target" not in values:
            what = f"unknown settings {unknown}" if unknown else "no target"
            raise RunError(f"was not written by this version of Assay: {what}")
        import orjson
        from pydantic import ValidationError

        given = dict(values)
        if isinstance(given.get("mapping"), str):  # one text, before the option was repeatable
            given["mapping"] = [given["mapping"]] if given["mapping"] else []
        try:
            return _read_settings(orjson.dumps(given), is_private())
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise RunError(f"{place}: {first['msg']}, got {first['input']!r}") from None


_OLD_BM25 = ("k1", "b", "delta", "title_weight", "language", "stop_words")


def _current(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run of an earlier version, under the names that they have now."""
    found = dict(values)
    old = {name: found.pop(f"bm25_{name}", None) for name in _OLD_BM25}
    if chosen := [f"{name}={value}" for name, value in old.items() if value not in (None, "")]:
        found["bm25"] = [each.replace(",", "|") for each in chosen]
    earlier = [found.pop(name, "") for name in ("ground_truth", "nuggets")]
    if any(earlier):
        found["references"] = [each for each in earlier if each]
    kinds = found.pop("poison_kinds", None) or ["all"]
    if isinstance(found.get("poison"), bool):  # a switch, before it named its kinds
        found["poison"] = kinds if found["poison"] else []
    for name in ("judge_max_flips", "poison_into", "reasons"):
        found.pop(name, None)
    if folder := found.pop("model", ""):
        found["embedder"] = f"onnx:{folder}"
    return found


def masked(value: Any) -> Any:
    """The value of a setting, a text or a tuple of texts, with its secrets masked."""
    if isinstance(value, str):
        return mask_secrets(value)
    return tuple(map(masked, value)) if isinstance(value, tuple) else value


@cache
def option_table() -> dict[str, Option]:
    """The option of every field of `RunConfig`, in their order; those of its parts last."""
    parts = (TargetSettings, RetrieverSettings, LabelSettings, AnswerSettings)
    inherited = [{each.name for each in fields(part)} for part in parts]
    ordered = sorted(fields(RunConfig), key=lambda each: sum(each.name in of for of in inherited))
    return {each.name: each.metadata["option"] for each in ordered if "option" in each.metadata}


@lru_cache(maxsize=32)
def _read_settings(content: bytes, _private: bool) -> RunConfig:
    """Kept for a moment: the header of a run and its report have the same settings."""
    return _reader().validate_json(content, strict=True)


@cache
def _reader() -> "TypeAdapter[RunConfig]":
    from pydantic import TypeAdapter

    return TypeAdapter(RunConfig)


@cache
def field_types() -> dict[str, tuple[type, bool]]:
    """Of every field: str, bool, int, float or tuple (of texts), and whether it may be None."""
    found = {}
    for name, hint in get_type_hints(RunConfig).items():
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        (kind,) = (each for each in kinds if each is not NoneType)
        found[name] = (kind if isinstance(kind, type) else tuple, NoneType in kinds)
    return found
