"""The queries of a session, each with its expected documents and reference answer."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from assay.errors import AssayError, DownloadError
from assay.net.json import JsonObject
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
    """One query of a session.

    Attributes:
        query_id: Its id in the data set.
        query: Its text.
        expected_document_ids: The documents of the highest grade that the query has.
        judgments: All its grades by document id.
        ground_truth: The text of the reference answer, or None.
        answerable: False if no document holds the answer, so that declining is right.
    """

    query_id: str
    query: str
    expected_document_ids: tuple[str, ...] = field(repr=False)
    judgments: Mapping[str, int] = field(repr=False)
    ground_truth: str | None
    answerable: bool = True


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
    return [pytest.param(each, id=each, marks=pytest.mark.rag) for each in ids]


def load_test_data(config: pytest.Config, answers: Mapping[str, str]) -> RagTestData:
    """The cases of the session; `answers` win over the reference answers of the data set."""
    dataset = session_dataset(config)
    own = {key: each.answer for key, each in dataset.answers.items() if each.answer}
    queries = [dataset.queries[query_id] for query_id in _query_ids(config)]
    known = {**own, **answers}
    none = [dataset.queries[query_id] for query_id in _unanswerable_ids(config)]
    return RagTestData(
        dataset,
        tuple(_case(dataset, each, known) for each in queries),
        tuple(RagCase(each.id, each.text, (), {}, None, answerable=False) for each in none),
    )


def reference_answers(records: Sequence[JsonObject]) -> dict[str, str]:
    """The answers of a ground-truth file by query id."""
    return {each["query_id"]: each["ground_truth_answer"] for each in records}


def read_ground_truth(path: Path, dataset: "Dataset") -> list[JsonObject]:
    """The records of the file, with the texts that it leaves out."""
    from assay.answer.ground_truth.records import load_ground_truth, record_to_json

    return [record_to_json(truth) for truth in load_ground_truth(path, dataset)]


def _query_ids(config: pytest.Config) -> list[str]:
    from assay.answer.ground_truth.generation import SELECTED

    settings = Settings.of(config)
    if settings.all_queries:
        return [query.id for query in session_dataset(config).queries_in(SPLIT)]
    if settings.dataset == "nfcorpus":
        return list(SELECTED)
    return [query.id for query in _some_queries(session_dataset(config))]


def _unanswerable_ids(config: pytest.Config) -> list[str]:
    """Those whose reference says that there is no answer: all, or the first few."""
    dataset = session_dataset(config)
    ids = [each for each in dataset.queries if each in dataset.answers]
    found = [each for each in ids if dataset.answers[each].answer is None]
    return found if Settings.of(config).all_queries else found[:FEW]


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
