"""A session: its settings from options, the environment and assay.toml, and its queries, each with
its expected documents and reference answer.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from assay.errors import AssayError, DownloadError, UsageError
from assay.files import find_project_file, read_project_file
from assay.llm.provider_kinds import PROVIDER_VARIABLE
from assay.net.redact import redact_credentials

if TYPE_CHECKING:
    from assay.data import Dataset, Query
    from assay.net.json import JsonObject
    from assay.run.config import RunConfig

TARGET, DATASET = "builtin:hybrid", "nfcorpus"
GROUND_TRUTH = Path("tests", "rag_evaluation", "fixtures", "ground_truth.json")
OLLAMA_VARIABLE = "RAG_EVAL_OLLAMA_BASE_URL"
SPLIT = "test"
DEFAULT_QUERIES = 5
SEED = 42
# Begins the message of a collection that failed because there are no cases: the report recognizes
# it, also when a worker of a distributed session sends it.
NO_CASES = "rag_case: "

_OPTIONS = (
    ("target", "TARGET", "What to evaluate, as for 'assay eval' (ASSAY_TARGET, assay.toml)."),
    ("provider", "NAME", f"The model that judges and samples: ollama, ... ({PROVIDER_VARIABLE})."),
    ("dataset", "NAME|PATH", f"The questions (ASSAY_DATASET, assay.toml; {DATASET})."),
    ("ground-truth", "FILE", f"Reference answers of 'assay ground-truth' ({GROUND_TRUTH})."),
    ("chunk-separator", "TEXT", "As --map chunk=TEXT of 'assay eval'."),
    ("report", "FILE", "Where to write the JSON report (rag-report.json in pytest's cache)."),
)
_dataset_key = pytest.StashKey["Dataset"]()


def add_options(parser: pytest.Parser) -> None:
    """The `--assay-...` options of pytest."""
    group = parser.getgroup("assay", "retrieval and answer evaluation (Assay)")
    for name, metavar, words in _OPTIONS:
        group.addoption(f"--assay-{name}", metavar=metavar, help=words)
    words = "Evaluate all judged queries of the test split instead of five."
    group.addoption("--assay-all-queries", action="store_true", help=words)


@dataclass(frozen=True, slots=True)
class Settings:
    """`provider` and `ground_truth` are None if there is none.

    `options` are those that assay.toml has for the target, by their names in `[target.NAME]`.
    `is_named`: whether somebody named the target; else it is the reference retriever.
    """

    target: str
    dataset: str
    provider: str | None
    ground_truth: Path | None
    all_queries: bool
    chunk_separator: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    is_named: bool = False

    @classmethod
    def of(cls, config: pytest.Config) -> "Settings":
        """Options first, then the environment, then assay.toml, then defaults."""
        project = _Project.of(config)
        named = config.getoption("--assay-target") or os.environ.get("ASSAY_TARGET")
        target, options = project.target(named)
        dataset = (
            config.getoption("--assay-dataset")
            or os.environ.get("ASSAY_DATASET")
            or project.dataset
            or DATASET
        )
        return cls(
            target=target or TARGET,
            dataset=dataset,
            provider=config.getoption("--assay-provider") or _provider_of_environment(),
            ground_truth=_ground_truth(config, dataset),
            all_queries=bool(config.getoption("--assay-all-queries")),
            chunk_separator=config.getoption("--assay-chunk-separator") or "",
            options=options,
            is_named=bool(target),
        )

    @property
    def model(self) -> str | None:
        """The provider if it has a model behind it: 'extractive' quotes, and cannot be asked."""
        return None if self.provider == "extractive" else self.provider

    def run_config(self, *, answers: bool = True) -> "RunConfig":
        """The settings of the target as those of a run."""
        from assay.run.config import RunConfig
        from assay.run.settings import command_settings, read_option_table

        names = {setting.param: setting.name for setting in command_settings()}
        table = read_option_table(self.options, "assay.toml:", "target")
        values = {names[param]: value for param, value in table.items()}
        if self.chunk_separator:
            values["mapping"] = (*values.get("mapping", ()), f"chunk={self.chunk_separator}")
        return RunConfig(target=self.target, **{"answers": answers, **values})


@dataclass(frozen=True, slots=True)
class _Project:
    """What the nearest assay.toml says of the questions and the target."""

    folder: Path
    content: Mapping[str, Any]

    @classmethod
    def of(cls, config: pytest.Config) -> "_Project":
        start = Path(config.invocation_params.dir)
        path = find_project_file(start)
        return cls(path.parent, read_project_file(start)) if path else cls(start, {})

    @property
    def dataset(self) -> str | None:
        """A path is relative to the file."""
        given = self._of_eval("dataset")
        place = self.folder / str(given)
        return str(place) if given and place.exists() else given

    def target(self, named: str | None) -> tuple[str | None, Mapping[str, Any]]:
        """The target and its options: `named`, of `[eval]`, or the only one of the file."""
        tables = self.content.get("target")
        tables = tables if isinstance(tables, dict) else {}
        given = named or self._of_eval("target")
        if given is None and len(tables) == 1:
            given = next(iter(tables))
        if not isinstance(given, str):
            return None, {}
        table = tables.get(given)
        return (str(table["target"]), table) if isinstance(table, dict) else (given, {})

    def _of_eval(self, name: str) -> Any:
        table = self.content.get("eval")
        own = table.get(name) if isinstance(table, dict) else None
        given = self.content.get(name) if own is None else own
        return None if isinstance(given, dict) else given


def report_path(config: pytest.Config) -> Path:
    """Where the report is written: pytest's cache, unless `--assay-report` names a file.

    Without a cache (`-p no:cacheprovider`), a new temporary folder: the project stays as it is.
    """
    if named := _named_file(config, "--assay-report"):
        return named
    cache: pytest.Cache | None = getattr(config, "cache", None)
    folder = Path(tempfile.mkdtemp(prefix="assay-")) if cache is None else cache.mkdir("assay")
    return folder / "rag-report.json"


def _ground_truth(config: pytest.Config, dataset: str) -> Path | None:
    """A file that was named counts even if it is missing: then the session has to fail."""
    if named := _named_file(config, "--assay-ground-truth"):
        return named
    usual = config.rootpath / GROUND_TRUTH
    return usual if dataset == DATASET and usual.exists() else None


def _named_file(config: pytest.Config, option: str) -> Path | None:
    named = config.getoption(option)
    return Path(config.invocation_params.dir, named) if named else None


def _provider_of_environment() -> str | None:
    """An address of Ollama is enough: if nothing else is said, Ollama is the provider."""
    if named := os.environ.get(PROVIDER_VARIABLE, "").strip():
        return named
    return "ollama" if os.environ.get(OLLAMA_VARIABLE, "").strip() else None


@contextmanager
def user_errors() -> Iterator[None]:
    """Skip the test if data is missing; fail without a traceback for another `AssayError`."""
    try:
        yield
    except DownloadError as error:
        raise pytest.skip.Exception(missing_data(error)) from None
    except AssayError as error:
        # Not by pytest.fail: what it was raised from would be shown, with a traceback.
        raise pytest.fail.Exception(redact_credentials(str(error)), pytrace=False) from None


def missing_data(error: DownloadError) -> str:
    """The message with pytest's options in place of those of the command line."""
    return redact_credentials(str(error).replace("--dataset ", "--assay-dataset "))


