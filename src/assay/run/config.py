"""`RunConfig`: every setting of a run, declared once.

A field carries its help, flag, environment variable, form label and rules in its `Option`. The
command line, the web form, the command that repeats a run, `--resume`, `assay merge` and the A2A
evaluator's request are derived from this table by `assay.run.options`: to add an option, add a
field here.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache, lru_cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from assay.errors import RunError, UsageError
from assay.net.redact import mask_secrets, remove_secrets
from assay.privacy import is_private
from assay.run.answer_settings import AnswerSettings
from assay.run.option import Option, check_range, convert
from assay.run.option import option_field as _option
from assay.run.target_settings import LabelSettings, RetrieverSettings, TargetSettings, check_labels

if TYPE_CHECKING:
    from pydantic import TypeAdapter

TRACKS = ("zero-shot", "trained", "undeclared")
MAY_HOLD_SECRETS = ("target", "baseline", "mapping", "request", "headers", "judge")
"""Settings whose secrets are masked: see `assay.net.redact`."""


@dataclass(frozen=True, slots=True)
class RunConfig(TargetSettings):
    """Everything that decides a run's scores and how it is carried out; kept in `run.json`."""

    target: str
    dataset: str = _option(
        "nfcorpus",
        "nfcorpus, notes, beir:NAME, hf:ORG/NAME, ir_datasets:NAME, the path of a BEIR or MTEB "
        "folder or zip, or a table of questions and expected ids (.csv, .tsv, .jsonl, .parquet). "
        "Default: nfcorpus, or notes if there is no download.",
        metavar="NAME|PATH",
        label="Data set",
        optional=True,
        group="Usual options",
    )
    columns: tuple[str, ...] = _option(
        (),
        "Which column of a table holds what: query=Frage,ids=docs. Keys: query, ids, grades, "
        "doc_id, grade, query_id, answer, tags.",
        metavar="KEY=COLUMN", label="Columns of a table of questions", placeholder="by their names",
        widget="lines", same_in_shards=True, group="Data",
    )  # fmt: skip
    split: str = _option("test", "Which judgments to use.", metavar="NAME", label="Split",
                         same_in_shards=True, group="Data")  # fmt: skip
    num_queries: int | None = _option(
        None,
        "How many queries to draw at random. Default: all.",
        metavar="N",
        label="Queries",
        placeholder="all",
        widget="number",
        low=1,
        same_in_shards=True,
        request_field="num_queries",
        group="Usual options",
    )
    seed: int = _option(
        42,
        "Random seed of the query sample.",
        metavar="S",
        label="Seed",
        widget="number",
        low=0,
        high=2**63 - 1,
        same_in_shards=True,
        request_field="random_seed",
        request_high=2**53 - 1,  # A2A carries numbers as doubles
        group="Data",
    )
    top_k: int = _option(
        5,
        "How many documents to ask for.",
        metavar="K",
        label="Top k",
        widget="number",
        low=1,
        high=1000,
        same_in_shards=True,
        request_field="top_k",
        request_high=100,
        group="Usual options",
    )
    concurrency: int = _option(
        8,
        "How many queries to send at once.",
        metavar="N",
        label="Concurrency",
        widget="number",
        low=1,
        high=1000,
        on_resume="free",
        request_field="concurrency",
        request_high=64,
        group="Calls",
    )
    timeout: float = _option(
        60.0,
        "Timeout of one attempt at a query in seconds.",
        metavar="S",
        label="Timeout (seconds)",
        widget="number",
        on_resume="free",
        request_field="timeout",
        request_high=3600,
        group="Calls",
    )
    retries: int = _option(
        3,
        "How many times to retry after a temporary failure: connection errors, 502 to 504. 429 is "
        "waited for up to two minutes, unless this is 0.",
        metavar="N",
        label="Retries",
        widget="number",
        low=0,
        high=20,
        on_resume="free",
        group="Calls",
    )
    warm_up: float = _option(
        300.0,
        "How long to wait until the agent is ready: until its /health/ready says so, or else until "
        "it has answered one query that is not counted. 0 for no warm-up.",
        metavar="SECONDS",
        label="Warm-up (seconds)",
        widget="number",
        low=0,
        high=86_400,
        on_resume="free",
        group="Calls",
    )
    gates: tuple[str, ...] = _option(
        (),
        'A condition such as "ndcg@5>=0.30"; exit code 1 if it fails. Repeatable; in the '
        "variable, separate gates with ;",
        flag="--gate",
        param="gate",
        env="ASSAY_GATE",
        metavar="EXPR",
        label="Gates, one per line",
        placeholder="ndcg@5>=0.30",
        widget="lines",
        on_resume="free",
        group="Usual options",
    )
    track: str = _option(
        "undeclared",
        "How the agent may have learned: zero-shot, trained or undeclared. Built-in agents are "
        "zero-shot if undeclared.",
        metavar="TRACK",
        label="Track",
        widget="select",
        choices=TRACKS,
        request_field="track",
        group="Run",
    )
    baseline: str = _option(
        "",
        "A second target to compare with.",
        metavar="TARGET",
        label="Baseline",
        placeholder="none",
        on_resume="free",
        group="Usual options",
    )
    private: bool = _option(
        False,
        "Write nothing of queries, documents and answers anywhere: reports have ids and figures "
        "only. Resuming asks every question again where answers are evaluated.",
        label="Private: keep no text of queries, documents and answers",
        widget="checkbox",
        same_in_shards=True,
        group="Output",
    )
    shard_index: int = _option(
        0, "Which shard of the queries to run.", low=0, cli=False,
        request_field="shard_index", group="Data",
    )  # fmt: skip
    num_shards: int = _option(
        1, "How many shards to split the queries into.", low=1, cli=False, same_in_shards=True,
        request_field="num_shards", group="Data",
    )  # fmt: skip

    def __post_init__(self) -> None:
        for name, kinds in field_types().items():
            object.__setattr__(self, name, convert(name, getattr(self, name), kinds))
        if is_private():  # whatever starts the run: a page, a request, Python
            object.__setattr__(self, "private", True)
        for name in MAY_HOLD_SECRETS:  # here and nowhere else: all that shows a run has it masked
            value = getattr(self, name)
            masked = (
                mask_secrets(value) if isinstance(value, str) else tuple(map(mask_secrets, value))
            )
            object.__setattr__(self, name, masked)
        for name, option in option_table().items():
            check_range(name, getattr(self, name), option)
        check_labels(self)
        if self.poison:
            object.__setattr__(self, "answers", True)
        elif self.poison_kinds:
            raise UsageError("poison_kinds (--poison-kind) requires --poison; add it")
        if not self.answers and (self.judge or self.counterfactuals or self.ground_truth):
            raise UsageError(
                "a judge, counterfactuals and ground truth require --answers (answers=True in "
                "Python); add it"
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

    def redact(self, words: str) -> str:
        """What others say, without the secrets of these settings, which they may repeat."""
        values = [getattr(self, name) for name in MAY_HOLD_SECRETS]
        texts = [[each] if isinstance(each, str) else each for each in values]
        return remove_secrets(words, [text for each in texts for text in each])

    def to_json(self) -> dict[str, Any]:
        """The settings as `run.json` keeps them."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "RunConfig":
        """Read settings strictly; those that are younger than the run get their defaults."""
        unknown = sorted(set(values) - {each.name for each in fields(cls)})
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


def _mask_each(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(mask_secrets, texts))


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
