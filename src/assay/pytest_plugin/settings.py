"""The settings of a session, from options and the environment, and its messages for mistakes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from assay.errors import AssayError, DownloadError
from assay.net.redact import redact_credentials

TARGET, DATASET = "builtin:hybrid", "nfcorpus"
GROUND_TRUTH = Path("tests", "rag_evaluation", "fixtures", "ground_truth.json")
PROVIDER_VARIABLE = "RAG_EVAL_PROVIDER"
OLLAMA_VARIABLE = "RAG_EVAL_OLLAMA_BASE_URL"


def add_options(parser: pytest.Parser) -> None:
    """The `--assay-...` options of pytest."""
    group = parser.getgroup("assay", "retrieval and answer evaluation (Assay)")
    group.addoption(
        "--assay-target",
        metavar="TARGET",
        help="The target to evaluate, as for 'assay eval': mcp:URL, python:module:function, ... "
        f"(ASSAY_TARGET; {TARGET}).",
    )
    group.addoption(
        "--assay-provider",
        metavar="NAME",
        help="The language model for judging and for the sampling client: ollama, "
        f"anthropic, openai:MODEL, ... ({PROVIDER_VARIABLE}).",
    )
    group.addoption(
        "--assay-dataset",
        metavar="NAME|PATH",
        help=f"nfcorpus, notes, or a BEIR folder or zip (ASSAY_DATASET; {DATASET}).",
    )
    group.addoption(
        "--assay-ground-truth",
        metavar="FILE",
        help=f"Reference answers written by 'assay ground-truth' ({GROUND_TRUTH}).",
    )
    group.addoption(
        "--assay-all-queries",
        action="store_true",
        help="Evaluate all judged queries of the test split instead of five.",
    )
    group.addoption(
        "--assay-chunk-separator",
        metavar="TEXT",
        default="",
        help="What separates a document's id from its chunk's number, or re:PATTERN, as "
        "--chunk-separator of 'assay eval'.",
    )
    group.addoption(
        "--assay-judge-calibration",
        metavar="FILE",
        help="The file that 'assay judge calibrate --out' wrote, for --assay-require-calibrated.",
    )
    group.addoption(
        "--assay-require-calibrated",
        action="store_true",
        help="Fail tests that use evaluation_llm unless that model was calibrated for correctness "
        "on the questions of the data set.",
    )
    group.addoption(
        "--assay-report",
        metavar="FILE",
        help="Where to write the JSON report (rag-report.json in pytest's cache folder).",
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """`provider` and `ground_truth` are None if there is none."""

    target: str
    dataset: str
    provider: str | None
    ground_truth: Path | None
    all_queries: bool
    chunk_separator: str = ""
    judge_calibration: Path | None = None
    require_calibrated: bool = False

    @classmethod
    def of(cls, config: pytest.Config) -> "Settings":
        """Options first, then the environment, then defaults."""
        dataset = config.getoption("--assay-dataset") or os.environ.get("ASSAY_DATASET")
        return cls(
            target=config.getoption("--assay-target") or os.environ.get("ASSAY_TARGET") or TARGET,
            dataset=dataset or DATASET,
            provider=config.getoption("--assay-provider") or _provider_of_environment(),
            ground_truth=_ground_truth(config, dataset or DATASET),
            all_queries=bool(config.getoption("--assay-all-queries")),
            chunk_separator=config.getoption("--assay-chunk-separator"),
            judge_calibration=_calibration(config),
            require_calibrated=bool(config.getoption("--assay-require-calibrated")),
        )

    @property
    def model(self) -> str | None:
        """The provider where it has a model behind it: 'extractive' quotes, and cannot be asked."""
        return None if self.provider == "extractive" else self.provider


def report_path(config: pytest.Config) -> Path:
    """Where the report is written: pytest's cache, unless `--assay-report` names a file."""
    if named := config.getoption("--assay-report"):
        return Path(config.invocation_params.dir, named)
    cache: pytest.Cache | None = getattr(
        config, "cache", None
    )  # -p no:cacheprovider: there is none
    folder = config.rootpath if cache is None else cache.mkdir("assay")
    return folder / "rag-report.json"


def _ground_truth(config: pytest.Config, dataset: str) -> Path | None:
    """A file that was named counts even where it is missing: then the session has to fail."""
    if named := config.getoption("--assay-ground-truth"):
        return Path(config.invocation_params.dir, named)
    usual = config.rootpath / GROUND_TRUTH
    return usual if dataset == DATASET and usual.exists() else None


def _calibration(config: pytest.Config) -> Path | None:
    named = config.getoption("--assay-judge-calibration")
    return Path(config.invocation_params.dir, named) if named else None


def require_calibrated(settings: Settings, questions: list[str]) -> None:
    """Raise `GateError` unless the model was calibrated for correctness on these questions."""
    from assay.errors import GateError
    from assay.evaluation.gates import CORRECTNESS, figure_calibration
    from assay.run.config import RunConfig

    file = settings.judge_calibration
    config = RunConfig(
        target="", answers=True, judge=settings.model or "", judge_calibration=str(file or "")
    )
    status = figure_calibration(CORRECTNESS, config, questions)
    if status is not None and not status.calibrated:
        raise GateError(
            f"--assay-require-calibrated: {status.words}; pass --assay-judge-calibration FILE"
        )


def _provider_of_environment() -> str | None:
    """An address of Ollama is enough: if nothing else is said, Ollama is the provider."""
    if named := os.environ.get(PROVIDER_VARIABLE, "").strip():
        return named
    return "ollama" if os.environ.get(OLLAMA_VARIABLE, "").strip() else None


@contextmanager
def user_errors() -> Iterator[None]:
    """Skip the test where data is missing; fail without a traceback for another `AssayError`."""
    try:
        yield
    except DownloadError as error:
        raise pytest.skip.Exception(missing_data(error)) from None
    except AssayError as error:
        # Not by pytest.fail: what it was raised from would be shown, with a traceback.
        raise pytest.fail.Exception(redact_credentials(str(error)), pytrace=False) from None


def missing_data(error: DownloadError) -> str:
    """The message with pytest's options in place of those of the command line."""
    words = str(error).replace("or pass --archive FILE, ", "")
    return redact_credentials(words.replace("--dataset ", "--assay-dataset "))
