"""Courtesy, emphasis, source lines and a missing full stop are a style and no fault."""

import pytest

from assay.answers.answer_metrics import AnswerCase
from assay.answers.answer_view import AnswerView
from assay.answers.assertion import Assertion
from assay.answers.form_checks import breaks_off, repeats_the_question
from assay.answers.framing import bare_text, is_courtesy, statements, without_emphasis
from assay.answers.lexical import faithfulness
from assay.data import Document, ReferenceAnswer
from assay.data.dataset import Fact

RENT = Document(
    "rent", "Berth fees", "A berth costs 84 pounds a year. It is paid by cheque in May."
)


def view(answer: str, *facts: Fact) -> AnswerView:
    case = AnswerCase(
        query_id="q1",
        question="What does a berth cost?",
        reference=ReferenceAnswer("q1", "84 pounds a year.", facts),
        answer=answer,
        retrieved=("rent",),
    )
    return AnswerView(case, {"rent": RENT})


@pytest.mark.parametrize(
    "sentence",
    [
        "Thanks for your question!",
        "That's a great question!",
        "Hello and thanks for reaching out.",
        "Hello and thank you for your interest in our harbor!",
        "I looked at the documents that were found.",
        "Good news: I found it.",
        "(As stated by the club; changes are possible.)",
        "Let me know if you have any questions about berths.",
        "Is there anything else I can help you with?",
        "I hope that helps.",
        "Here is what I found:",
        "If you need more details, please contact the harbor office.",
        "You could ask the committee.",
        "Happy sailing!",
        "Dear Ms Moss,",
        "Your team at the harbor",
        "This is not legal advice, and fees may change without notice.",
        "Guten Tag und vielen Dank für Ihre Frage!",
        "Vielen Dank für Ihre Frage!",
        "Bei weiteren Fragen helfen wir Ihnen gerne.",
        "Mit freundlichen Grüßen",
        "Bonjour et merci pour votre question !",
        "N'hésitez pas à nous contacter pour toute autre question.",
        "¡Hola!",
        "Espero que esta información le ayude.",
    ],
)
def test_what_greets_thanks_or_offers_help_is_courtesy(sentence: str) -> None:
    assert is_courtesy(sentence)
    assert view(f"A berth costs 84 pounds. {sentence}").unsupported == []


@pytest.mark.parametrize(
    "sentence",
    [
        "Hello Margaret, as for your berth 47: it is free.",
        "Members of long standing receive a discount on this.",
        "Please pay 10 pounds.",
        "Please contact Desmond Clarke.",
        "Ask the treasurer to waive the fee.",
        "You can contact members by telephone only.",
        "Please contact the office because the fee doubled.",
        "You need a certificate.",
        "Dogs are welcome.",
        "Could you tell me more precisely what you would like to know?",
        "The harbor team",
        "The fee may change in spring.",
        "Bei Fragen zur Gebühr hilft gerne Frau Anna Moos.",
        "Danke an Herrn Moos: er zahlt 10 Euro.",
        "Para ayudar a los socios se abre la oficina a las 9.",
        "Hello Margaret, your berth is free",
        "I read that berths are free.",
        "Thank you for paying: the fee has doubled.",
    ],
)
def test_what_states_something_is_none(sentence: str) -> None:
    assert not is_courtesy(sentence)


def test_the_name_of_a_source_is_checked_and_its_label_is_not() -> None:
    assert statements("It is 84.\n\n**Sources:**\n- Berth fees") == ["It is 84.", "Berth fees"]
    assert view("84 pounds.\n\nSources used: Berth fees").unsupported == []
    assert view("84 pounds. (Source: Mariners' Handbook)").unsupported == ["Mariners' Handbook)"]


def test_headings_and_the_head_of_a_table_state_nothing() -> None:
    assert statements("### Answer\nIt is 84.\n\n### Source\n- Berth fees") == [
        "It is 84.",
        "Berth fees",
    ]
    assert statements("| berth | fee |\n|---|---|\n| small | 84 |") == ["| small | 84 |"]
    assert statements("# It is 84") == ["# It is 84"]


