"""What a finding says: which value stands for which, where it comes from, and what it quotes."""

from dataclasses import replace

import pytest

from assay.answers.answer_metrics import AnswerCase
from assay.answers.answer_view import AnswerView
from assay.answers.findings import AnswerFinding, find_faults
from assay.answers.lexical import yes_or_no
from assay.answers.wrong_values import Origin, ValueKind, find_wrong_value
from assay.data.dataset import Document, Fact, ReferenceAnswer

DOCUMENTS = {
    "rent": Document(
        "rent",
        "Berth fees",
        "A berth of 8 metres costs 84 pounds a year. A mooring costs 46 pounds a year. "
        "Fees are due on 4 November. The office shuts at 9:15 pm.",
    ),
    "staff": Document("staff", "Staff", "The treasurer is Phil Tarrant. The chair is Ada Moss."),
    "old": Document("old", "Fees of 2023", "A berth of 8 metres costs 72 pounds a year."),
}
ASKED = {
    "fee": ("What does a berth cost?", "A berth costs 84 pounds a year.", "84", "rent"),
    "due": ("When are fees due?", "Fees are due on 4 November.", "4 November", "rent"),
    "who": ("Who is the treasurer?", "The treasurer is Phil Tarrant.", "Tarrant", "staff"),
    "shut": ("When does the office shut?", "The office shuts at 9:15 pm.", "9:15 pm", "rent"),
}


def view(query_id: str, answer: str, correct: bool | None = None) -> AnswerView:
    question, reference, fact, document = ASKED[query_id.rstrip("0123456789")]
    facts = (Fact(fact, (fact,)),)
    case = AnswerCase(
        query_id,
        question,
        ReferenceAnswer(query_id, reference, facts, (document,)),
        answer=answer,
        retrieved=tuple(DOCUMENTS),
        citations=(document,),
    )
    return AnswerView(case, DOCUMENTS, fact in answer if correct is None else correct)


def findings(*views: AnswerView, quote: bool = True) -> list[AnswerFinding]:
    return find_faults(views, quote=quote)


@pytest.mark.parametrize(
    ("query_id", "answer", "kind", "said", "origin"),
    [
        ("fee", "A berth costs 46 pounds a year.", "number", "46 pounds", Origin.RIGHT),
        ("fee", "A berth of 8 metres costs 72 pounds.", "number", "72 pounds", Origin.OTHER),
        ("fee", "A berth costs 48 pounds a year.", "number", "48 pounds", Origin.NOWHERE),
        ("due", "Fees are due on 2026-04-11.", "date or time", "11 April", Origin.NOWHERE),
        ("due", "Fees are due on November 6.", "date or time", "6 November", Origin.NOWHERE),
        ("shut", "The office shuts at 9:50 pm.", "date or time", "9:50 pm", Origin.NOWHERE),
        (
            "shut",
            "From May to July the office shuts at 915.",
            "date or time",
            "915",
            Origin.NOWHERE,
        ),
        ("who", "Ada Moss is the treasurer.", "name", "Ada Moss", Origin.RIGHT),
        ("who", "The treasurer is Zoe Bligh.", "name", "Zoe Bligh", Origin.NOWHERE),
    ],
)
def test_a_wrong_value_is_told_with_its_origin(
    query_id: str, answer: str, kind: str, said: str, origin: Origin
) -> None:
    found = view(query_id, answer).wrong_value
    assert found is not None
    assert (found.kind, found.said, found.origin) == (kind, said, origin)


def test_the_same_number_with_another_unit_is_a_wrong_unit() -> None:
    fact = Fact("30 minutes", ("30 minutes",))
    found = find_wrong_value(
        "It may be used for 30 hours.", "How long?", "For 30 minutes.", [fact], ["30 minutes"], []
    )
    assert found == (ValueKind.UNIT, "30 minutes", "30 hours", Origin.NOWHERE)


