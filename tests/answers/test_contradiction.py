"""Contradictions: what the rules name, what they leave alone, and what the small model adds."""

import json
import random
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.claims import CONTRADICTED, LabeledClaim, contradict, notes_claims
from scripts.train_contradiction import unrelated_claims

from assay.answers.answer_metrics import AnswerCase
from assay.answers.answer_view import AnswerView
from assay.answers.contradiction import rules
from assay.answers.contradiction.model import (
    BUNDLED,
    MODEL_VARIABLE,
    ContradictionModel,
    load_contradiction_model,
    open_contradiction_model,
    pair_features,
)
from assay.answers.contradiction.rules import ContradictionChecker, analyzed_sources
from assay.answers.contradiction.sentence import analyze
from assay.answers.lexical import faithfulness, unsupported
from assay.answers.quantities import Quantity
from assay.data.dataset import ReferenceAnswer
from assay.errors import DataError
from assay.llm.passages import ContextChunk

RULES = ContradictionChecker()


@pytest.mark.parametrize(
    ("answer", "source", "kind", "said", "theirs"),
    [
        ("The boiler was not replaced in May.", "The boiler was replaced in May.",
         "negation", "not replaced", "replaced"),
        ("The boiler was replaced in May.", "The boiler wasn't replaced in May.",
         "negation", "replaced", "wasn't replaced"),
        ("Coffee lowers blood pressure in adults.", "Coffee raises blood pressure in adults.",
         "opposite", "lowers", "raises"),
        ("The committee rejected the new budget.", "The committee accepted the new budget.",
         "opposite", "rejected", "accepted"),
        ("The dough rests for 40 minutes in the fridge.",
         "The dough rests for 25 minutes in the fridge.", "number", "40", "25"),
        ("The dough rests for forty minutes in the fridge.",
         "The dough rests for 25 minutes in the fridge.", "number", "40", "25"),
        ("The dough rests for 25 hours in the fridge.",
         "The dough rests for 25 minutes in the fridge.", "unit", "25 h", "25 min"),
        ("The repair costs 80 dollars per window.", "The repair costs €80 per window.",
         "unit", "80 usd", "80 eur"),
        ("The audit was signed by Martin on the first floor.",
         "The audit was signed by Johanna on the first floor.", "name", "Martin", "Johanna"),
        ("Before the final, Spain defeated Italy.", "Before the final, Italy defeated Spain.",
         "roles", "Spain … Italy", "Italy … Spain"),
        ("A stamp costs 90 euros here.", "A stamp costs 90 cents here.", "unit", "90 eur", "90 ct"),
        ("The crate weighs 40 pounds.", "The crate weighs 40 kg.", "unit", "40 pound", "40 kg"),
        ("Guests may bring at least 3 dogs.", "Guests may bring up to 3 dogs.",
         "opposite", "least", "most"),
        ("The plan costs $19 per year.", "The plan costs $19 per month.",
         "unit", "$19 per year", "$19 per month"),
        ("The app needs a newer phone.", "The app needs an older phone.",
         "opposite", "newer", "older"),
        ("The choir is led by Ines Roth.", "The choir is led by Paul Amsel.",
         "name", "Ines", "Paul"),
        ("The mill burned down in 1911.", "The mill burned down in 1912.",
         "number", "1911", "1912"),
    ],
)  # fmt: skip
def test_a_rule_names_what_differs(
    answer: str, source: str, kind: str, said: str, theirs: str
) -> None:
    (found,) = RULES.find(answer, [source])
    assert (found.kind.value, found.said, found.source) == (kind, said, theirs)
    assert (found.sentence, found.evidence) == (answer, source)


