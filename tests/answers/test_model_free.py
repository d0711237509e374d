"""The measures that need no model, on small cases where the right figure is plain."""

import numpy as np
import pytest

from assay.answers.answer_metrics import (
    ANSWER_METRICS,
    AnswerCase,
    Outcome,
    answer_metric_name,
    measure_answers,
    outcome_of,
    share_found,
    share_relevant,
    unknown_citations,
)
from assay.answers.lexical import (
    answer_relevance,
    contains_any,
    fact_recall,
    faithfulness,
    unsupported,
)
from assay.data import Document, Fact, ReferenceAnswer
from assay.llm.prompt import without_markers
from assay.metrics.statistics import compare_paired, summarize
from assay.text import sentences


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("1 September", "It opens on 1 September."),
        ("1 september", "on  1\n SEPTEMBER 2025"),
        ("7:00", "from 7:00."),
        ("7:00", "(7:00-9:00)"),
        ("1,200", "it costs 1200 euros"),
        ("1200", "it costs 1,200 euros"),
        ("−1.75", "Right -1.75"),
        ("1 September 2024", "On 1 September [1] 2024"),
        ("12%", "about 12 % of them"),
        ("12 %", "about 12% of them"),
        ("40 min", "for 40min"),
        ("40min", "for 40 minutes"),
        ("three min", "for three minutes"),
        ("cat", "two cats"),
        ("10²", "about 10² of them"),
        ("40 min", "for 40 minutes"),
        ("sync", "it syncs later"),
        ("€ 5", "it is € 5 a day"),
        ("5 %", "about 5 % of them"),
        ("it's", "it’s here"),
        ("10–12", "from 10-12"),
        ("no", "No."),
        ("Ⅳ", "part iv"),
    ],
)
def test_a_wording_is_found_whatever_its_case_space_and_dashes(phrase: str, text: str) -> None:
    assert contains_any(text, [phrase])


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("1 September", "It opens on 11 September."),
        ("7:00", "from 17:00"),
        ("7:00", "7:005"),
        ("7:00", "7:00:30"),
        ("7", "7.5 hours"),
        ("5", "3.5 hours"),
        ("12", "12,500 people"),
        ("500", "12,500 people"),
        ("2024", "20245"),
        ("7", "at 7:30"),
        ("no", "nothing"),
        ("art", "a cart"),
        ("art", "smart"),
        ("200", "1,200"),
        ("5", "-5"),
        ("5", "it was −5 degrees"),
        ("102", "10²"),
        ("10", "10²"),
        ("yes", "yesterday"),
        ("cat", "a category"),
        ("2", "Nobody knows how many [2]."),
        ("", "anything"),
        (" ", "any thing"),
    ],
)
def test_part_of_a_number_or_of_another_word_states_nothing(phrase: str, text: str) -> None:
    assert not contains_any(text, [phrase])


def test_fact_recall_counts_facts_and_not_wordings() -> None:
    facts = [Fact("a", ("tea", "chai")), Fact("b", ("milk",)), Fact("c", ("sugar",))]
    assert fact_recall("Tea (chai) with milk", facts) == pytest.approx(2 / 3)
    assert fact_recall("Tea", []) == 0.0


def test_a_wording_may_leave_out_the_minus_of_its_own_fact() -> None:
    assert fact_recall("Right −1.75", [Fact("Right −1.75", ("1.75",))]) == 1.0
    assert fact_recall("Right −1.75", [Fact("Right 1.75", ("1.75",))]) == 0.0


def test_the_numbers_of_a_list_are_no_figures() -> None:
    listed = "1. The fee is 40 euro.\n2) The fee is due."
    assert sentences(listed) == ["The fee is 40 euro.", "The fee is due."]
    assert faithfulness(listed, ["The fee of 40 euro is due."]) == 1.0


def test_a_sentence_without_content_does_not_count() -> None:
    assert faithfulness("It was so.", ["Tea is hot."]) == 0.0
    assert faithfulness("It was so. Tea is cold and sweet.", ["Milk."]) == 0.0


def test_faithfulness_is_the_share_of_sentences_that_the_sources_hold() -> None:
    source = "The stove was repaired on 3 May. The invoice came to 140 euros."
    assert faithfulness("The stove was repaired on 3 May. [1]", [source]) == 1.0
    assert faithfulness("The invoice came to 150 euros.", [source]) == 0.0
    answer = "The stove was repaired. Elephants live in Africa and sleep standing."
    assert faithfulness(answer, [source]) == 0.5
    assert unsupported(answer, [source]) == ["Elephants live in Africa and sleep standing."]


def test_a_number_is_supported_by_its_word() -> None:
    assert faithfulness("It visits 9 villages.", ["The bus visits nine villages."]) == 1
    assert faithfulness("Der Bus besucht 9 Dörfer.", ["Der Bus besucht neun Dörfer."]) == 1
    assert faithfulness("It visits 8 villages.", ["The bus visits nine villages."]) == 0


def test_what_faithfulness_cannot_see_is_what_its_description_says() -> None:
    assert faithfulness("Sales did not rise.", ["Sales did rise."]) == 1.0


@pytest.mark.parametrize(("answer", "sources"), [("", ["x"]), ("[1]", ["x"]), ("Tea helps.", [])])
def test_an_answer_without_words_or_without_sources_is_not_faithful(
    answer: str, sources: list[str]
) -> None:
    assert faithfulness(answer, sources) == 0.0


