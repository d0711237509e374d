"""Lists, passages and what is only told where nothing else is found."""

import pytest
from tests.answers.test_findings import OPENING, TOWER, case, findings, kinds

from assay.answers.answer_view import AnswerView
from assay.answers.contradiction.rules import Contradiction, ContradictionKind
from assay.answers.wrong_values import find_wrong_value
from assay.data import Document
from assay.data.dataset import Fact

LONG_OPENING = f"{OPENING} Tickets are sold at the kiosk beside the pier, " + (
    "where guests may also leave their bags, rent a pair of field glasses and ask for the next "
    "guided tour, which begins at the foot of the stairs whenever ten people have come together."
)


def test_a_list_in_another_order_is_named_where_an_order_is_asked_for() -> None:
    listed = ("The tower, the pier, the boats.", "tower", "pier", "boats")
    said = {"answer": "The boats, the pier and the tower."}
    asked = "What do we see, in order?"
    assert kinds(case(asked, *listed, **said), correct=True) == ["wrong order"]
    assert kinds(case("What do we see?", *listed, **said), correct=True) == []
    assert kinds(case(asked, *listed, answer="Tower, pier, boats."), correct=True) == []
    steps = "Go on:\n1. Climb the tower.\n2. Walk the pier.\n3. Take the boats.\n"
    numbered = {"a": Document("a", "Round", steps)}
    views = [AnswerView(case("What do we see?", *listed, **said), numbered, correct=True)]
    assert [each.kind for each in findings(*views)] == ["wrong order"]


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("They are open for owners, admins and developers.", True),
        ("Open for:\n\n- owners\n- admins\n- developers", True),
        ("They are open for owners and admins. Developers, guests and others wait.", False),
        ("They are open for owners, admins and keys.", False),  # which was asked for
        ("Owners, admins and, since 2019, 30 developers.", False),
    ],
)
def test_an_item_beside_the_key_facts_is_named(answer: str, named: bool) -> None:
    asked = ("Who can open keys?", "Owners and admins.", "owner", "admin")
    found = kinds(*[case(*asked, answer=answer)] * 2, correct=True)
    assert ("one item more" in found) is named


def test_a_reference_that_does_not_state_its_own_facts_is_named() -> None:
    right = case("What do we see?", "The tower.", "tower", answer="The boats.")
    asked = "When is the fee due?", "On the third working day.", "working day 3"
    wrong = case(*asked, answer="On the third working day.")
    (finding,) = (
        each
        for each in findings(AnswerView(right, {}, correct=False), AnswerView(wrong, {}, False))
        if each.kind == "references without their facts"
    )
    assert finding.words == (
        "1 of 2 reference answers do not state their own key facts, and an answer in the same "
        'words is called wrong, for example "On the third working day." without "working day 3": '
        "list the wording under `accept`"
    )
    judged = findings(AnswerView(right, {}, correct=False), AnswerView(wrong, {}, correct=True))
    assert "references without their facts" not in [each.kind for each in judged]


def test_a_whole_passage_in_place_of_an_answer_is_named() -> None:
    asked = "When is the tower open?", "From Easter.", "Easter"
    shown = {"a": Document("a", "", OPENING), "b": Document("b", "", LONG_OPENING)}

    def found(said: str) -> set[str]:
        views = [AnswerView(case(*asked, answer=said), shown, correct=True)] * 2
        return {each.kind for each in findings(*views)}

    for said in (f"{OPENING}\n\n{LONG_OPENING}", LONG_OPENING):
        assert "whole passages" in found(said)
    # A paragraph may be the answer, and one of them with others around it is not all there is.
    others = f"{LONG_OPENING} Bring solid shoes, a lamp, some water and the ticket from the office."
    for said in (OPENING, others):
        assert "whole passages" not in found(said)


def test_a_few_values_that_a_source_has_otherwise_are_told_where_nothing_else_is() -> None:
    asked, other = (
        case("When?", "From Easter.", "Easter", answer=said, citations=("a",))
        for said in ("It is open from Easter.", "From Easter on.")
    )
    zone = Contradiction(ContradictionKind.NAME, asked.answer or "", OPENING, "EST", "CET")
    right = [AnswerView(other, TOWER, correct=True)]
    (found,) = findings(AnswerView(asked, TOWER, True, contradictions=(zone,)), *right)
    assert (found.kind, found.number) == ("may contradict", 1)
    assert found.words.endswith('for example "EST" where the source has "CET"')
    likely = Contradiction(ContradictionKind.OPPOSITE, asked.answer or "", OPENING, "up", "down")
    assert findings(AnswerView(asked, TOWER, True, contradictions=(likely,)), *right) == []
    wrong = case("When?", "From Easter.", "Easter", answer="From May on.", citations=("a",))
    more = [AnswerView(wrong, TOWER, correct=False, contradictions=(zone,))] * 2
    assert "may contradict" not in {each.kind for each in findings(*more, *right)}


def test_money_stands_for_nothing_else() -> None:
    fact = Fact("50", ("50",))
    said = "The cheapest is the large one ($89)."
    assert find_wrong_value(said, "How many calls?", "50 calls.", [fact], ["50 calls"], []) is None
    other = find_wrong_value("It is 89.", "How many calls?", "50 calls.", [fact], ["50 calls"], [])
    assert other is not None
    assert other.said == "89"


@pytest.mark.parametrize(("text", "foreign"), [("Tower", False), ("Cellar", True)])
def test_a_link_with_the_title_of_a_document_shown_is_known(text: str, foreign: bool) -> None:
    said = f"From Easter on ([{text}](https://wiki.example/x/7fA))."
    asked = case("When?", "From Easter.", "Easter", answer=said)
    assert ("foreign addresses" in kinds(*[asked] * 2, correct=True)) is foreign