@pytest.mark.parametrize(
    ("answer", "source"),
    [
        # the same in other words
        ("The dough rests for three hours.", "The dough rests for 3 h in the fridge."),
        ("It isn't true that the boiler failed.", "Boiler: it is not true that it failed."),
        ("Coffee does not lower blood pressure.", "Coffee does not lower men's blood pressure."),
        # an opposite and a negation cancel
        ("The committee did not reject the new budget.", "The committee accepted the new budget."),
        # the negation is about something else
        ("Take two tablets every day.", "Take two tablets every day, not with coffee."),
        # it ends before what it is about is said
        ("They are not: children pay nothing.", "Children pay nothing."),
        ("Short answer: No, dogs may not swim in the pool.", "Dogs may not swim in the pool."),
        # a question states nothing
        ("Are star maps lent to members?", "Star maps are not lent to members."),
        # another number of another thing
        ("The team has 12 members.", "The team met 3 times, and its members are 12."),
        ("As of February 2026 Tilda wears size 37.", "Sizes Feb 26: Tilda wears size 37."),
        # another sentence of the source says it
        ("The boiler was replaced in May.",
         "The boiler was not replaced in April. The boiler was replaced in May."),
        ("Guests may bring no more than 3 dogs.", "Guests may bring up to 3 dogs."),
        ("The choir was founded in 1911.", "In 1912 the choir, founded in 1911, sang."),
        ("Call the office; dogs cannot be removed.",
         "To remove dogs, call the office. Small dogs cannot be removed."),
        # both negate, each in its words
        ("A test key does not send any mail.", "A test key sends no mail."),
        # a negation that ends before "and"
        ("Small berths include water.", "Small berths cost nothing and include water."),
        # a title below, and a word without meaning in the place of a name
        ("The boiler was replaced in May.\n\nSources:\n- Boiler 12, replaced in May",
         "The boiler 7 was replaced in May."),
        ('She says: "An hour in the hall costs more."',
         "She says it. Each hour in the hall costs more."),
        # about something else
        ("Whales migrate north in spring.", "The boiler was not replaced in May."),
        ("Everything fine.", ""),
    ],
)  # fmt: skip
def test_no_rule_speaks_where_nothing_is_denied(answer: str, source: str) -> None:
    assert RULES.find(answer, [source]) == []


def test_what_a_source_says_word_for_word_is_not_contradicted() -> None:
    suspicious = ContradictionChecker(replace(open_contradiction_model(), threshold=0.0))
    source = "The hall opens at nine. Bring soap."
    assert suspicious.find("The hall opens at nine.", [source]) == []
    assert suspicious.find("The hall opens then at nine.", [source])


def test_citation_markers_are_no_numbers() -> None:
    assert (
        RULES.find("The dough rests for 25 minutes [7].", ["The dough rests for 25 minutes."]) == []
    )


@pytest.mark.parametrize(
    ("text", "quantities"),
    [
        ("3.0 kg and 1,200 g", [Quantity("3", "kg"), Quantity("1200", "g")]),
        ("twenty-one days, two hundred euros", [Quantity("21", "day"), Quantity("200", "eur")]),
        ("one of them in B12 for 2 hours", [Quantity("2", "h")]),
        ("at 17:00 for $5", [Quantity("17:00", ""), Quantity("5", "usd")]),
        ("£84 of 2.5 million pounds", [Quantity("84", "pound"), Quantity("2500000", "pound")]),
        ("12% of all", [Quantity("12", "%")]),
    ],
)
def test_quantities_are_read_with_their_units(text: str, quantities: list[Quantity]) -> None:
    assert list(analyze(text).quantities) == quantities


def test_a_contradicted_sentence_is_not_faithful() -> None:
    source = "The boiler was replaced in May. It cost 900 euros."
    answer = "The boiler was not replaced in May. It cost 900 euros."
    assert faithfulness(answer, [source]) == 0.5
    assert unsupported(answer, [source]) == ["The boiler was not replaced in May."]


@pytest.fixture(scope="module")
def notes() -> list[LabeledClaim]:
    return notes_claims()


def test_rules_accuse_few_true_sentences_of_the_notes(notes: list[LabeledClaim]) -> None:
    true = {each.claim: each for each in notes if each.supported}
    accused = [claim for claim, each in true.items() if RULES.find(claim, each.sources)]
    assert len(accused) <= 0.02 * len(true), accused


def test_the_model_finds_more_than_the_rules(notes: list[LabeledClaim]) -> None:
    """Not on unseen data: that is measured by benchmarks/contradiction.py."""
    both = ContradictionChecker(load_contradiction_model(BUNDLED))
    wrong = [each for each in notes if each.label == CONTRADICTED]
    by_rules = sum(bool(RULES.find(each.claim, each.sources)) for each in wrong)
    by_both = sum(bool(both.find(each.claim, each.sources)) for each in wrong)
    assert 0.15 * len(wrong) < by_rules < by_both


def test_every_made_pair_differs_and_negations_go_both_ways(notes: list[LabeledClaim]) -> None:
    pairs = list(zip(notes[::2], notes[1::2], strict=True))
    assert all(true.claim != false.claim for true, false in pairs)
    assert {each.kind for each in notes} == {"negation", "opposite", "number", "unit", "name"}
    rng = random.Random(0)
    assert contradict("It does not rise.", rng, ("negation",)) == ("It rises.", "negation")
    assert contradict("It rises.", rng, ("negation",)) == ("It does not rise.", "negation")
    assert contradict("Hello there", rng) is None