@pytest.mark.parametrize(
    ("query_id", "answer"),
    [
        ("fee", "It depends on the committee."),  # no number at all
        ("fee", "A mooring is 8 metres long."),  # a length is no price
        ("due", "Fees are due on 04/11/2026."),  # which may be the right day
        ("who", "The treasurer is elected in spring."),
        ("who", "Nobody knows."),  # a capital that begins a sentence
        (
            "fee",  # on the subject, with a figure that is no price
            "What a berth costs in a year is what every berth costs in that year, and berth 31 in "
            "the same year costs what all of them do, year after year, berth after berth.",
        ),
        (
            "fee",  # a long quotation, of which no figure is the price
            "The harbor was dredged by two barges in spring, which took longer than anybody had "
            "thought. Table in the hallway, number 31. A barge draws 12 pounds of pressure there.",
        ),
    ],
)
def test_what_stands_in_no_place_of_the_expected_value_is_none(query_id: str, answer: str) -> None:
    assert view(query_id, answer).wrong_value is None


def test_a_finding_counts_wrong_values_and_says_where_they_come_from() -> None:
    (found, *_) = findings(
        view("fee1", "A berth costs 46 pounds a year."),
        view("fee2", "A berth of 8 metres costs 72 pounds a year."),
    )
    assert found.words == (
        '2 of 2 wrong answers give another number than expected (for example "46 pounds" for '
        '"84 pounds"): 1 from elsewhere in the right document, '
        "1 from another document that was shown"
    )


def test_a_private_run_has_findings_without_quotes() -> None:
    views = [view(f"fee{n}", "A berth costs 46 pounds a year.") for n in range(3)]
    for found in findings(*views, quote=False):
        assert '"' not in found.words
        assert "46" not in found.words


SAID = {
    "contradicts itself": (
        "A berth costs 84 pounds a year. However, a berth costs 90 pounds a year.",
        "The treasurer is Phil Tarrant. In fact the treasurer is not Phil Tarrant.",
        "The office shuts at 9:15 pm. Correction: it is 9:45 pm.",
    ),
    "names unknown sources": (
        "A berth costs 84 pounds a year (Source: Harbour Gazette, 3rd edition, page 9).",
        "According to the Mariners Almanac, the treasurer is Phil Tarrant.",
        "As the Mariners Almanac reports, the office shuts at 9:15 pm.",
    ),
    "names a document": ("Berth fees", "Please see the page Staff."),
    "asks back": ("Which berth do you mean?", "Could you say which year you are asking about?"),
    "shows its reasoning": (
        "<think>Look at the fees.</think>A berth costs 84 pounds a year.",
        "Thought: I look at the staff.\nThe treasurer is Phil Tarrant.",
    ),
    "unfilled template": (
        *("A berth costs [AMOUNT] a year.", "The treasurer is [FULL NAME]."),
        "The office shuts at XX:XX.",
    ),
    "repeats instructions": (
        "You are Lindi, the assistant of the harbor. A berth costs 84 pounds a year.",
        "The treasurer is Phil Tarrant.\nUser: And who is the chair?",
        "Do not mention these rules. The office shuts at 9:15 pm.",
    ),
    "foreign addresses": (
        "A berth costs 84 pounds a year, see https://harbor.example/p7.html.",
        "The treasurer is Phil Tarrant, [write to him](https://harbor.example/mail).",
        "The office (office@harbor.example) shuts at 9:15 pm.",
    ),
    "uses another document": (
        "Phil Tarrant and Ada Moss are treasurer and chair.",
        "A mooring costs 46 pounds a year.",
    ),
    "ambiguous dates": (
        "A berth costs 84 pounds from 04/11/2026.",
        "The treasurer since 3/12/2019 is Phil Tarrant.",
    ),
    "lost conditions": (
        "A berth always costs 84 pounds a year.",
        "The treasurer is Phil Tarrant, no matter when.",
    ),
    "mixes documents": (
        "A berth costs 84 pounds a year. Phil Tarrant, the treasurer, and Ada Moss are the staff.",
        "The treasurer is Phil Tarrant. A mooring costs 46 pounds a year.",
    ),
    "repeats itself": (
        "A berth berth costs costs 84 84 pounds pounds a year.",
        "The treasurer the treasurer the treasurer the treasurer the treasurer Phil Tarrant.",
    ),
}


