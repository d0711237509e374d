"""The questions of a run as cases: what was answered beside the reference and the judgments."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from assay.answer.prompt import cited_marks
from assay.data.dataset import Dataset, Query, ReferenceAnswer
from assay.measure.answers.answer_metrics import AnswerCase, unknown_citations
from assay.run.calls import Call


def cases_of(
    dataset: Dataset,
    split: str,
    queries: Sequence[Query],
    calls: Sequence[Call | None],
    top_k: int,
) -> list[AnswerCase]:
    """One case for each query, with its call or None if it was not asked."""
    grades = dataset.judgments_in(split)
    return [
        _case(dataset, grades, query, call, top_k)
        for query, call in zip(queries, calls, strict=True)
    ]


def _case(
    dataset: Dataset,
    grades: Mapping[str, Mapping[str, int]],
    query: Query,
    call: Call | None,
    top_k: int,
) -> AnswerCase:
    """Documents beyond `top_k` earn nothing, whether they are returned or cited."""
    answered = call is not None and call.failure is None
    cited = call.citations or _marked(call) if call is not None else ()
    return AnswerCase(
        query_id=query.id,
        question=query.text,
        reference=dataset.answers.get(query.id) or ReferenceAnswer(query.id, ""),
        relevant=grades.get(query.id, {}),
        answer=call.answer if call is not None and answered else None,
        retrieved=call.doc_ids[:top_k] if call is not None else (),
        citations=tuple(dict.fromkeys(cited))[:top_k],
        contexts=call.contexts if call is not None else (),
        repeated_citations=len(call.citations) - len(set(call.citations)) if call else 0,
    )


def _marked(call: Call) -> tuple[str, ...]:
    """What the marks in the text of an answer point at, where it has no other citations."""
    shown = [each.doc_id for each in call.contexts] or list(call.doc_ids)
    named = {each: each for each in shown} | {each.id: each.doc_id for each in call.contexts}
    cited = cited_marks(call.answer or "", shown, named).values()
    return tuple(dict.fromkeys(filter(None, cited)))


def invented_citations(cases: Sequence[AnswerCase], dataset: Dataset) -> Iterator[tuple[str, str]]:
    """Query id and document id, for every citation of a document that does not exist."""
    if dataset.corpus_ids is None:
        return
    for case in cases:
        for doc_id in unknown_citations(case.citations, dataset.corpus_ids):
            yield case.query_id, doc_id


def with_ground_truth(dataset: Dataset, path: Path) -> Dataset:
    """The data set with the reference answers of a ground-truth file in place of its own."""
    from assay.answer.ground_truth.records import load_ground_truth

    references = [
        # It rests on the documents that it was written from; a person's may not say which.
        ReferenceAnswer(
            truth.query_id,
            truth.ground_truth_answer,
            (),
            tuple(truth.provenance.get("document_ids", ())),
        )
        for truth in load_ground_truth(path, dataset)
    ]
    return replace(dataset, answers={each.query_id: each for each in references})