@dataclass(frozen=True, slots=True)
class RagCase:
    """One query of a session. `expected_document_ids` are the documents of the highest grade that
    the query has, `judgments` all its grades; `answerable` is False if declining is right.
    """

    query_id: str
    query: str
    expected_document_ids: tuple[str, ...] = field(repr=False)
    judgments: Mapping[str, int] = field(repr=False)
    reference: str | None
    answerable: bool = True

    @property
    def ground_truth(self) -> str:
        """The reference answer. Skips the test if there is none: a judge must not see `None`."""
        if self.reference is None:
            raise pytest.skip.Exception(
                f"no reference answer for {self.query_id!r}: pass --assay-ground-truth FILE, or "
                f"create {GROUND_TRUTH} with: assay ground-truth"
            )
        return self.reference


@dataclass(frozen=True, repr=False)
class RagTestData:
    """A sequence of cases, with the data set that they are from."""

    dataset: "Dataset"
    cases: tuple[RagCase, ...]
    unanswerable: tuple[RagCase, ...] = ()
    """Questions that no document answers, for tests with the marker `rag_unanswerable`."""

    def __repr__(self) -> str:
        return f"<RagTestData: {len(self.cases):,} cases of {self.dataset!r}>"

    def __iter__(self) -> Iterator[RagCase]:
        return iter(self.cases)

    def __len__(self) -> int:
        return len(self.cases)

    def __getitem__(self, place: int) -> RagCase:
        return self.cases[place]

    def case(self, query_id: str) -> RagCase:
        """The case of a query."""
        every = (*self.cases, *self.unanswerable)
        return next(case for case in every if case.query_id == query_id)


