"""The bundled notes: what their own reference answers score, and what wrong answers do not."""

import asyncio
import runpy
from pathlib import Path
from statistics import fmean

import pytest

from assay.answers.answer_metrics import measure_answers
from assay.answers.case import AnswerCase
from assay.answers.checks import check_lists
from assay.answers.diagnosis import Counterfactuals, diagnose, summarize_diagnoses
from assay.answers.outcome import correct
from assay.data import Dataset, load_dataset
from assay.llm.answerer import ExtractiveAnswerer
from assay.llm.passages import NOT_FOUND, Passage
from assay.search.bm25 import Bm25Index


@pytest.fixture(scope="module")
def notes() -> Dataset:
    return load_dataset("notes")


def reference_cases(notes: Dataset, shift: int = 0) -> list[AnswerCase]:
    """Each question with its reference answer, or with that of the question `shift` places on."""
    references = list(notes.answers.values())
    judged = notes.judgments_in("test")
    return [
        AnswerCase(
            own.query_id,
            notes.queries[own.query_id].text,
            own,
            judged.get(own.query_id, {}),
            given.answer or NOT_FOUND,
            given.documents,
            given.documents,
            documents=notes.documents,
        )
        for own, given in zip(references, references[shift:] + references[:shift], strict=True)
    ]


DOCUMENTED = ("the reference answers", "BM25, top 5, extractive")


@pytest.mark.parametrize("row", DOCUMENTED)
def test_the_figures_of_the_page_are_those_that_are_measured(notes: Dataset, row: str) -> None:
    cases = reference_cases(notes)
    if row != DOCUMENTED[0]:
        cases = asyncio.run(_extractive(notes, gold=False))
    scores = measure_answers(cases)
    page = (Path(__file__).parents[2] / "docs" / "answers.md").read_text(encoding="utf-8")
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("|")]
    names = next(line for line in lines if "fact_recall" in line and "abstention" in line)
    said = next(line[1:] for line in lines if line[0] == row)
    names = names[-len(said) :]
    measured = [fmean(scores[name].values()) for name in names]
    assert [float(each) for each in said] == pytest.approx(measured, abs=0.00051)


async def _extractive(notes: Dataset, gold: bool) -> list[AnswerCase]:
    index, answerer, cases = Bm25Index(notes.documents.values()), ExtractiveAnswerer(), []
    for query in notes.queries.values():
        reference = notes.answers[query.id]
        ids = reference.documents if gold else tuple(i for i, _ in index.search(query.text, 5))
        documents = [notes.documents[doc_id] for doc_id in ids]
        passages = [Passage(each.id, each.title, each.text) for each in documents]
        answer = await answerer.answer(query.text, passages, 500)
        cited = tuple(ids[place - 1] for place in answer.citations)
        relevant = notes.judgments_in("test").get(query.id, {})
        cases.append(
            AnswerCase(
                query.id,
                query.text,
                reference,
                relevant,
                answer.text,
                tuple(ids),
                cited,
                documents=notes.documents,
            )
        )
    return cases


def test_a_whole_run_without_a_model_is_measured_and_diagnosed(notes: Dataset) -> None:
    ours = asyncio.run(_extractive(notes, gold=False))
    scores = measure_answers(ours)
    assert 0.1 < fmean(scores["fact_recall"].values()) < 0.9
    quoted = [case for case in ours if case.citations]
    assert fmean(measure_answers(quoted)["faithfulness"].values()) > 0.95
    gold = {case.query_id: case for case in asyncio.run(_extractive(notes, gold=True))}
    others = {query_id: Counterfactuals(gold=correct(case)) for query_id, case in gold.items()}
    found = {case.query_id: diagnose(case, others[case.query_id]) for case in ours}
    diagnoses = {query_id: each for query_id, each in found.items() if each is not None}
    report = summarize_diagnoses(ours, diagnoses, others)
    wrong = sum(not correct(case) for case in ours)
    assert report is not None
    assert report.wrong == sum(report.counts.values()) == wrong
    assert sum(report.points.values()) == pytest.approx(100 * wrong / len(ours))
    assert report.sentence.startswith("Fix generation first: it explains")


def test_the_checks_state_the_false_alarm_rates_that_are_measured(notes: Dataset) -> None:
    script = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "answer_checks.py"))
    stated = {each.id: each.false_rate for checks in check_lists() for each in checks}
    measured = script["measured_rates"](notes)
    assert measured.keys() == {name for name, rate in stated.items() if rate}
    for name, (rate, _, _) in measured.items():
        assert rate <= stated[name] + 0.0005 <= rate + 0.003, name