def test_the_bundled_model_is_what_the_script_builds(notes: list[LabeledClaim]) -> None:
    from scripts.train_contradiction import build

    built, stored = build(notes, "notes", trees=False), json.loads(BUNDLED.read_bytes())
    assert built["features"] == stored["features"]
    np.testing.assert_allclose(built["weights"], stored["weights"], atol=1e-4)
    assert built["threshold"] == pytest.approx(stored["threshold"], abs=1e-3)


def test_trees_decide_as_the_library_that_trained_them(notes: list[LabeledClaim]) -> None:
    import lightgbm
    from scripts.train_contradiction import ROUNDS, TREES, fit_trees, table

    from assay.answers.contradiction.model import parse_model

    names, features, labels = table(notes[:200])
    value = {"name": "t", "features": names, "bias": 0, "weights": [], "threshold": 0.5}
    model = parse_model({**value, "trees": fit_trees(features, labels)})
    booster = lightgbm.train(TREES, lightgbm.Dataset(features, labels), ROUNDS)
    ours = [
        model.probability(pair_features(analyze(each.claim), analyzed_sources(each.sources)))
        for each in notes[:20]
    ]
    np.testing.assert_allclose(ours, booster.predict(features[:20]), atol=1e-3)


def test_another_model_is_named_by_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = json.loads(BUNDLED.read_bytes()) | {"name": "mine", "threshold": 0.0}
    (tmp_path / "mine.json").write_text(json.dumps(value))
    monkeypatch.setenv(MODEL_VARIABLE, str(tmp_path / "mine.json"))
    checker = ContradictionChecker(open_contradiction_model())
    assert checker.name == "rules, then the model mine"
    (found,) = checker.find("Tea is green.", ["Tea grows on green hills."])
    assert (found.kind.value, found.evidence) == ("likely", "Tea grows on green hills.")


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "{}",
        '{"name": "x", "features": ["a"], "threshold": 1, "bias": 0, "weights": [], "trees": [{'
        '"feature": [0], "threshold": [1], "left": [0], "right": [-1], "leaf": [1]}]}',
    ],
)
def test_a_damaged_model_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(DataError, match="is not a contradiction model"):
        load_contradiction_model(path)


def test_without_sources_nothing_is_contradicted() -> None:
    model = ContradictionModel("all", (), threshold=0.0)
    assert ContradictionChecker(model).find("Tea is green.", [])[:1] == []


def test_a_sentence_about_something_else_is_not_contradicted(notes: list[LabeledClaim]) -> None:
    """The model knows supported and contradicted sentences, and calls most others contradicted."""
    checker = ContradictionChecker(load_contradiction_model(BUNDLED))
    unrelated = unrelated_claims(notes)[:100]
    assert [each.claim for each in unrelated if checker.find(each.claim, each.sources)] == []


@pytest.mark.parametrize("word", ["tea ", "tea, ", "for ", "go to tea for "])
def test_an_answer_of_one_long_sentence_takes_linear_time(word: str) -> None:
    """Of this thread's processor time: 4 is linear, 16 is quadratic."""
    taken = []
    for words in (10_000, 40_000):
        began = time.thread_time()
        unsupported(word * (words // len(word.split())), ["Tea is good for 3 people."])
        taken.append(time.thread_time() - began)
    assert taken[1] < 8 * taken[0]


@pytest.mark.parametrize(("more", "found"), [(0, 1), (1, 0)])
def test_sentences_and_sources_are_compared_up_to_a_number_of_pairs(
    monkeypatch: pytest.MonkeyPatch, more: int, found: int
) -> None:
    monkeypatch.setattr(rules, "MAX_PAIRS", 10)
    said = ["The museum opens at 9 today.", *["Cats are grey."] * 4]
    sources = [*["Dogs bark."] * (1 + more), "The museum opens at 10 today."]
    assert len(ContradictionChecker().find(" ".join(said), sources)) == found
    case = AnswerCase("1", "q", ReferenceAnswer("1", "a"), answer=" ".join(said))
    shown = [*sources[:-1], "The museum does not open at 9 today."]
    view = AnswerView(replace(case, contexts=tuple(map(ContextChunk, shown))), {})
    monkeypatch.setattr("assay.answers.answer_view.MAX_PAIRS", 10)
    assert view.reverses_its_source is bool(found)