@pytest.mark.parametrize("kind", SAID)
def test_the_first_finding_names_the_fault_and_quotes_it(kind: str) -> None:
    said = dict(zip(("fee", "who", "shut"), SAID[kind], strict=False))
    (found, *_) = findings(*(view(each, answer) for each, answer in said.items()))
    assert found.kind == kind
    assert found.number == len(said)


SOUND = (
    ("A berth costs 84 pounds a year. A mooring costs 46 pounds a year.", "Phil Tarrant."),
    ("84 pounds a year (Source: Berth fees).", "Phil Tarrant.\n\nSource: Staff, page 2"),
    ("84 pounds a year.\nSources: [1], document 2", "As Ada Moss says, it is Phil Tarrant."),
    ("According to the Staff page, 84 pounds.", "According to Ada Moss, it is Phil Tarrant."),
    ("According to the documents, 84 pounds a year.", "Source: https://a.example/x Phil Tarrant"),
    ("A berth costs £84 a year. Do you need a mooring, too?", "Who? Phil Tarrant."),
    ("**Final answer:** 84 pounds a year", "I think of Phil Tarrant [staff]."),
    ("84 pounds [RENT], so 7 pounds a month", "Phil Tarrant [sic]"),
    ("[84 pounds](https://a.example/rent)", "Phil Tarrant (https://a.example/staff.html)"),
    ("84 pounds on 13/4/2026 or 04/04/2026", "Phil Tarrant since 2019-04-11 and 4.11.2019"),
    ("84 pounds on 4/04/2026 or 12/12/2026", "Phil Tarrant since 04/4/19"),
    ("84 pounds\n___\na year", "Phil Tarrant\n\n  ____\n\nThe treasurer"),
    ("Chapter XX says 84 pounds.", "Phil Tarrant has XX chromosomes, as Louis XXX."),
    (
        "84 pounds\n\n| Mon | Tue | Wed | Thu | Fri |\n|---|---|---|---|---|\n"
        "| closed | closed | closed | closed | closed |",
        "Phil Tarrant\n\nclosed | closed | closed | closed | closed | closed",
    ),
    ("That that is so: 84 pounds", "Phil Tarrant, the treasurer of the staff"),
)


@pytest.mark.parametrize(("fee", "who"), SOUND)
def test_a_right_answer_in_another_style_has_none_of_these(fee: str, who: str) -> None:
    kinds = {each.kind for each in findings(view("fee", fee), view("who", who))}
    assert kinds.isdisjoint(SAID)


@pytest.mark.parametrize(
    "said", ["It costs XX.", "XX euros", "£XX a year", "at XX:XX", "by XXXX", "Name: ____", "{fee}"]
)
def test_a_placeholder_is_told_from_roman_figures_and_rules(said: str) -> None:
    found = findings(view("fee", f"84 pounds. {said}"), view("who", f"Phil Tarrant. {said}"))
    assert "unfilled template" in {each.kind for each in found}


def case(question: str, reference: str | None, *facts: str, **said: object) -> AnswerCase:
    expected = ReferenceAnswer("q", reference, tuple(Fact(each, (each,)) for each in facts), ("a",))
    return AnswerCase("q", question, expected, **({"retrieved": ("a", "b")} | said))  # type: ignore[arg-type]


OPENING = (
    "The tower of the old harbor is open to all visitors from Easter until the last weekend of "
    "autumn. The stairs are steep, and dogs are not allowed on them. Whoever is a member pays less."
)
TOWER = {"a": Document("a", "Tower", OPENING), "b": Document("b", "Pier", "The pier is long.")}


def kinds(*cases: AnswerCase, correct: bool | None = None) -> list[str]:
    return [each.kind for each in findings(*(AnswerView(each, TOWER, correct) for each in cases))]


