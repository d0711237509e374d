"""A small data set cut from a large one."""

from dataclasses import replace
from pathlib import Path

import pytest

from assay.data import Dataset, load_dataset
from assay.data.beir import write_beir
from assay.data.dataset import sample_dataset
from assay.errors import DataError, UsageError


@pytest.fixture(scope="module")
def notes() -> Dataset:
    return load_dataset("notes")


def test_a_sample_keeps_what_its_queries_need(notes: Dataset) -> None:
    small = sample_dataset(notes, 10, documents=60)
    judged = small.judgments_in("test")
    assert len(small.queries) == 10
    assert len(small.documents) == 60
    assert all(judged[each] == notes.judgments_in("test")[each] for each in judged)
    assert {d for grades in judged.values() for d in grades} <= small.documents.keys()
    assert small.answers.keys() == small.queries.keys()
    assert list(small.queries) == [each for each in notes.queries if each in small.queries]


def test_judged_documents_are_kept_even_if_fewer_are_wanted(notes: Dataset) -> None:
    small = sample_dataset(notes, 10, documents=0)
    judged = {d for grades in small.judgments_in("test").values() for d in grades}
    assert judged == small.documents.keys()


def test_a_seed_decides(notes: Dataset) -> None:
    one = sample_dataset(notes, 5, seed=1).fingerprint
    assert sample_dataset(notes, 5, seed=1).fingerprint == one
    assert sample_dataset(notes, 5, seed=2).fingerprint != one


def test_more_queries_than_there_are_is_refused(notes: Dataset) -> None:
    with pytest.raises(UsageError, match=r"queries must be 1 to 120, .* got 121"):
        sample_dataset(notes, 121)


def test_a_sample_of_model_made_judgments_says_so(notes: Dataset, tmp_path: Path) -> None:
    """And so does what is written and read back."""
    made = replace(notes, judged_by="3 of 9 judgments are model-made (openai:m)")
    cut = sample_dataset(made, 3)
    assert cut.judged_by == "in notes, 3 of 9 judgments are model-made (openai:m)"
    write_beir(cut, tmp_path / "cut")
    assert load_dataset(tmp_path / "cut").judged_by == cut.judged_by
    (tmp_path / "cut" / "judged_by.jsonl").write_text("{}")
    with pytest.raises(DataError, match=r"judged_by\.jsonl: must be an object"):
        load_dataset(tmp_path / "cut")
