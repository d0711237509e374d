"""The pytest plugin: evaluations of retrieval and answers as tests of any project.

It is installed with Assay and does nothing until a test uses one of its fixtures or has the marker
`rag`. So nothing heavy is imported here, or by the modules that it names.
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
    from assay.data import Dataset
    from assay.net.json import JsonObject
    from assay.run.config import RunConfig

pytest_plugins = ["assay.pytest_plugin.fixtures", "assay.pytest_plugin.report"]

TARGET, DATASET = "builtin:hybrid", "nfcorpus"
GROUND_TRUTH = Path("tests", "rag_evaluation", "fixtures", "ground_truth.json")
OLLAMA_VARIABLE = "RAG_EVAL_OLLAMA_BASE_URL"
SPLIT = "test"
DEFAULT_QUERIES = 5

_OPTIONS = (
    ("target", "TARGET", "What to evaluate, as for 'assay eval' (ASSAY_TARGET, assay.toml)."),
    ("provider", "NAME", f"The model that judges and samples: ollama, ... ({PROVIDER_VARIABLE})."),
    ("dataset", "NAME|PATH", f"The questions (ASSAY_DATASET, assay.toml; {DATASET})."),
    ("ground-truth", "FILE", f"Reference answers of 'assay ground-truth' ({GROUND_TRUTH})."),
    ("report", "FILE", "Where to write the JSON report (rag-report.json in pytest's cache)."),
)
_dataset_key = pytest.StashKey["Dataset"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that begin with `--assay-`."""
    group = parser.getgroup("assay", "retrieval and answer evaluation (Assay)")
    for name, metavar, text in _OPTIONS:
        group.addoption(f"--assay-{name}", metavar=metavar, help=text)
    text = "Evaluate all judged queries of the test split instead of five."
    group.addoption("--assay-all-queries", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers", "rag: evaluates retrieval or answers; reported together at the end (Assay)"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One case for each query, so that a failure hides no other."""
    if "rag_case" in metafunc.fixturenames:
        metafunc.parametrize("rag_case", case_parameters(metafunc.config), indirect=True)


@dataclass(frozen=True, slots=True)
class Settings:
    """`options` are those that assay.toml has for the target, which is the reference retriever
    unless somebody named one (`is_named`)."""

    target: str
    dataset: str
    provider: str | None
    ground_truth: Path | None
    all_queries: bool
    options: Mapping[str, Any] = field(default_factory=dict)
    is_named: bool = False

    @classmethod
    def of(cls, config: pytest.Config) -> "Settings":
        """Options first, then the environment, then assay.toml, then defaults."""
        folder = Path(config.invocation_params.dir)
        content = read_project_file(folder)
        target, options = _find_target(config, content, folder)
        dataset = config.getoption("--assay-dataset") or os.environ.get("ASSAY_DATASET")
        if not dataset:
            dataset = _of_eval(content, "dataset") or DATASET
            file = find_project_file(folder)
            if file and (file.parent / dataset).exists():  # a path is relative to the file
                dataset = str(file.parent / dataset)
        # A file that was named counts even if it is missing: then the session has to fail.
        ground_truth = _named_file(config, "--assay-ground-truth")
        usual = config.rootpath / GROUND_TRUTH
        if ground_truth is None and dataset == DATASET and usual.exists():
            ground_truth = usual
        # An address of Ollama is enough: if nothing else is said, Ollama is the provider.
        provider = config.getoption("--assay-provider") or os.environ.get(PROVIDER_VARIABLE)
        if not provider and os.environ.get(OLLAMA_VARIABLE):
            provider = "ollama"
        every = bool(config.getoption("--assay-all-queries"))
        named = bool(target)
        return cls(target or TARGET, dataset, provider or None, ground_truth, every, options, named)

    @property
    def model(self) -> str | None:
        """The provider if it has a model behind it: 'extractive' quotes, and cannot be asked."""
        return None if self.provider == "extractive" else self.provider

    def run_config(self, *, answers: bool = True) -> "RunConfig":
        """The settings of the target as those of a run."""
        from assay.run.config import RunConfig, command_settings

        names = {setting.param: setting.name for setting in command_settings()}
        values = {names[param]: value for param, value in self.options.items()}
        return RunConfig(target=self.target, **{"answers": answers, **values})


def _of_eval(content: Mapping[str, Any], name: str) -> str | None:
    """A value of the table `[eval]`, else of the top level."""
    table = content.get("eval")
    found = table.get(name) if isinstance(table, dict) else None
    found = content.get(name) if found is None else found
    return found if isinstance(found, str) else None


def _find_target(
    config: pytest.Config, content: Mapping[str, Any], folder: Path
) -> tuple[str | None, Mapping[str, Any]]:
    """The target and its options: the named one, that of `[eval]`, or the only one of the file."""
    given = config.getoption("--assay-target") or os.environ.get("ASSAY_TARGET")
    given = given or _of_eval(content, "target")
    tables = content.get("target")
    if given is None and isinstance(tables, dict) and len(tables) == 1:
        given = next(iter(tables))
    if not given or not tables:
        return given, {}
    from assay.run.config import named_target  # brings pydantic

    return named_target(given, folder) or (given, {})


def _named_file(config: pytest.Config, option: str) -> Path | None:
    named = config.getoption(option)
    return Path(config.invocation_params.dir, named) if named else None


def report_path(config: pytest.Config) -> Path:
    """Where the report is written: pytest's cache, unless `--assay-report` names a file.

    Without a cache (`-p no:cacheprovider`), a new temporary folder: the project stays as it is.
    """
    if named := _named_file(config, "--assay-report"):
        return named
    cache: pytest.Cache | None = getattr(config, "cache", None)
    folder = Path(tempfile.mkdtemp(prefix="assay-")) if cache is None else cache.mkdir("assay")
    return folder / "rag-report.json"


@contextmanager
def user_errors() -> Iterator[None]:
    """Skip the test if data is missing; fail without a traceback for another `AssayError`."""
    try:
        yield
    except DownloadError as error:
        raise pytest.skip.Exception(_missing_data(error)) from None
    except AssayError as error:
        # Not by pytest.fail: what it was raised from would be shown, with a traceback.
        raise pytest.fail.Exception(redact_credentials(str(error)), pytrace=False) from None


def _missing_data(error: DownloadError) -> str:
    """The message with pytest's options in place of those of the command line."""
    return redact_credentials(str(error).replace("--dataset ", "--assay-dataset "))


@dataclass(frozen=True, slots=True)
class RagCase:
    """One query of a session. `expected_document_ids` are the documents of the highest grade that
    the query has, `judgments` all its grades.
    """

    query_id: str
    query: str
    expected_document_ids: tuple[str, ...] = field(repr=False)
    judgments: Mapping[str, int] = field(repr=False)
    reference: str | None

    @property
    def ground_truth(self) -> str:
        """The reference answer. Skips the test if there is none: a judge must not see `None`."""
        if self.reference is None:
            raise pytest.skip.Exception(
                f"no reference answer for {self.query_id!r}: pass --assay-ground-truth FILE, or "
                f"create {GROUND_TRUTH} with: assay ground-truth"
            )
        return self.reference


class RagTestData(tuple[RagCase, ...]):
    """The cases, with the data set that they are from."""

    dataset: "Dataset"

    def __repr__(self) -> str:
        return f"<RagTestData: {len(self):,} cases of {self.dataset!r}>"


def session_dataset(config: pytest.Config) -> "Dataset":
    """The data set of the session, loaded at first use."""
    if _dataset_key not in config.stash:
        from assay.data import load_dataset

        config.stash[_dataset_key] = load_dataset(Settings.of(config).dataset)
    return config.stash[_dataset_key]


def case_parameters(config: pytest.Config) -> list[Any]:
    """Query ids for the fixture `rag_case`. The five of NFCorpus are known without its archive, so
    that tests can be collected, and skipped, without it.
    """
    try:
        ids = _query_ids(config)
    except DownloadError as error:
        marks = (pytest.mark.rag, pytest.mark.skip(reason=_missing_data(error)))
        return [pytest.param(None, id="no-data", marks=marks)]
    except AssayError as error:  # the one kind that pytest shows without a traceback
        raise pytest.Collector.CollectError(redact_credentials(str(error))) from None
    return [pytest.param(query_id, id=query_id, marks=pytest.mark.rag) for query_id in ids]


def load_test_data(config: pytest.Config, records: "Sequence[JsonObject]") -> RagTestData:
    """The cases of the session; the ground truth `records` win over the data set's answers."""
    from assay.labels.reference_writing import expected_ids

    dataset = session_dataset(config)
    known = {key: truth.answer for key, truth in dataset.answers.items() if truth.answer}
    known |= {record["query_id"]: record["ground_truth_answer"] for record in records}
    judged = dataset.judgments_in(SPLIT)
    data = RagTestData(
        RagCase(
            query_id,
            dataset.queries[query_id].text,
            expected_ids(dataset, SPLIT, query_id),
            judged[query_id],
            known.get(query_id),
        )
        for query_id in _query_ids(config)
    )
    data.dataset = dataset
    return data


def _query_ids(config: pytest.Config) -> list[str]:
    from assay.labels.reference_writing import SELECTED, choose_queries

    settings = Settings.of(config)
    if settings.dataset == DATASET and not settings.all_queries:
        return list(SELECTED)
    dataset = session_dataset(config)
    judged = dataset.queries_in(SPLIT)
    if not judged:
        raise UsageError(f"{dataset.name!r} has no judged query in its split {SPLIT!r}")
    if settings.all_queries:
        return [query.id for query in judged]
    number = min(DEFAULT_QUERIES, len(judged))
    return [query.id for query in choose_queries(dataset, SPLIT, number=number)]
