"""Reference answers from a file beside the data set, where it has none of its own."""

from dataclasses import replace
from pathlib import Path

from assay.answer.ground_truth import GroundTruth, load_ground_truth
from assay.data.dataset import Dataset, ReferenceAnswer


def with_ground_truth(dataset: Dataset, path: str) -> Dataset:
    """The file's answers take the place of the data set's: a run has one kind of reference."""
    if not path:
        return dataset
    truths = load_ground_truth(Path(path), dataset)
    return replace(dataset, answers={truth.query_id: _reference(truth) for truth in truths})


def _reference(truth: GroundTruth) -> ReferenceAnswer:
    """It rests on the documents that it was written from; a person's may not say which."""
    documents = tuple(truth.provenance.get("document_ids", ()))
    return ReferenceAnswer(truth.query_id, truth.ground_truth_answer, (), documents)