def test_sentences_do_not_end_at_every_full_stop() -> None:
    text = "It costs 3.5 euros, e.g. for tea. Then:\n- one [1]\n* two [1, 2].\n\n"
    assert sentences(without_markers(text)) == [
        "It costs 3.5 euros, e.g. for tea.",
        "Then:",
        "one",
        "two.",
    ]
    german = ["Sie kommt am 3. Werktag, bis zum 14. Tag.", "Dann ist es der 2. Brief."]
    assert sentences(" ".join(german)) == german
    for two in (["Der Kurs endet am 3.", "Danach ist Pause."], ["I am 12.", "Tom is 7."]):
        assert sentences(" ".join(two)) == two
    assert sentences("It has 3. Then it ends at 12. Next.") == [
        "It has 3.",
        "Then it ends at 12.",
        "Next.",
    ]


def test_inventing_and_refusing_everything_are_told_apart() -> None:
    inventor = measure_answers(cases("It was 4711."), DOCUMENTS)
    assert (inventor.mean("abstention"), inventor.mean("attempted")) == (0.0, 1.0)
    refuser = measure_answers(cases("I don't know."), DOCUMENTS)
    assert (refuser.mean("abstention"), refuser.mean("attempted")) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("answer", "correct", "outcome"),
    [
        ("On 3 May.", True, Outcome.RIGHT),
        ("On 4 May.", False, Outcome.INVENTED),
        ("I don't know.", False, Outcome.DECLINED),
        ("I don't know.", True, Outcome.RIGHT),
        (None, False, Outcome.FAILED),
    ],
)
def test_a_question_ends_in_one_of_four_ways(
    answer: str | None, correct: bool, outcome: Outcome
) -> None:
    assert outcome_of(cases(answer)[0], correct) is outcome


def test_relevance_is_what_the_answer_takes_up_of_the_question() -> None:
    assert answer_relevance("When was the stove repaired?", "The stove repair was in May") == 1.0
    assert answer_relevance("When was the stove repaired?", "The stove is new") == 0.5
    assert answer_relevance("When was the stove repaired?", "I don't know about a stove") == 0.0
    assert answer_relevance("of the?", "x") == 0.0


def test_sources_are_counted_once_and_inventions_count_against() -> None:
    assert share_found(["a", "a", "x"], {"a", "b"}) == 0.5
    assert share_relevant(["a", "a", "x", "y"], {"a", "b"}) == pytest.approx(1 / 3)
    assert share_relevant(["a", "invented"], {"a"}) == 0.5
    assert share_relevant([], {"a"}) == 0.0
    assert share_found(["a", "x"], {"a", "b", "c", "d"}) == 0.25
    assert share_found(["a", "x"], ("a", "b")) == 0.5
    assert unknown_citations(["z", "a", "z", "y"], {"a"}) == ["z", "y"]


DOCUMENTS = {
    "a": Document("a", "Stove", "The stove was repaired on 3 May."),
    "b": Document("b", "Invoice", "The invoice came to 140 euros."),
}
REPAIR = ReferenceAnswer("q1", "On 3 May, for 140.", (Fact("d", ("3 May",)),), ("a", "b"))
NO_ANSWER = ReferenceAnswer("q2", None)


def cases(answer: str | None, *ids: str) -> list[AnswerCase]:
    relevant = {"a": 2, "b": 2, "c": 0}
    return [
        AnswerCase("q1", "When was the stove repaired?", REPAIR, relevant, answer, ids, ids),
        AnswerCase("q2", "Who made the stove?", NO_ANSWER, {}, answer, ids, ids),
    ]


def test_each_metric_has_one_figure_for_each_question_it_covers() -> None:
    scores = measure_answers(cases("On 3 May.", "a", "c"), DOCUMENTS)
    assert {name: scores.mean(name) for name in scores.values} == {
        "fact_recall": 1.0,
        "faithfulness": 1.0,
        "answer_relevance": 0.0,
        "abstention": 0.0,
        "attempted": 1.0,
        "citation_precision": 0.5,
        "citation_recall": 0.5,
        "context_precision": 0.5,
        "context_recall": 0.5,
        "multi_hop_coverage": 0.5,
    }
    assert scores.query_ids["abstention"] == ["q2"]
    assert scores.query_ids["fact_recall"] == ["q1"]


@pytest.mark.parametrize("answer", [None, "", "I don't know.", "On 3 May."])
def test_what_a_metric_covers_does_not_depend_on_the_agent(answer: str | None) -> None:
    ours = measure_answers(cases(answer), DOCUMENTS)
    theirs = measure_answers(cases("On 3 May.", "a", "b"), DOCUMENTS)
    assert ours.query_ids == theirs.query_ids
    for name in ANSWER_METRICS:
        assert compare_paired(ours.values[name], theirs.values[name]).n == len(ours.values[name])
        assert ours.values[name].dtype == np.float64
        assert summarize(ours.values[name]).mean == ours.mean(name)


def test_an_agent_that_failed_scores_0_for_all_that_it_did_not_say() -> None:
    scores = measure_answers(cases(None, "a", "b"), DOCUMENTS)
    found = {name for name in ANSWER_METRICS if scores.mean(name) > 0}
    assert found == {"context_precision", "context_recall"}


def test_an_agent_that_does_not_cite_is_held_to_what_it_retrieved() -> None:
    case = AnswerCase("q1", "When?", REPAIR, {}, "Repaired on 3 May.", ("a",), ())
    assert measure_answers([case], DOCUMENTS).mean("faithfulness") == 1.0


def test_no_questions_give_zeros() -> None:
    assert measure_answers([], DOCUMENTS).mean("fact_recall") == 0.0


def test_a_metric_is_known_by_any_spelling_of_its_name() -> None:
    assert answer_metric_name("Fact-Recall") == "fact_recall"
    assert answer_metric_name("context recall") == "context_recall"
    assert answer_metric_name("correctness") == "correctness"
    assert answer_metric_name("faithfullness") is None