def test_yes_for_no_and_a_false_premise_are_named() -> None:
    dogs, why = "No, dogs are not allowed.", "They are not: no dogs are allowed."
    wrong = (
        case("Are dogs allowed?", dogs, "not allowed", answer="Yes, dogs are."),
        case("Why are dogs allowed?", why, "no dogs", answer="Dogs are allowed since they climb."),
    )
    assert kinds(*wrong, correct=False)[0] == "wrong yes or no"
    other = case("Are dogs allowed?", dogs, "not allowed", answer="Only with a lead, as I recall.")
    assert "wrong yes or no" not in kinds(other, other, correct=False)
    soup = "Boil the leeks of the harbor for half an hour in salted water, and never in oil."
    other = case("How are leeks boiled?", soup, "half an hour", answer="The leeks are boiled long.")
    assert "wrong yes or no" not in kinds(other, other, correct=False)


def test_a_no_for_a_yes_is_named_and_a_premise_only_where_it_is_taken_for_true() -> None:
    denied = case("Are dogs allowed?", "Yes, they are.", "they are", answer="No, dogs are not.")
    assert kinds(denied, denied, correct=False)[0] == "wrong yes or no"
    dogs = "No, dogs are not allowed."
    for said in ("The stairs are steep.", "Dogs are never allowed."):
        other = case("Are dogs allowed?", dogs, "lead", answer=said)
        assert "wrong yes or no" not in kinds(other, other, correct=False)


@pytest.mark.parametrize(
    "answer",
    ["No-shows pay.", "Non-members pay.", "No. 5 is for rent.", "SIM cards.", "Yes-men pay."],
)
def test_a_word_that_begins_as_yes_or_no_is_neither(answer: str) -> None:
    assert yes_or_no(answer) == ""


@pytest.mark.parametrize("answer", ["No – dogs may not.", "No—dogs.", "No", "No - dogs."])
def test_a_no_before_a_dash_is_one(answer: str) -> None:
    assert yes_or_no(answer) == "no"


@pytest.mark.parametrize(
    ("address", "foreign"),
    [
        ("`https://Harbor.example/Fees/`", False),
        ("http://www.harbor.example/fees", False),
        ("https://other.example/doc/7", False),
        ("https://other.example/show?id=7.", False),
        ("https://other.example/Fees-of-the-harbor", False),
        ("https://signed.example/x", False),
        ("https://other.example/p17.html", True),
        ("https://other.example/7th", True),
        ("https://other.example/2027", True),
        ("https://harbor.example/fe", True),
        ("mast@harbor.example", True),
    ],
)
def test_an_address_is_known_in_any_spelling_or_by_a_whole_id(address: str, foreign: bool) -> None:
    text = "The fees are at www.harbor.example/fees or from harbormast@harbor.example."
    known = {"7": Document("7", "Harbor fees", text, {"url": "https://signed.example/x"})}
    said = case("Where?", "There.", "There", retrieved=("7",), answer=f"The fees: {address}")
    found = [each.kind for each in findings(*[AnswerView(said, known, correct=True)] * 2)]
    assert ("foreign addresses" in found) is foreign


def test_an_answer_without_its_number_is_named() -> None:
    lost = [view("fee", "A berth costs pounds a year."), view("shut", "The office shuts at pm.")]
    assert findings(*lost)[0].kind == "no number"
    vague = [view("fee", "That varies."), view("shut", "Later than others.")]
    assert "no number" not in [each.kind for each in findings(*vague)]


def test_another_version_of_the_needed_document_is_named() -> None:
    copy = {"c": Document("c", "Tower (2019)", OPENING.replace("Easter", "May")), **TOWER}
    asked = case("When is it open?", "From Easter.", "Easter", retrieved=("c", "b"), answer="May.")
    (found, *_) = findings(*[AnswerView(asked, copy, correct=False)] * 2)
    assert (found.kind, found.number) == ("near copies", 2)
    assert found.words.endswith('for example "c" for "a"')
    more = " ".join(f"{word}berth {word}mast" for word in ("sail", "oar", "deck", "keel", "jib"))
    longer = {**copy, "c": Document("c", "All", f"{OPENING} {more} {more.replace('ber', 'mo')}")}
    found_kinds = {each.kind for each in findings(*[AnswerView(asked, longer, correct=False)] * 2)}
    assert "near copies" not in found_kinds
    short = {each: Document(each, "", "The tower is open daily.") for each in "ac"}
    both = replace(asked.reference, documents=("a", "c"))
    for documents, other in (
        (short, asked),
        (copy, replace(asked, retrieved=("a", "c"))),
        (copy, replace(asked, reference=both)),
    ):
        others = findings(*[AnswerView(other, documents, correct=False)] * 2)
        assert "near copies" not in {each.kind for each in others}


