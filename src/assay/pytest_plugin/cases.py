"""The questions that a session asks, each with what is right for it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from assay.errors import AssayError, DownloadError
from assay.net.redact import redact_credentials
from assay.pytest_plugin.report import NO_CASES
from assay.pytest_plugin.settings import Settings, missing_data

if TYPE_CHECKING:
    from assay.data import Dataset, Query

SPLIT = "test"
FEW = 5
SEED = 42

_dataset_key = pytest.StashKey["Dataset"]()


@dataclass(frozen=True, slots=True)
class RagCase:
    """`expected_document_ids` have the highest grade that the query has; `judgments` are all of
    its grades. `ground_truth` is the text of the reference answer, None where there is none.
    """

    query_id: str
    query: str
    expected_document_ids: tuple[str, ...] = field(repr=False)
    judgments: Mapping[str, int] = field(repr=False)
    ground_truth: str | None


@dataclass(frozen=True)
class RagTestData:
    """A sequence of its cases, with the data set behind them."""

    dataset: "Dataset"
    cases: tuple[RagCase, ...]

    def __iter__(self) -> Iterator[RagCase]:
        return iter(self.cases)

    def __len__(self) -> int:
        return len(self.cases)

    def __getitem__(self, place: int) -> RagCase:
        return self.cases[place]

    def case(self, query_id: str) -> RagCase:
        return next(case for case in self.cases if case.query_id == query_id)


def dataset_of(config: pytest.Config) -> "Dataset":
    """Loaded once for the session, at the latest possible time."""
    if _dataset_key not in config.stash:
        from assay.data import load_dataset

        config.stash[_dataset_key] = load_dataset(Settings.of(config).dataset)
    return config.stash[_dataset_key]


def case_parameters(config: pytest.Config) -> list[Any]:
    """Query ids for the fixture `rag_case`. The five of NFCorpus are known without its archive, so
    that tests can be collected, and skipped, where that is not at hand.
    """
    try:
        ids = _query_ids(config)
    except DownloadError as error:
        missing = pytest.mark.skip(reason=missing_data(error))
        return [pytest.param(None, id="no-data", marks=(pytest.mark.rag, missing))]
    except AssayError as error:  # the one kind that pytest shows without a traceback
        raise pytest.Collector.CollectError(NO_CASES + redact_credentials(str(error))) from None
    return [pytest.param(each, id=each, marks=pytest.mark.rag) for each in ids]


def load_test_data(config: pytest.Config, answers: Mapping[str, str]) -> RagTestData:
    """`answers` are reference answers by query; the data set's own stand in where it has any."""
    dataset = dataset_of(config)
    own = {key: each.answer for key, each in dataset.answers.items() if each.answer}
    queries = [dataset.queries[query_id] for query_id in _query_ids(config)]
    known = {**own, **answers}
    return RagTestData(dataset, tuple(_case(dataset, each, known) for each in queries))


def reference_answers(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {each["query_id"]: each["ground_truth_answer"] for each in records}


def read_ground_truth(path: Path, dataset: "Dataset") -> list[dict[str, Any]]:
    """As the file has it, with the texts that it had to leave out."""
    from assay.answer.ground_truth.records import load_ground_truth, record_to_json

    return [record_to_json(truth) for truth in load_ground_truth(path, dataset)]


def _query_ids(config: pytest.Config) -> list[str]:
    from assay.answer.ground_truth.generation import SELECTED

    settings = Settings.of(config)
    if settings.all_queries:
        return [query.id for query in dataset_of(config).queries_in(SPLIT)]
    if settings.dataset == "nfcorpus":
        return list(SELECTED)
    return [query.id for query in _some_queries(dataset_of(config))]


def _some_queries(dataset: "Dataset") -> "list[Query]":
    from assay.answer.ground_truth.generation import choose_queries

    number = min(FEW, len(dataset.queries_in(SPLIT)))
    return choose_queries(dataset, SPLIT, number=number, seed=SEED)


def _case(dataset: "Dataset", query: "Query", answers: Mapping[str, str]) -> RagCase:
    from assay.answer.ground_truth.generation import expected_ids

    return RagCase(
        query_id=query.id,
        query=query.text,
        expected_document_ids=expected_ids(dataset, SPLIT, query.id),
        judgments=dataset.judgments_in(SPLIT)[query.id],
        ground_truth=answers.get(query.id),
    )
