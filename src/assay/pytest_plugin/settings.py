"""What the session was told: options of the command line, then the environment."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

TARGET, DATASET = "builtin:hybrid", "nfcorpus"
GROUND_TRUTH = Path("tests", "rag_evaluation", "fixtures", "ground_truth.json")
PROVIDER_VARIABLE = "RAG_EVAL_PROVIDER"
OLLAMA_VARIABLE = "RAG_EVAL_OLLAMA_BASE_URL"


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("assay", "evaluation of retrieval and answers (Assay)")
    group.addoption(
        "--assay-target",
        metavar="TARGET",
        help="What is evaluated, as 'assay eval' names it: mcp:URL, python:module:function, ... "
        f"(ASSAY_TARGET; {TARGET}).",
    )
    group.addoption(
        "--assay-provider",
        metavar="NAME",
        help="The language model that judges, and that the sampling client offers: ollama, "
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
        help=f"Reference answers, as 'assay ground-truth' writes them ({GROUND_TRUTH}).",
    )
    group.addoption(
        "--assay-all-queries",
        action="store_true",
        help="All judged queries of the test split instead of five.",
    )
    group.addoption(
        "--assay-report",
        metavar="FILE",
        help="Where the JSON report goes (rag-report.json in pytest's cache folder).",
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """`provider` and `ground_truth` are None where there is none."""

    target: str
    dataset: str
    provider: str | None
    ground_truth: Path | None
    all_queries: bool

    @classmethod
    def of(cls, config: pytest.Config) -> "Settings":
        dataset = config.getoption("--assay-dataset") or os.environ.get("ASSAY_DATASET")
        return cls(
            target=config.getoption("--assay-target") or os.environ.get("ASSAY_TARGET") or TARGET,
            dataset=dataset or DATASET,
            provider=config.getoption("--assay-provider") or _provider_of_environment(),
            ground_truth=_ground_truth(config, dataset or DATASET),
            all_queries=bool(config.getoption("--assay-all-queries")),
        )

    @property
    def model(self) -> str | None:
        """The provider where it has a model behind it: 'extractive' quotes, and cannot be asked."""
        return None if self.provider == "extractive" else self.provider


def report_path(config: pytest.Config) -> Path:
    """Nothing appears among a project's files unless it was asked for."""
    if named := config.getoption("--assay-report"):
        return Path(config.invocation_params.dir, named)
    cache: pytest.Cache | None = getattr(
        config, "cache", None
    )  # -p no:cacheprovider: there is none
    folder = config.rootpath if cache is None else cache.mkdir("assay")
    return folder / "rag-report.json"


def _ground_truth(config: pytest.Config, dataset: str) -> Path | None:
    """One that was named counts whether it is there or not: that it is not has to be told."""
    if named := config.getoption("--assay-ground-truth"):
        return Path(config.invocation_params.dir, named)
    usual = config.rootpath / GROUND_TRUTH
    return usual if dataset == DATASET and usual.exists() else None


def _provider_of_environment() -> str | None:
    """An address of Ollama is enough: where nothing else is said, Ollama is the provider."""
    if named := os.environ.get(PROVIDER_VARIABLE, "").strip():
        return named
    return "ollama" if os.environ.get(OLLAMA_VARIABLE, "").strip() else None
