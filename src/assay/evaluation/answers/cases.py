"""Builds cases from the questions of a run or a log: each answer with reference and judgments."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from assay.answers.case import AnswerCase
from assay.answers.statements import abstained
from assay.data.dataset import Dataset, Document, Query, ReferenceAnswer
from assay.data.logged_answers import LoggedAnswer
from assay.labels.references import load_references
from assay.llm.prompt import cited_marks
from assay.run.calls import Call
from assay.text import normalize


def cases_of(
    dataset: Dataset,
    split: str,
    queries: Sequence[Query],
    calls: Sequence[Call | None],
    top_k: int,
) -> list[AnswerCase]:
    """One case for each query, with its call or None if it was not asked.

    Documents beyond `top_k` earn nothing, whether they are returned or cited.
    """
    grades = dataset.judgments_in(split)
    return [
        AnswerCase(
            query_id=query.id,
            question=query.text,
            reference=dataset.answers.get(query.id) or ReferenceAnswer(query.id, ""),
            relevant=grades.get(query.id, {}),
            answer=None if call is None or call.failure else call.answer,
            retrieved=call.doc_ids[:top_k] if call else (),
            citations=tuple(dict.fromkeys(call.citations or _marked(call, dataset)))[:top_k]
            if call
            else (),
            contexts=call.contexts if call else (),
            documents=dataset.documents,
        )
        for query, call in zip(queries, calls, strict=True)
    ]


def _marked(call: Call, dataset: Dataset) -> tuple[str, ...]:
    """What the marks in the text of an answer point at, where it has no other citations."""
    shown = [each.doc_id for each in call.contexts] or list(call.doc_ids)
    known = [dataset.documents[each] for each in shown if each in dataset.documents]
    named = {each.title: each.id for each in known} | {each: each for each in shown}
    named |= {each.id: each.doc_id for each in call.contexts}
    named.pop("", None)
    cited = cited_marks(call.answer or "", shown, named).values()
    return tuple(dict.fromkeys(filter(None, cited)))


def with_ground_truth(dataset: Dataset, path: Path) -> Dataset:
    """The data set with the reference answers of a ground-truth file."""
    references = [
        # It rests on the documents that it was written from; a person's may not say which.
        ReferenceAnswer(each.query_id, each.answer, (), each.sources)
        for each in load_references(path, dataset).values()
        if each.answer
    ]
    return replace(dataset, answers={each.query_id: each for each in references})


def logged_case(row: LoggedAnswer, query_id: str) -> AnswerCase:
    """The case, whose documents are the contexts that have a text, by ids that no other row has."""
    names = _context_names(row)
    ids = [f"{query_id}:{name}" for name in names]
    documents = {
        doc_id: Document(doc_id, "", context.text)
        for doc_id, context in zip(ids, row.contexts, strict=True)
        if context.text
    }
    places = {name: place for place, name in enumerate(names)}
    # Declining is right if the log says so, or if its reference declines.
    declines = row.answerable is None and row.reference and abstained(row.reference)
    expected = None if declines or row.answerable is False else row.reference
    given = () if cites_without_ids(row) else row.citations
    cited = tuple(_resolve(each, places, ids) for each in given or ())
    if given is None and row.answer is not None and ids:
        marks = cited_marks(row.answer, ids, dict(zip(names, ids, strict=True)))
        cited = tuple(dict.fromkeys(doc_id or mark for mark, doc_id in marks.items()))
    return AnswerCase(
        query_id=query_id,
        question=row.question,
        reference=ReferenceAnswer(query_id, expected, row.facts),
        relevant=dict.fromkeys(_relevant(row, query_id, places, ids), 1),
        answer=row.answer,
        retrieved=tuple(ids),
        citations=cited,
        documents=documents,
    )


def cites_without_ids(row: LoggedAnswer) -> bool:
    """Whether a row cites by ids that none of its contexts has, because they have none at all."""
    if not row.citations or not row.contexts or any(each.id for each in row.contexts):
        return False
    names = _context_names(row)
    return not any(_resolve(each, {}, names) in names for each in row.citations)


def _context_names(row: LoggedAnswer) -> list[str]:
    """The id of each context, or its place; chunks of one document have its id and their place."""
    names: list[str] = []
    known = set[str]()
    for place, each in enumerate(row.contexts, start=1):
        name = each.id or str(place)
        names.append(f"{name}#{place}" if name in known else name)
        known.add(names[-1])
    return names


def _resolve(cited: str, places: Mapping[str, int], ids: Sequence[str]) -> str:
    """The context that a citation names by its id or, else, by its place from 1."""
    bare = cited.strip().strip("[]【】").strip()
    for each in (cited, bare):
        if each in places:
            return ids[places[each]]
    if bare.isascii() and bare.isdigit() and len(bare) < 20 and 1 <= int(bare) <= len(ids):
        return ids[int(bare) - 1]
    return cited


def _relevant(
    row: LoggedAnswer, query_id: str, places: Mapping[str, int], ids: Sequence[str]
) -> Iterator[str]:
    """The ids of the contexts that were needed. One that was not retrieved has another id."""
    texts = [normalize(each.text) for each in row.contexts]
    for number, wanted in enumerate(row.relevant, start=1):
        text = normalize(wanted)
        same = (
            i for i, each in enumerate(texts) if text and each and (text in each or each in text)
        )
        place = places[wanted] if wanted in places else next(same, None)
        yield f"{query_id}:missing {number}" if place is None else ids[place]
