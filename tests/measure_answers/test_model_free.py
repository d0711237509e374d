"""The measures that need no model, on small cases where the right figure is plain."""

import numpy as np
import pytest

from assay.answer.prompt import without_markers
from assay.data import Document, Fact, ReferenceAnswer
from assay.measure import compare_paired, summarize
from assay.measure.answers.abstention import abstained, declined
from assay.measure.answers.answer_metrics import (
    ANSWER_METRICS,
    AnswerCase,
    Outcome,
    answer_metric_name,
    citation_precision,
    citation_recall,
    context_precision,
    context_recall,
    measure_answers,
    multi_hop_coverage,
    outcome_of,
    unknown_citations,
)
from assay.measure.answers.lexical import (
    answer_relevance,
    contains_any,
    fact_recall,
    faithfulness,
    unsupported,
)
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


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "  ",
        "NOT FOUND",
        "Not found.",
        "The documents do not answer this question.",
        "I don't know.",
        "I could not find the serial number in the notes.",
        "The notes do not mention the serial number [1][2].",
        "The provided context doesn't contain any details about this.",
        "There is no information about the flight number.",
        "The flight number is not stated in the notes.",
        "This cannot be determined from the documents.",
        "No relevant documents found in your Nextcloud content for this query.",
        "I couldn't find that in the documents.",
        "I'm unable to answer that.",
        "I’m sorry. I do not know.",
        "None of the documents answer this.",
        "Not mentioned in the documents.",
        "The answer is not in the documents.",
        "I'm sorry, but I don't have enough information to answer.",
        "The notes do not say, but please let me know if you have others.",
        "The club rules do not say that.",
        "Our bylaws do not specify who pays.",
        "The handbook is silent about pets.",
        "No source gives the architect's name.",
        "The passages give no phone number.",
        "Sorry, we have nothing on that.",
        "It is not stated which firm built it.",
        "No answer found.",
        "It isn't clear from the text who signed.",
        "Hello! Thanks for asking. I could not find this in the documents.",
        "Good question. The documents do not say.",
        "I searched all documents. There is no information about this.",
        "# Wifi\nI could not find this.",
        'You asked: "Is there wifi?"\n\nThe documents do not say.',
        "Wifi isn't mentioned in any of the documents.",
        "No phone number is given for the stables.",
        "No brand is named. You could ask the committee.",
        "Not stated.",
        "The results of that year are not in our documents; I only have those of 2025.",
        "For legal reasons I can't comment on this; please contact the committee.",
        "Please consult a qualified professional; I am not able to give information on it.",
        "**I could not find this.**",
        "Das weiß ich nicht.",
        "Dazu liegen mir keine Informationen vor.",
        "Aus den Unterlagen geht das nicht hervor.",
        "Les documents ne le précisent pas.",
        "No tengo información sobre eso.",
        "I documenti non riportano il prezzo.",
        "De documenten zeggen hier niets over.",
        "Não encontrei essa informação.",
    ],
)
def test_a_refusal_is_known_by_the_usual_phrases(answer: str) -> None:
    assert abstained(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "The serial number is 4711.",
        "The notes do not give the price, but the invoice says 40 euros.",
        "I could not find the note. However, the calendar says 3 May.",
        "Mercury was not found in the blood of vegetarians.",
        "There is no evidence that coffee harms the arteries.",
        "The sender is unknown to Ida, who wrote it off.",
        "No documents are required for the trip.",
        "He does not know yet.",
        "The context menu does not include Delete.",
        "Unknown persons broke in on 3 May.",
        "No answer was given until 2 May.",
        "There is no information desk; go to room 12.",
        "I'm sorry, but the fee is 40 euros.",
        "There is no data in the bucket.",
        "The guide gives no refunds after Monday.",
        "The website lists no fewer than 40 books.",
        "The passages give no name but a number: 42.",
        "We could not find evidence of harm.",
        "The director did not say yes.",
        "Thanks for asking! The fee is 84 pounds. I could not find a discount.",
        "Is it open? Yes, until 5 pm. The rules do not say more.",
        "I checked list 3: it is 84 pounds. The documents say nothing else.",
        "No refund is given for late cancellations.",
        "No deaths were recorded in that year.",
        "The form is not in the handbook; it is at the office.",
        "Not known to be harmful.",
        "It is not known for its food but for its hall.",
        "Kein Dokument wird länger als 12 Monate aufbewahrt.",
        "Dazu braucht man keine Karte.",
        "Le document n'est pas payant.",
        "No se admiten perros.",
    ],
)
def test_an_answer_with_a_no_in_it_is_still_an_answer(answer: str) -> None:
    assert not abstained(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "The documentation says that a branch is planned, but it doesn't give a date.",
        "Based on the context, the documentation says that it is planned, but it gives no date.",
        "Answer: The documentation says that it is planned, but it doesn't give a date.",
        "The docs only cover letters; parcels aren't mentioned anywhere.",
        "The page lists the chair and the treasurer, but not the head of sales.",
        "Unfortunately, the notes mention a branch, but give no date.",
        "There's no date yet: the page only says that a branch is planned.",
    ],
)
def test_what_the_sources_do_say_may_come_before_declining(answer: str) -> None:
    assert declined(answer)
    assert not abstained(answer)  # to a question that has an answer, this may be it


@pytest.mark.parametrize(
    "answer",
    [
        "The branch opens in May, but the documentation doesn't give a day.",
        "The documentation says that the branch opens in May.",
        "It is Ada Moss, but not the one of the notes.",
        "The notes say that it opens. It does not close before May.",
        "According to the notes, it costs 40 euros. The discount is not mentioned.",
        "According to the notes, it is free, but the discount is not mentioned.",
        "The documents say the CEO is Ann Lee. The CFO is not mentioned.",
        "The documents say the CEO is Ann Lee, but the CFO is not mentioned.",
        "The policy says refunds take 14 days. It does not cover sale items.",
        "The policy says refunds take two weeks, but it does not cover sale items.",
        "According to the handbook, the fee is 20 euros; there is no time limit.",
        "The handbook says that the fee is waived; there is no time limit.",
    ],
)
def test_an_answer_that_declines_a_part_declines_nothing(answer: str) -> None:
    assert not declined(answer)


def test_numbers_and_names_of_the_question_may_come_before_declining() -> None:
    answer = "The page lists 2 boats of Ada Moss, but not the price."
    assert declined(answer, "What do the 2 boats of Ada Moss cost?")
    assert not declined(answer, "What do the boats of Ada Moss cost?")
    assert not declined(answer, "What do the 2 boats cost?")


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
    assert context_recall(["a", "a", "x"], {"a", "b"}) == 0.5
    assert context_precision(["a", "a", "x", "y"], {"a", "b"}) == pytest.approx(1 / 3)
    assert citation_precision(["a", "invented"], {"a"}) == 0.5
    assert citation_precision([], {"a"}) == 0.0
    assert citation_recall(["a", "x"], {"a", "b", "c", "d"}) == 0.25
    assert multi_hop_coverage(["a", "x"], ("a", "b")) == 0.5
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
