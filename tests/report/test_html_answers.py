"""The answers on a run's page: the verdict, whose fault, and the evidence for both."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from tests.report.conftest import SCRIPT, answering_agent, render
from tests.report.page_reading import Page, assert_harmless, read_page

from assay import Dataset, Run, evaluate
from assay.answers.figures import AnswerFigure
from assay.data.dataset import ReferenceAnswer
from assay.evaluation.reporting import render_report_page
from assay.llm.providers.provider import Spending
from assay.report.html import command_of
from assay.report.html_answers import EXAMPLES, judge_facts
from assay.report.html_queries import JudgedDocuments
from assay.report.html_questions import QuestionView, question_view
from assay.report.numbers import ceiling, figure, interval
from assay.run.answers import AnswersReport
from assay.run.models import AnswerRow, Report


@pytest.fixture(scope="module")
def html(answered_run: Run) -> str:
    return (answered_run.folder.path / "report.html").read_text()


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return read_page(html)


@pytest.fixture(scope="module")
def answers(answered_run: Run) -> AnswersReport:
    assert answered_run.report.answers is not None
    return answered_run.report.answers


def test_correctness_has_its_interval_and_says_how_it_was_decided(
    page: Page, answers: AnswersReport
) -> None:
    row = answers.statistics["correctness"]
    assert f"Correctness {figure(row.mean)} 95% interval" in page.text
    assert interval(row.low, row.high) in page.text
    assert f"How it was decided: {answers.correctness_by}" in page.text


def test_every_metric_says_what_it_is_its_ceiling_and_its_questions(
    page: Page, answers: AnswersReport
) -> None:
    for name, row in answers.statistics.items():
        assert f"{AnswerFigure(name).title} {figure(row.mean)}" in page.text
        assert f"{ceiling(row.ceiling)} {row.n} {row.how}" in page.text
    assert "Hallucination rate" in page.text
    assert "hallucination_rate" not in page.text


def test_a_rate_of_faults_has_no_ceiling(page: Page, answers: AnswersReport) -> None:
    assert answers.statistics["hallucination_rate"].ceiling is None
    assert answers.statistics["truthfulness"].ceiling == 1.0
    assert f"0 is best {answers.statistics['hallucination_rate'].n}" in page.text


def test_the_page_says_which_half_to_fix_and_draws_it(page: Page, answers: AnswersReport) -> None:
    diagnosis = answers.diagnosis
    assert diagnosis is not None
    assert diagnosis.sentence in page.text
    pictures = [svg["aria-label"] for svg in page.tags("svg")]
    quadrants = diagnosis.quadrants
    assert (
        "Retrieval against generation. everything needed retrieved: "
        f"{quadrants.evidence_right} right, {quadrants.evidence_wrong} wrong; something "
        f"needed missing: {quadrants.no_evidence_right} right, "
        f"{quadrants.no_evidence_wrong} wrong"
    ) in pictures
    points = {half: value for half, value in diagnosis.points.items() if value}
    assert any(
        label.startswith("Percentage points")
        and all(f"{h} {v:.1f}" in label for h, v in points.items())
        for label in pictures
    )


def test_failures_are_counted_by_kind(page: Page, answers: AnswersReport) -> None:
    assert answers.diagnosis is not None
    counts = answers.diagnosis.counts
    assert len(counts) >= 4
    for kind, number in counts.items():
        assert re.search(rf"{kind} {number} \d+\.\d%", page.text)


def test_questions_that_the_picture_leaves_out_are_counted(
    page: Page, answers: AnswersReport
) -> None:
    diagnosis = answers.diagnosis
    assert diagnosis is not None
    outside = diagnosis.questions - sum(diagnosis.quadrants.model_dump().values())
    assert outside > 0
    assert f"{outside} questions more: those without an answer" in page.text


def test_wrong_answers_come_first_and_each_kind_shows_a_few(
    page: Page, answers: AnswersReport
) -> None:
    shown = [each["id"] for each in page.tags("div") if each.get("id", "").startswith("kind-")]
    assert shown[-1] == "kind-right"
    assert answers.diagnosis is not None
    assert len(shown) == len(answers.diagnosis.counts) + 1
    questions = [d for d in page.tags("details") if d.get("id", "").startswith("question-")]
    assert len(questions) <= EXAMPLES * len(shown)


def test_what_agents_and_data_say_is_text(page: Page) -> None:
    assert_harmless(page)
    assert f"the answer is right: fact 0 {SCRIPT}" in page.text
    assert f"made-up{SCRIPT}" in page.text


def test_every_link_inside_the_page_leads_somewhere_and_ids_are_unique(page: Page) -> None:
    ids = Counter(each["id"] for _, each in page.elements if "id" in each)
    assert [name for name, number in ids.items() if number > 1] == []
    links = {a["href"].removeprefix("#") for a in page.tags("a") if a["href"].startswith("#")}
    assert any(link.startswith("question-q") for link in links)
    assert links <= set(ids)


def test_citations_link_to_the_documents_and_invented_ones_are_marked(
    answered_run: Run, answered_dataset: Dataset
) -> None:
    shown = view_of(answered_run, answered_dataset, "q10")
    assert [(each.doc_id, each.invented) for each in shown.citations] == [
        ("d10", False),
        (f"made-up{SCRIPT}", True),
    ]
    anchors = {each.anchor: each for each in (*shown.retrieved, *shown.cited_elsewhere)}
    assert anchors[shown.citations[0].href[1:]].doc_id == "d10"
    assert anchors[shown.citations[1].href[1:]].remarks[0].words == "does not exist"
    (link,) = [(part.words, href) for part, href in shown.answer if href]
    assert link == ("1", shown.citations[0].href)


def test_documents_say_whether_they_were_needed_retrieved_and_cited(
    answered_run: Run, answered_dataset: Dataset
) -> None:
    shown = view_of(answered_run, answered_dataset, "q44")
    remarks = {each.doc_id: [r.words for r in each.remarks] for each in shown.retrieved}
    assert remarks["d44"] == ["needed", "cited"]
    assert remarks["d95"] == []
    needed = {each.doc_id: each.remarks[0].words for each in shown.needed}
    assert needed == {"d44": "retrieved", "d90": "not retrieved"}


def test_facts_say_whether_the_answer_states_them(
    answered_run: Run, answered_dataset: Dataset
) -> None:
    right = view_of(answered_run, answered_dataset, "q2").facts
    assert [(fact.text, fact.stated) for fact in right] == [("fact 2", True), ("right", True)]
    odd = view_of(answered_run, answered_dataset, "q1").facts
    assert [fact.stated for fact in odd] == [False, False]
    unknown = view_of(answered_run, None, "q2").facts
    assert [fact.stated for fact in unknown] == [None, None]


def test_a_diagnosis_stands_with_its_reason(page: Page, answered_run: Run) -> None:
    diagnosis = next(row.diagnosis for row in answered_run.answers() if row.diagnosis)
    why = diagnosis.why
    assert f"{why[0].upper()}{why[1:]}. To fix: {diagnosis.half}" in page.text


def test_a_judge_is_described(judged_run: Run) -> None:
    page = read_page((judged_run.folder.path / "report.html").read_text())
    answers = judged_run.report.answers
    assert answers is not None
    judge = answers.judge
    assert judge is not None
    assert judge.undecided > 0
    assert "Model scripted" in page.text
    assert f"Undecided on {judge.undecided} questions" in page.text
    assert f"Unparseable votes {judge.unparseable_votes}" in page.text
    assert "Votes of the judge: true, true." in page.text


@pytest.mark.parametrize(
    ("cost", "words"),
    [(None, "price not known"), (0.0, "$0.00"), (0.004, "$0.0040"), (1.5, "$1.50")],
)
def test_what_a_judge_cost_is_told(judged_run: Run, cost: float | None, words: str) -> None:
    spending = Spending(calls=9, cached=2, input_tokens=1000, output_tokens=30, cost=cost)
    answers = judged_run.report.answers
    assert answers is not None
    assert answers.judge is not None
    facts = dict(judge_facts(answers.judge.model_copy(update={"spending": spending})))
    assert facts["Cost"].startswith(words)
    assert facts["Calls"] == "9, and 2 from the cache"


def test_what_the_other_contexts_showed_is_told(tmp_path: Path) -> None:
    run = evaluate(
        "builtin:bm25", "notes", out=tmp_path, num_queries=20, answers=True, counterfactuals=True
    )
    page = read_page((run.folder.path / "report.html").read_text())
    answers = run.report.answers
    assert answers is not None
    assert answers.counterfactuals is not None
    tried = answers.counterfactuals["gold"]
    assert re.search(rf"the right documents alone {tried.asked} {tried.right} ", page.text)
    assert "Asked again: " in page.text
    assert "No diagnosis is a guess" in page.text


def test_a_run_without_answers_says_nothing_about_them(plain_run: Run) -> None:
    page = read_page((plain_run.folder.path / "report.html").read_text())
    assert "Correctness" not in page.text
    assert "answers" not in {each.get("id") for _, each in page.elements}


def test_a_run_from_before_there_were_answers_is_still_shown(
    plain_run: Run, hostile_dataset: Dataset
) -> None:
    new = ("answers", "judge", "judge_set", "max_cost", "counterfactuals", "ground_truth")
    written = plain_run.report.model_dump(mode="json", exclude_unset=True)
    config = plain_run.report.config.to_json()
    written["config"] = {key: value for key, value in config.items() if key not in new}
    report = Report.model_validate(written)
    html = render(plain_run, hostile_dataset, report=report)
    assert "All metrics" in read_page(html).text


def test_without_the_data_answers_are_shown_with_ids_alone(answered_run: Run) -> None:
    page = read_page(render_report_page(answered_run.folder, None))
    assert_harmless(page)
    assert f"the answer is right: fact 0 {SCRIPT}" in page.text
    assert "Title 1" not in page.text
    found = "answers cite a document that does not exist"  # was known when the run was measured
    assert "does not exist" not in page.text.replace(found, "")


def test_without_references_nothing_is_called_right_or_wrong(
    hostile_dataset: Dataset, tmp_path: Path
) -> None:
    def says(query: str, top_k: int) -> dict[str, object]:
        return {"doc_ids": ["d1"], "answer": "Perhaps.", "citations": ["d1"]}

    run = evaluate(says, hostile_dataset, out=tmp_path, answers=True)
    page = read_page((run.folder.path / "report.html").read_text())
    assert "the data set has no reference answers" in page.text
    assert "What to fix first" not in page.text
    assert "Perhaps." in page.text
    answers = {"q0": ReferenceAnswer("q0", "with a brush")}
    run = evaluate(says, replace(hostile_dataset, answers=answers), out=tmp_path, answers=True)
    page = read_page((run.folder.path / "report.html").read_text())
    assert "the references have no key facts, and no judge was asked" in page.text


def test_trouble_with_the_judge_is_told(answered_run: Run) -> None:
    assert answered_run.report.answers is not None
    answers = answered_run.report.answers.model_copy(update={"trouble": "the budget is spent"})
    report = answered_run.report.model_copy(update={"answers": answers})
    page = read_page(render(answered_run, report=report))
    assert "The evaluation of the answers is incomplete: the budget is spent" in page.text


def test_a_book_for_an_answer_is_cut(answered_run: Run, answered_dataset: Dataset) -> None:
    row = row_of(answered_run, "q2").model_copy(update={"answer": "x" * 5000})
    shown = question_view(row, JudgedDocuments(5, "test", answered_dataset))
    assert sum(len(part.words) for part, _ in shown.answer) == 4000
    assert shown.cut == 1000


def test_a_page_of_many_answers_stays_small(answered_run: Run, answered_dataset: Dataset) -> None:
    rows = list(answered_run.answers())
    many = (
        row.model_copy(update={"query_id": f"{row.query_id}-{n}"})
        for n in range(300)
        for row in rows
    )
    html = render(answered_run, answered_dataset, answers=many)
    assert len(html) < 250_000


def test_the_command_asks_for_the_answers_again(judged_run: Run, plain_run: Run) -> None:
    judged = judged_run.report.config
    assert "--judge-set controls=0" in command_of(judged)
    config = judged.with_changes(judge="", counterfactuals=True)
    assert "--judge extractive" in command_of(config)
    assert "--counterfactuals" in command_of(config)
    assert "--judge-set" not in command_of(config)
    assert "--answers" not in command_of(plain_run.report.config).split()


def view_of(run: Run, dataset: Dataset | None, query_id: str) -> QuestionView:
    return question_view(row_of(run, query_id), JudgedDocuments(5, "test", dataset))


def row_of(run: Run, query_id: str) -> AnswerRow:
    return next(row for row in run.answers() if row.query_id == query_id)


def test_the_agent_of_these_tests_fails_in_the_ways_that_have_a_name(
    answers: AnswersReport,
) -> None:
    assert answering_agent("question 2", 5)["answer"]
    assert answers.diagnosis is not None
    assert set(answers.diagnosis.counts) == {
        "retrieval missed",
        "retrieved but unused",
        "abstained wrongly",
        "should have abstained",
        "agent error",
    }
