"""Key facts: what states one, and what only contains its words."""

import pytest

from assay.answers.assertion import Assertion
from assay.answers.lexical import fact_assertion, stated_facts, states
from assay.answers.quantities import bare_number, canonical
from assay.data import Fact, load_dataset
from assay.text import words

SEVEN = Fact("It opens at 7:00", ("7:00",))
SUPPLIER = Fact("Polyform in Brno supplies the housing", ("Polyform",))
MONDAY = Fact("It is closed on Monday", ("Monday",))
TWENTY = Fact("It takes 20 minutes", ("20 minutes",))


@pytest.mark.parametrize(
    ("fact", "answer"),
    [
        (SEVEN, "It opens at 7:00."),
        (SEVEN, "No, it opens at 7:00."),
        (SEVEN, "It does not open at 8:00 but at 7:00."),
        (SEVEN, "Not only at 7:00, also at noon."),
        (SEVEN, "It does not open until 7:00."),
        (SEVEN, "No time was lost when the pool opened at 7:00."),
        (SEVEN, "It never closes early, and opens at 7:00."),
        (SEVEN, "At 7:00 or so."),
        (SEVEN, "At 7:00; bring soap or a towel."),
        (Fact("the day", ("4 November",)), "It opens on 2026-11-04."),
        (Fact("the day", ("4 November",)), "It opens on November 4th, 2026."),
        (Fact("the day", ("November 4",)), "It opens on the 4th of November."),
        (Fact("guests", ("20 people",)), "In May 20 people came."),
        (SUPPLIER, "Polyform makes the housings, not the Offenburg firm."),
        (SUPPLIER, "It wasn't the Offenburg firm, it was Polyform."),
        (SUPPLIER, "Polyform, which did well in the test, supplies the housing."),
        (SUPPLIER, "No firm may deliver, except Polyform."),
        (SUPPLIER, "There is no maker other than `Polyform`."),
        (Fact("the call", ("`GET /v2`",)), "Call GET /v2 first."),
        (Fact("There is no refund", ("no refund",)), "You get no refund."),
        (Fact("It works without network", ("without network",)), "It works without network."),
        (Fact("Never on Sundays", ("Sunday",)), "Motor tools are not allowed on Sundays."),
        (Fact("ext. 431 or the mobile", ("431", "0143")), "Call 431 or 0143."),
        (SEVEN, "Das Bad öffnet nicht vor 7:00."),
        (TWENTY, "Nicht nur 20 minutes, sondern mehr."),
        (Fact("neun Dörfer", ("neun Dörfer",)), "Der Bus besucht 9 Dörfer."),
    ],
)
def test_a_wording_that_is_asserted_states_its_fact(fact: Fact, answer: str) -> None:
    assert states(answer, fact)


@pytest.mark.parametrize(
    ("fact", "answer"),
    [
        (SEVEN, "It does not open at 7:00."),
        (SEVEN, "Das Bad öffnet nicht um 7:00."),
        (SEVEN, "Le bain n'ouvre pas à 7:00."),
        (SEVEN, "It doesn't open on weekdays at 7:00."),
        (SEVEN, "The pool never opens at 7:00."),
        (SEVEN, "It no longer opens at 7:00."),
        (SEVEN, "It is not true that the pool in the south of the town opens at 7:00."),
        (SEVEN, "It is wrong to say that it opens at 7:00."),
        (SEVEN, "7:00 is not correct."),
        (SEVEN, "Opening at 7:00 is wrong."),
        (SEVEN, "It opens at 8:00 instead of 7:00."),
        (SEVEN, "Neither 7:00 nor 8:00."),
        (SUPPLIER, "Polyform does not make the housings."),
        (SUPPLIER, "Polyform isn't the supplier."),
        (SEVEN, "It opens at 7:00. However, that is wrong."),
        (SEVEN, "It opens at 7:00, but this is not true."),
        (MONDAY, "It is closed every day except Monday."),
        (MONDAY, "It is closed every day other than on Monday."),
        (MONDAY, "It is closed on all days apart from Monday."),
    ],
)
def test_a_wording_that_is_denied_states_nothing(fact: Fact, answer: str) -> None:
    assert fact_assertion(answer, fact) is Assertion.DENIED


@pytest.mark.parametrize(
    ("fact", "answer"),
    [
        (SEVEN, "Either 7:00 or 8:00."),
        (SEVEN, "It opens at either noon or 7:00."),
        (SEVEN, "At 7:00 or at 8:00."),
        (SEVEN, "At 6:00 or 7:00."),
        (SEVEN, "At 6:00, 7:00, 8:00 or 9:00."),
        (SEVEN, "At 7:00, 8:00, or 9:00."),
        (SUPPLIER, "Polyform, Elektro Jost or Wehrle."),
        (SUPPLIER, "Jost, Wehrle, or Polyform."),
        (TWENTY, "10, 20 or 30 minutes."),
        (TWENTY, "20 minutes or 30 minutes."),
        (TWENTY, "It takes 20 or 25 minutes."),
    ],
)
def test_one_of_several_options_states_nothing(fact: Fact, answer: str) -> None:
    assert not states(answer, fact)


def test_options_that_are_all_key_facts_are_a_list() -> None:
    facts = [Fact(each, (each,)) for each in ("opened", "delivered", "bounced")]
    assert stated_facts("It is sent when a mail was opened, delivered, or bounced.", facts) == facts
    assert stated_facts("It is sent when a mail was opened, delivered, or lost.", facts) == []
    times = [Fact(each, (each,)) for each in ("7:00", "8:00")]
    assert stated_facts("It opens at 7:00 or 8:00.", times) == []
    assert stated_facts("I am not sure: opened, delivered, or bounced.", facts) == []
    cities = [Fact(each, (each,)) for each in ("Paris", "London")]
    assert stated_facts("Either Paris or London.", cities) == []