def test_a_sentence_that_all_answers_add_is_told_as_the_same() -> None:
    asked = [
        case("When?", "From Easter.", "Easter", answer=f"{said}. Bring solid shoes along.")
        for said in ("From Easter", "The tower is open from Easter", "It is open from Easter")
    ]
    (found, *_) = findings(*(AnswerView(each, TOWER, correct=True) for each in asked))
    assert found.words.endswith('3 of them the same: "Bring solid shoes along."')


def test_a_refusal_after_other_words_is_no_invention() -> None:
    said = "This is our talking robot. The documents do not say that."
    assert "never declines" not in kinds(*[case("How high?", None, answer=said)] * 2)
    assert "never declines" in kinds(*[case("How high?", None, answer="It is high.")] * 2)


def test_a_wrong_answer_that_nothing_names_is_quoted_beside_its_reference() -> None:
    heavier = case("Which is heavier?", "The tower: 7 tons.", "tower", "7 tons", answer="7 tons.")
    (found,) = findings(AnswerView(heavier, TOWER, correct=False))
    assert found.words.endswith('the reference, for example "7 tons." for "The tower: 7 tons."')
    asked = "When?", "From Easter.", "Easter"
    padded = case(*asked, answer=f"{OPENING} {OPENING.lower()}")
    right = [AnswerView(padded, TOWER, correct=True)] * 2
    (*others, found) = findings(AnswerView(heavier, TOWER, correct=False), *right)
    assert others
    assert found.kind == "unlike the reference"


@pytest.mark.parametrize(
    ("answer", "fact", "kind", "said"),
    [
        ("It began on 3 May 1945.", "3 May 1954", ValueKind.DATE, "3 May 1945"),
        ("It shows 90 things.", "40 to 90", ValueKind.NUMBER, "90"),
        ("It costs 1250 euros.", "12.50 euros", ValueKind.NUMBER, "1250 euros"),
        ("It is Ada Moos.", "Ada Moss", ValueKind.NAME, "Ada Moos"),
    ],
)
def test_a_part_of_a_value_may_be_another(
    answer: str, fact: str, kind: ValueKind, said: str
) -> None:
    found = find_wrong_value(answer, "What?", f"It is {fact}.", [Fact(fact, (fact,))], [fact], [])
    assert found is not None
    assert (found.kind, found.expected, found.said) == (kind, fact, said)


@pytest.mark.parametrize(
    ("answer", "fact"),
    [
        ("It began on 3 May.", "3 May 1954"),
        ("From 40 up, to 90.", "40 to 90"),
        ("It shows 90 things.", "40 to 90 in 2 rooms"),
    ],
)
def test_a_part_that_is_missing_is_no_other_value(answer: str, fact: str) -> None:
    assert find_wrong_value(answer, "?", f"{fact}.", [Fact(fact, (fact,))], [fact], []) is None


def test_a_bare_yes_or_no_in_a_list_is_no_instruction() -> None:
    said = [view(f"fee{n}", f"I found:\n- Yes\n- 84 pounds, {n} more") for n in range(3)]
    assert "repeats instructions" not in [each.kind for each in findings(*said)]


def test_the_answers_of_the_question_before_are_an_error_by_one() -> None:
    ids = list(ASKED)
    views = [view(each, ASKED[ids[place - 1]][1]) for place, each in enumerate(ids)]
    (found, *_) = findings(*views)
    assert found.kind == "answers other questions"
    assert 'example "What does a berth cost?" gets the answer of' in found.words
    assert "3 of them that of the question before" in found.words