def test_a_converted_quantity_and_the_numbers_of_a_list_are_no_figures_of_their_own() -> None:
    said = view("1. A berth costs 84 pounds (about 97 euros) a year.\n2. It is paid by cheque.")
    assert said.foreign_numbers == set()
    assert said.unsupported == []
    assert view("A berth costs 84 pounds, so 7 pounds a month.").foreign_numbers == set()
    assert view("A berth costs 84 pounds, so 8 pounds a month.").foreign_numbers == {"8"}
    assert view("A berth costs 84 pounds for 7 people.").foreign_numbers == {"7"}
    assert view("A berth costs 84 pounds for 588 days.").foreign_numbers == {"588"}
    assert view("A berth costs 84 pounds (97 in May).").foreign_numbers == {"97"}
    assert view("A berth costs 97 pounds (about 84 euros).").foreign_numbers == {"97"}


def test_words_of_documents_and_answers_in_general_support_nothing_and_need_no_support() -> None:
    for said in (
        "Please note that this reflects the documentation I was given; details may change.",
        "You'll find this on the page “Berth fees” of the documentation.",
    ):
        assert view(f"A berth costs 84 pounds. {said}").unsupported == []
    assert view("You'll find this on the page of the auditors.").unsupported


@pytest.mark.parametrize("answer", ["Change the key.", "The official documentation.", "Say hello."])
def test_a_right_answer_of_general_words_alone_is_faithful(answer: str) -> None:
    assert faithfulness(answer, [f"Every year: {answer.lower()}"]) == 1.0
    assert faithfulness(answer, ["The berth costs 84 pounds a year."]) == 0.0


def test_options_that_are_all_key_facts_are_no_hedge() -> None:
    colors = [Fact(each, (each,)) for each in ("red", "green", "blue")]
    assert view("Flags are red, green or blue.", *colors).unstated == []
    assert Assertion.OPTION not in view("Flags are red, green or blue.", *colors).occurrences
    assert Assertion.OPTION in view("Flags are red, green or black.", *colors).occurrences
    said = "It is 84 pounds. It is 84 or 90 pounds."
    assert Assertion.OPTION in view(said, Fact("84 pounds", ("84 pounds",))).occurrences


def test_a_key_fact_in_other_words_is_supported() -> None:
    fact = Fact("84 pounds", ("84 pounds",))
    said = view("Skippers transfer 84 pounds annually.", fact)
    assert said.unsupported == []
    assert view("Skippers transfer 84 pounds annually, 13 upfront.", fact).unsupported
    assert view("Skippers transfer money annually.", fact).unsupported


def test_questions_and_what_leads_up_to_a_list_state_nothing_beside_others() -> None:
    said = "Here are the fees:\n- 84 pounds\n\nConfidence: high\n\nShall I draw a map?"
    assert statements(said) == ["84 pounds"]
    assert statements("Shall I draw a map?") == ["Shall I draw a map?"]
    assert statements("The fee for 2026:\n- 84 pounds")[0] == "The fee for 2026:"


def test_what_follows_a_picture_begins_a_sentence() -> None:
    assert view("Great! 😊 Skippers pay 84 pounds.").foreign_names == set()
    assert view("Great! Skippers and Corsairs pay 84 pounds.").foreign_names == {"corsairs"}


def test_the_address_of_a_link_is_no_statement() -> None:
    linked = "It opens at seven ([Pool hours](https://town.example/pool.html?x=1))."
    assert bare_text(linked) == "It opens at seven (Pool hours)."
    for text in ("![a map](https://town.example/map.png)", "f(x)[0](y z)", "[1] (see below)"):
        assert "(" in bare_text(text)