def test_a_number_of_another_currency_states_nothing() -> None:
    fact = Fact("It costs 6 euros", ("6 euros",))
    assert not states("Members pay $6.", fact)
    assert states("Members pay €6.", fact)
    assert states("Members pay 6.", fact)


def test_what_is_only_asked_is_hedged() -> None:
    assert fact_assertion("Does it open at 7:00?", SEVEN) is Assertion.HEDGED
    assert fact_assertion("When does it open? At 7:00.", SEVEN) is Assertion.STATED


def test_the_last_word_counts_and_a_hedge_is_seen() -> None:
    assert states("I was wrong about 6:00 or 7:00. It opens at 7:00.", SEVEN)
    for answer in ("Perhaps at 7:00.", "I think it opens at 7:00.", "It might open at 7:00."):
        assert fact_assertion(answer, SEVEN) is Assertion.HEDGED
        assert states(answer, SEVEN)
    assert fact_assertion("At 7:00; the weather may be bad.", SEVEN) is Assertion.STATED


@pytest.mark.parametrize(
    ("accept", "answer"),
    [
        ("22 minutes", "22"),
        ("22 minutes", "22."),
        ("22 minutes", "Twenty-two minutes."),
        ("22 min", "It takes twenty-two mins."),
        ("twenty-one", "21 people came."),
        ("21", "Twenty-one."),
        ("1,200 euros", "one thousand two hundred euros"),
        ("€15", "15 euros an hour"),
        ("15 euros", "EUR 15"),
        ("12%", "twelve per cent"),
        ("205", "two hundred and five"),
        ("3 hours", "three hours"),
        ("18 degrees", "18 °C"),
        ("15 pounds", "£15 an hour"),
        ("£15", "15 pounds an hour"),
        ("5 million", "£5,000,000"),
        ("£5,000,000", "up to 5 million pounds"),
        ("84 pounds", "It costs **84** pounds"),
        ("2.4 by 1.8", "2.4 by **1.8** metres"),
        ("4,180 books", "4\u202f180 books"),
        ("40 to 90", "40–90 times"),
        ("9-12 am", "from 9 to 12 am"),
        ("900 to 1,400", "between 900 and 1400 a year"),
        ("not admitted", "They aren't admitted."),
        ("can't be returned", "It cannot be returned."),
    ],
)
def test_numbers_and_units_are_written_in_many_ways(accept: str, answer: str) -> None:
    assert states(answer, Fact("", (accept,)))


@pytest.mark.parametrize(
    ("accept", "answer"),
    [
        ("22 minutes", "22 hours"),
        ("22 minutes", "It is on line 22 of the list"),
        ("22 minutes", "122"),
        ("22 minutes", "2.22"),
        ("21", "twenty or one"),
        ("1", "one of them"),
        ("15 euros", "15 dollars"),
        ("15 euros", "£15"),
        ("15 kg", "15 pounds"),
        ("5 million", "5 thousand"),
        ("40 to 90", "40 and 90"),
        ("4 180", "4 18"),
    ],
)
def test_another_number_or_unit_is_another_fact(accept: str, answer: str) -> None:
    assert not states(answer, Fact("", (accept,)))


def test_spellings_of_numbers_become_one() -> None:
    assert canonical("two hundred and five euros") == "205 eur"
    assert canonical("one of the two three") == "one of the two three"


@pytest.mark.parametrize("text", ["call 555-0102", "they won 3-1", "in 2026-11", "room 12-034"])
def test_a_hyphen_between_numbers_that_do_not_rise_is_no_range(text: str) -> None:
    assert canonical(text) == text


@pytest.mark.parametrize("text", ["0-5", "09:00-17:00", "22:00-6:00", "1.5-2.5", "9 - 12"])
def test_a_hyphen_between_numbers_that_rise_is_a_range(text: str) -> None:
    assert " to " in canonical(text)


def test_a_year_before_a_number_is_no_part_of_it() -> None:
    assert words("in 2026\u00a0120 boats") == ["in", "2026", "120", "boats"]
    assert words("1\u00a0200\u00a0000 boats") == ["1200000", "boats"]
    assert canonical("a second one, half past five") == "a second one, half past 5"
    assert [bare_number(each) for each in ("22 minutes", "€15", "22", "May 22")] == [
        *("22", "15"),
        *(None, None),
    ]


def test_every_reference_answer_of_the_notes_states_its_own_facts() -> None:
    for reference in load_dataset("notes").answers.values():
        for fact in reference.facts:
            assert fact_assertion(reference.answer or "", fact) is Assertion.STATED, fact


def test_no_reference_answer_states_its_facts_when_it_is_negated() -> None:
    """By a rule that the checks do not know by heart: the claim is called untrue in five ways."""
    frames = (
        "It is not true that {}",
        "It is false that {}",
        "It is not the case that {}",
        "It is incorrect to say that {}",
        "Contrary to what is said that {}",
    )
    passed = [
        (frame, fact.text)
        for reference in load_dataset("notes").answers.values()
        for fact in reference.facts
        for frame in frames
        if reference.answer and ". " not in reference.answer
        if states(frame.format(reference.answer), fact)
    ]
    assert passed == []
