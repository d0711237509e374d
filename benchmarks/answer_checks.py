"""How often each heuristic check holds for an answer that is right: its false-alarm rate.

    python benchmarks/answer_checks.py

Healthy answers are the reference answers of `notes`, which a person wrote in other words than the
documents: once with their key facts, and once as if nobody had written a reference, so that the
documents alone support them. The needed documents are shown among others. Rankings and citations
are those of BM25 and of answers that quote: a quotation cites the document that it is from.
"""

from dataclasses import replace

from assay.answers.case import AnswerCase
from assay.answers.checks import check_lists
from assay.data.dataset import Dataset, ReferenceAnswer
from assay.data.load import load_dataset
from assay.llm.answerer import extract_answer
from assay.llm.passages import NOT_FOUND, Passage
from assay.search.bm25 import Bm25Index


def healthy_cases(dataset: Dataset) -> list[AnswerCase]:
    """Every question answered by its reference, from its documents and the best others."""
    index = Bm25Index(dataset.documents.values())
    cases = []
    for query_id, reference in dataset.answers.items():
        question = dataset.queries[query_id].text
        others = [doc_id for doc_id, _ in index.search(question, 5)]
        shown = tuple(dict.fromkeys([*reference.documents, *others]))[:5]
        case = AnswerCase(
            query_id,
            question,
            reference,
            answer=reference.answer or NOT_FOUND,
            retrieved=shown,
            citations=reference.documents,
            documents=dataset.documents,
        )
        cases.append(case)
    return cases


def quoting_cases(dataset: Dataset) -> list[AnswerCase]:
    """Every question answered by quotes from the first five documents of BM25, with citations."""
    index = Bm25Index(dataset.documents.values())
    cases = []
    for query_id, reference in dataset.answers.items():
        question = dataset.queries[query_id].text
        ids = tuple(doc_id for doc_id, _ in index.search(question, 5))
        found = [dataset.documents[doc_id] for doc_id in ids]
        passages = [Passage(each.id, each.title, each.text) for each in found]
        answer = extract_answer(question, passages, 500)
        case = AnswerCase(
            query_id,
            question,
            reference,
            answer=answer.text,
            retrieved=ids,
            citations=tuple(ids[place - 1] for place in answer.citations),
            documents=dataset.documents,
        )
        cases.append(case)
    return cases


def without_reference(case: AnswerCase) -> AnswerCase:
    """The same answer, decided by nothing and supported by the documents alone."""
    documents = case.reference.documents
    return replace(case, reference=ReferenceAnswer(case.query_id, "", (), documents))


def measured_rates(dataset: Dataset) -> dict[str, tuple[float, int, int]]:
    """For each heuristic check its rate, (hits + 1) / (answers + 2), with hits and answers.

    The worst of the sets counts. Rankings and citations are those of quotes; the references were
    not ranked or cited by an application.
    """
    known = healthy_cases(dataset)
    alone = [without_reference(case) for case in known if case.answerable]
    quoting = quoting_cases(dataset)
    rates: dict[str, tuple[float, int, int]] = {}
    for cases, lists in ((known, slice(2, 3)), (alone, slice(2, 3)), (quoting, slice(0, 2))):
        for check in (each for checks in check_lists(cases)[lists] for each in checks):
            covered = [case for case in cases if check.covers(case)]
            hits = sum(check.test(case) is not None for case in covered)
            rate = (hits + 1) / (len(covered) + 2)
            if check.false_rate and covered and rate > rates.get(check.id, (0.0,))[0]:
                rates[check.id] = rate, hits, len(covered)
    return rates


def main() -> None:
    """Print the stated and the measured rate of each heuristic check."""
    stated = {each.id: each.false_rate for checks in check_lists() for each in checks}
    print(f"{'check':22} {'stated':>6} measured")
    for name, (rate, hits, answers) in measured_rates(load_dataset("notes")).items():
        print(f"{name:22} {stated[name]:6.3f} {rate:8.3f} ({hits} of {answers})")


if __name__ == "__main__":
    main()