def session_dataset(config: pytest.Config) -> "Dataset":
    """The data set of the session, loaded at first use."""
    if _dataset_key not in config.stash:
        from assay.data import load_dataset

        config.stash[_dataset_key] = load_dataset(Settings.of(config).dataset)
    return config.stash[_dataset_key]


def case_parameters(config: pytest.Config, *, unanswerable: bool = False) -> list[Any]:
    """Query ids for the fixture `rag_case`. The five of NFCorpus are known without its archive, so
    that tests can be collected, and skipped, without it.
    """
    try:
        ids = _unanswerable_ids(config) if unanswerable else _query_ids(config)
    except DownloadError as error:
        missing = pytest.mark.skip(reason=missing_data(error))
        return [pytest.param(None, id="no-data", marks=(pytest.mark.rag, missing))]
    except AssayError as error:  # the one kind that pytest shows without a traceback
        raise pytest.Collector.CollectError(NO_CASES + redact_credentials(str(error))) from None
    if not ids:
        reason = "every question of the data set has an answer in its documents"
        none = (pytest.mark.rag, pytest.mark.skip(reason=reason))
        return [pytest.param(None, id="no-unanswerable-question", marks=none)]
    return [pytest.param(query_id, id=query_id, marks=pytest.mark.rag) for query_id in ids]


def load_test_data(config: pytest.Config, records: "Sequence[JsonObject]") -> RagTestData:
    """The cases of the session; the ground truth `records` win over the data set's answers."""
    dataset = session_dataset(config)
    known = {key: truth.answer for key, truth in dataset.answers.items() if truth.answer}
    known |= {record["query_id"]: record["ground_truth_answer"] for record in records}
    none = [dataset.queries[query_id] for query_id in _unanswerable_ids(config)]
    return RagTestData(
        dataset,
        tuple(_case(dataset, query_id, known.get(query_id)) for query_id in _query_ids(config)),
        tuple(RagCase(query.id, query.text, (), {}, None, answerable=False) for query in none),
    )


def read_ground_truth(path: Path, dataset: "Dataset") -> "list[JsonObject]":
    """The records of the file, with the texts that it leaves out."""
    from assay.answers.references import load_references, reference_to_json

    return [reference_to_json(each) for each in load_references(path, dataset).values()]


def _query_ids(config: pytest.Config) -> list[str]:
    from assay.labels.reference_writing import SELECTED

    settings = Settings.of(config)
    if settings.all_queries:
        return [query.id for query in session_dataset(config).queries_in(SPLIT)]
    if settings.dataset == "nfcorpus":
        return list(SELECTED)
    return [query.id for query in _some_queries(session_dataset(config))]


def _unanswerable_ids(config: pytest.Config) -> list[str]:
    """Those whose reference says that there is no answer: all, or the first few."""
    dataset = session_dataset(config)
    ids = [query_id for query_id in dataset.queries if query_id in dataset.answers]
    found = [query_id for query_id in ids if dataset.answers[query_id].answer is None]
    return found if Settings.of(config).all_queries else found[:DEFAULT_QUERIES]


def _some_queries(dataset: "Dataset") -> "list[Query]":
    from assay.labels.reference_writing import choose_queries

    number = min(DEFAULT_QUERIES, len(dataset.queries_in(SPLIT)))
    if not number:
        raise UsageError(f"{dataset.name!r} has no judged query in its split {SPLIT!r}")
    return choose_queries(dataset, SPLIT, number=number, seed=SEED)


def _case(dataset: "Dataset", query_id: str, reference: str | None) -> RagCase:
    from assay.labels.reference_writing import expected_ids

    return RagCase(
        query_id=query_id,
        query=dataset.queries[query_id].text,
        expected_document_ids=expected_ids(dataset, SPLIT, query_id),
        judgments=dataset.judgments_in(SPLIT)[query_id],
        reference=reference,
    )
