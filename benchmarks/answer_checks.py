"""How often each heuristic check holds for an answer that is right: its false-alarm rate.

    python benchmarks/answer_checks.py

Healthy answers are the reference answers of `notes`, which a person wrote in other words than the
documents: once with their key facts, and once as if nobody had written a reference, so that the
documents alone support them. The needed documents are shown among others. Rankings and citations
are those of BM25 and of answers that quote: a quotation cites the document that it is from.
"""

from collections import Counter
from collections.abc import Sequence
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


def print_rankings_and_citations(cases: Sequence[AnswerCase]) -> None:
    """Hits and rates of the heuristic checks in the first two lists."""
    for checks in check_lists(cases)[:2]:
        for check in (each for each in checks if each.false_rate):
            covered = [case for case in cases if check.covers(case)]
            hits = sum(check.test(case) is not None for case in covered)
            rate = (hits + 1) / (len(covered) + 2)
            print(f"{check.id:22} {check.false_rate:6.3f} {hits:4} of {len(covered)}: {rate:.3f}")


def main() -> None:
    """Print hits and rates by check, with and without references."""
    known = healthy_cases(load_dataset("notes"))
    alone = [without_reference(case) for case in known if case.answerable]
    hits: Counter[tuple[str, str]] = Counter()
    for name, cases in (("with reference", known), ("documents alone", alone)):
        for checks in check_lists(cases):
            for check in checks:
                found = [check.test(case) for case in cases if check.covers(case)]
                hits[check.id, name] = sum(each is not None for each in found)
                for evidence in [each for each in found if each][:3]:
                    print(f"  {check.id} ({name}): {evidence[:140]}")
    print(
        f"{'check':22} {'rate':>6} with reference (of {len(known)}), documents alone ({len(alone)})"
    )
    for checks in check_lists(known):
        for check in checks:
            with_it, alone_hits = (
                hits[check.id, "with reference"],
                hits[check.id, "documents alone"],
            )
            print(f"{check.id:22} {check.false_rate:6.3f} {with_it:4} {alone_hits:4}")
    print("rankings of BM25 and citations of quotes:")
    print_rankings_and_citations(quoting_cases(load_dataset("notes")))


if __name__ == "__main__":
    main()
