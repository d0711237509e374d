"""Which questions a run with answers puts, and what each of them is held against."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from assay.data.dataset import Dataset, Query, ReferenceAnswer
from assay.evaluate.asking import Call
from assay.measure.answers.case import AnswerCase
from assay.measure.answers.sources import unknown_citations


def questions_in(dataset: Dataset, split: str) -> list[Query]:
    """Those with a reference answer, where there is one at all; else all that have judgments.

    A question that the documents cannot answer has no relevant document, and belongs here all the
    same: whether an agent admits it is half of what answers are worth.
    """
    judged = dataset.queries_in(split)
    if not dataset.answers:
        return judged
    ranked = {query.id for query in judged}
    return [query for query in dataset.queries.values() if _asked(dataset, query, ranked)]


def _asked(dataset: Dataset, query: Query, ranked: set[str]) -> bool:
    reference = dataset.answers.get(query.id)
    return reference is not None and (reference.answer is None or query.id in ranked)


def cases_of(
    dataset: Dataset,
    split: str,
    queries: Sequence[Query],
    calls: Sequence[Call | None],
    top_k: int,
) -> list[AnswerCase]:
    grades = dataset.judgments_in(split)
    return [
        case_of(dataset, grades, query, call, top_k)
        for query, call in zip(queries, calls, strict=True)
    ]


def case_of(
    dataset: Dataset,
    grades: Mapping[str, Mapping[str, int]],
    query: Query,
    call: Call | None,
    top_k: int,
) -> AnswerCase:
    """Documents beyond `top_k` earn nothing, whether they are returned or cited."""
    answered = call is not None and call.failure is None
    return AnswerCase(
        query_id=query.id,
        question=query.text,
        reference=dataset.answers.get(query.id) or ReferenceAnswer(query.id, ""),
        relevant=grades.get(query.id, {}),
        answer=call.answer if call is not None and answered else None,
        retrieved=call.doc_ids[:top_k] if call is not None else (),
        citations=tuple(dict.fromkeys(call.citations))[:top_k] if call is not None else (),
    )


def invented_citations(cases: Sequence[AnswerCase], dataset: Dataset) -> Iterator[tuple[str, str]]:
    """Question and document id, for every citation of a document that does not exist."""
    for case in cases:
        for doc_id in unknown_citations(case.citations, dataset.documents):
            yield case.query_id, doc_id


def references_fingerprint(dataset: Dataset) -> str:
    """Two runs can be compared where they were held against the same references."""
    digest = hashlib.sha256()
    for reference in dataset.answers.values():
        digest.update(repr(reference).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