def test_a_raised_mark_is_a_footnote_and_an_exponent_is_none() -> None:
    assert bare_text("It costs 84 pounds.¹ Pay it by cheque².\n\n¹ Berth fees") == (
        "It costs 84 pounds. Pay it by cheque.\n\n Berth fees"
    )
    assert bare_text("It costs 84 pounds.[^1]\n\n[^1]: Fees") == "It costs 84 pounds.\n\n Fees"
    assert bare_text("10² berths of 12 km² or 3 m³") == "10² berths of 12 km² or 3 m³"
    area = "20 meter², 300 feet², twenty metres³ and 9.81 meters per second²"
    assert bare_text(area) == area
    assert bare_text("It is 20 meter¹ long") == "It is 20 meter long"
    assert bare_text("It is 12 euros² at the harbor³") == "It is 12 euros at the harbor"


def test_a_mark_of_a_note_is_removed_and_a_class_of_signs_is_none() -> None:
    assert bare_text("It is 84.[^1] By cheque[^a][^2] [^3].\n[^1]: Fees") == (
        "It is 84. By cheque.\n Fees"
    )
    pattern = "Regex [^abc]: use [^1] here"
    assert bare_text(pattern) == pattern


def test_a_right_answer_without_a_full_stop_may_end_before_its_source_does() -> None:
    answer = "In our club a berth costs 84 pounds. It is paid by cheque"
    for correct, breaks in ((True, False), (False, True)):
        assert breaks_off(AnswerView(view(answer).case, {"rent": RENT}, correct)) is breaks
    assert breaks_off(AnswerView(view(answer[:-3]).case, {"rent": RENT}, correct=True))


def test_emphasis_is_removed_and_products_and_names_stay() -> None:
    assert without_emphasis("***all*** of **84** pounds, _not_ 2.4 by **1.8**") == (
        "all of 84 pounds, not 2.4 by 1.8"
    )
    for text in ("2 * 3 * 4", "5*3*2", "snake_case_name", "* an item"):
        assert without_emphasis(text) == text


@pytest.mark.parametrize(
    "answer",
    [
        "A berth of the club costs 84 pounds a year.\n\n*Source: Berth fees*",
        "A berth of the club costs 84 pounds a year.\n\nSource: Berth fees",
        "A berth of the club costs 84 pounds a year.\n\nSources:\n- Berth fees\n- The May list",
        "A berth of the club costs 84 pounds a year [1].\n\n[1] Berth fees",
        "- A berth of the club costs 84 pounds a year\n- You pay it by cheque in May",
        "A berth of the club costs 84 pounds a year",
        "84 pounds a year, which you pay in May",
        "A berth of the club costs 84 pounds a year. ⛵",
    ],
)
def test_a_source_line_a_bullet_or_a_missing_full_stop_breaks_nothing_off(answer: str) -> None:
    assert not breaks_off(view(answer))


@pytest.mark.parametrize(
    "answer",
    [
        "A berth costs 84 pounds. It is paid by",
        "A berth costs 84 pounds. It is paid",
        "A berth costs 84 pounds. It is paid by che",
        "A berth costs 84 pounds, which you pay between",
        "A berth costs 84 pounds (",
        "A berth costs 84 pounds and\n\nSource: Berth fees",
        "Ein Platz kostet 84 Pfund und",
    ],
)
def test_an_end_that_lacks_something_breaks_off(answer: str) -> None:
    assert breaks_off(view(answer))


@pytest.mark.parametrize("answer", ["No – a berth does cost.", "Yes, a berth does cost."])
def test_a_yes_or_no_with_the_words_of_the_question_is_an_answer(answer: str) -> None:
    assert not repeats_the_question(view(answer))
    assert repeats_the_question(view(answer.partition(" a ")[2]))


def test_only_the_question_again_is_told_from_a_word_of_it() -> None:
    assert repeats_the_question(view("You would like to know: What does a berth cost?"))
    assert repeats_the_question(view("What does a berth cost?"))
    assert not repeats_the_question(view("You would like to know: the mooring fee."))
    brief = AnswerCase(
        query_id="q1",
        question="How many boats may lie at the western pier in winter?",
        reference=ReferenceAnswer("q1", "Six."),
        answer="Western pier",
    )
    assert not repeats_the_question(AnswerView(brief, {}))
