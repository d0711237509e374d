"""`assay data questions`: every kind, its proof, and the data set that comes out."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.llm_providers.model_server import ModelServer
from tests.questions.test_questions_command import questions

from assay.answers.lexical import states
from assay.data import Document, load_dataset
from assay.data.dataset import Fact
from assay.errors import DataError, UsageError
from assay.labels.questions.made_questions import (
    MadeQuestion,
    MadeQuestions,
    QuestionKind,
    Quote,
    Rejection,
    parse_question_kinds,
)
from assay.labels.questions.making import QuestionChecks, make_questions
from assay.labels.questions.source_documents import mentions_unit, read_sentence
from assay.labels.questions.templates import TemplateQuestions
from assay.labels.questions.writers import ClozeWriter, SeenQuestions
from assay.search.bm25_index import Bm25Index
from assay.text import stems

NOTES = load_dataset("notes")
TEMPLATES = [each for each in QuestionKind if each is not QuestionKind.PARAPHRASED]


async def made_of(
    documents: dict[str, Document], *kinds: QuestionKind, number: int = 20, seed: int = 42
) -> MadeQuestions:
    return await make_questions(
        documents,
        kinds,
        number,
        writers={QuestionKind.SINGLE_HOP: ClozeWriter()},
        states=states,
        seed=seed,
    )


async def test_every_template_kind_is_made_from_the_notes_and_proven() -> None:
    made = await made_of(dict(NOTES.documents), *TEMPLATES, number=90)
    assert {kind: made.count(kind) for kind in TEMPLATES} == dict.fromkeys(TEMPLATES, 15)
    for each in made.questions:
        for quote in each.quotes:
            assert (
                quote.text
                in f"{NOTES.documents[quote.document_id].title}\n"
                + " ".join(NOTES.documents[quote.document_id].text.split())
                or quote.text in NOTES.documents[quote.document_id].text
            )
        for fact in each.facts:
            assert any(states(quote.text, fact) for quote in each.quotes)
            assert states(each.answer or "", fact)
            assert not states(each.text, fact)
    texts = [frozenset(stems(each.text)) for each in made.questions]
    assert len(set(texts)) == len(texts)


async def test_the_seed_decides_whatever_the_order_of_the_documents() -> None:
    upside_down = dict(reversed(list(NOTES.documents.items())))
    first = await made_of(dict(NOTES.documents), *TEMPLATES, number=18, seed=1)
    assert first.questions == (await made_of(upside_down, *TEMPLATES, number=18, seed=1)).questions
    other = await made_of(dict(NOTES.documents), *TEMPLATES, number=18, seed=2)
    assert first.questions != other.questions


async def test_a_multi_hop_question_takes_both_documents() -> None:
    made = await made_of(dict(NOTES.documents), QuestionKind.MULTI_HOP)
    assert len(made.questions) == 20
    for each in made.questions:
        target, source = each.quotes
        assert target.document_id != source.document_id
        (wording,) = each.facts[0].accept
        assert wording not in NOTES.documents[source.document_id].full_text
        asked, said = set(stems(each.text)), set(stems(target.text)) - set(stems(source.text))
        unit = set(stems(wording))
        titles = set(stems(NOTES.documents[source.document_id].title))
        assert not (asked & said) - unit - titles - set(stems("document name state many miss"))


async def test_comparisons_and_dates_are_decided_rightly() -> None:
    kinds = (QuestionKind.COMPARISON, QuestionKind.TEMPORAL)
    made = await made_of(dict(NOTES.documents), *kinds, number=40)
    for each in made.questions:
        best, other = (
            read_sentence(NOTES.documents[quote.document_id], quote.text) for quote in each.quotes
        )
        assert best.document_id != other.document_id
        if each.kind is QuestionKind.COMPARISON:
            assert best.quantities[0].unit == other.quantities[0].unit
            assert best.quantities[0].value > other.quantities[0].value
        else:
            assert best.dates[0][1] < other.dates[0][1]


async def test_an_unanswerable_question_says_what_was_changed_and_no_document_says_it() -> None:
    made = await made_of(dict(NOTES.documents), QuestionKind.UNANSWERABLE)
    assert len(made.questions) == 20
    swapped = [each for each in made.questions if each.how == "template swapped name"]
    assert len(swapped) == 10
    for each in made.questions:
        assert (each.documents, each.answer, each.facts) == ((), None, ())
    for each in swapped:
        before, _, after = each.changed.partition(" -> ")
        assert before in each.quotes[0].text
        gap = each.text.removeprefix("Fill the gap: ")
        assert after in gap
        assert not any(gap.replace("____", "") in doc.text for doc in NOTES.documents.values())


def test_notes_give_hundreds_of_unanswerable_questions_that_nothing_answers() -> None:
    index = Bm25Index(NOTES.documents.values())
    checks = QuestionChecks(NOTES.documents, index, states)
    drawn = TemplateQuestions(NOTES.documents, index, 42).of_kind(QuestionKind.UNANSWERABLE)
    made = [each for each in drawn if checks.rejection(each) is None]
    assert len(made) >= 300
    absent = [each for each in made if each.how == "template absent unit"]
    assert len(absent) >= 100
    words = [(doc, set(stems(doc.full_text))) for doc in NOTES.documents.values()]
    for each in absent:  # not by the index and the checks that made them
        unit = each.text.split()[2]
        title = re.search("“(.+)”", each.text)
        assert title is not None
        about = [doc for doc, said in words if set(stems(title[1])) <= said]
        assert about
        word = {"percent": "%|percent", "euros": "€|euro|eur"}.get(unit, re.escape(unit))
        number = re.compile(rf"\d ?(?:{word})s?\b", re.IGNORECASE)
        assert not any(number.search(doc.full_text) for doc in about), each.text


@pytest.mark.parametrize(
    ("text", "unit", "mentioned"),
    [
        ("It costs 5 €.", "euros", True),
        ("Two euros each.", "euros", True),
        ("80 Cents a piece", "euros", True),
        ("a drop of 5%", "%", True),
        ("The tour takes 3 hrs.", "h", True),
        ("The European union", "euros", False),
        ("Emma met him", "m", False),
    ],
)
def test_a_unit_is_mentioned_in_any_spelling(text: str, unit: str, mentioned: bool) -> None:
    assert mentions_unit(Document("d", "", text), unit) is mentioned


def test_a_unit_that_another_document_of_the_title_has_is_not_asked_for() -> None:
    documents = {
        "a": Document("a", "Boat trip north", "The boat trip north begins at the pier of Anna."),
        "b": Document("b", "Prices", "The boat trip north costs 20 euros. The bus costs 3 euros."),
        "c": Document("c", "Garden fence", "The garden fence is green, and 3 km long or 4 km."),
    }
    drawn = TemplateQuestions(documents, Bm25Index(documents.values()), 1)
    asked = [each.text for each in drawn.of_kind(QuestionKind.UNANSWERABLE)]
    assert "How many euros does the document “Garden fence” state?" in asked
    assert "How many km does the document “Boat trip north” state?" in asked
    assert not any("euros" in each and "Boat" in each for each in asked)


def test_a_question_that_a_document_answers_after_all_is_rejected() -> None:
    documents = {
        "a": Document("a", "Lease", "The lease of Tomek stays at 186 euros per year."),
        "b": Document("b", "Lease", "The lease of Judith stays at 90 euros per year."),
    }
    checks = QuestionChecks(documents, Bm25Index(documents.values()), states)
    question = MadeQuestion(
        QuestionKind.UNANSWERABLE,
        "Fill the gap: The lease of Judith stays at ____ per year.",
        (),
        (Quote("a", documents["a"].text),),
        changed="Tomek -> Judith",
    )
    assert checks.rejection(question) is Rejection.ANSWERED


@pytest.mark.parametrize(
    "changes",
    [
        {"quotes": (Quote("a", "The lease is 99 euros."),)},
        {"facts": (Fact("The lease is 99.", ("99 euros",)),)},
        {"answer": "It is a lot."},
    ],
)
def test_an_answer_that_is_not_in_the_documents_is_rejected(changes: dict[str, Any]) -> None:
    documents = {"a": Document("a", "Lease", "The lease stays at 186 euros per year.")}
    good = {
        "quotes": (Quote("a", documents["a"].text),),
        "answer": documents["a"].text,
        "facts": (Fact("The lease", ("186 euros",)),),
    }

    def rejection(fields: dict[str, Any], text: str = "Fill the gap: ____") -> Rejection | None:
        checks = QuestionChecks(documents, Bm25Index(documents.values()), states)
        question = MadeQuestion(QuestionKind.SINGLE_HOP, text, ("a",), **fields)
        return checks.rejection(question)

    assert rejection(good) is None
    told = "Is the lease 186 euros?"
    assert rejection(good, told) is Rejection.GIVEN_AWAY
    assert rejection(good | changes) is Rejection.UNPROVEN


async def test_known_items_are_titles_and_distinctive_sentences() -> None:
    made = await made_of(dict(NOTES.documents), QuestionKind.KNOWN_ITEM, number=60)
    ways = {each.how for each in made.questions}
    assert ways == {"template title", "template sentence"}
    index = Bm25Index(NOTES.documents.values())
    found = [index.search(each.text, 5) for each in made.questions]
    hits = [
        any(doc_id in each.documents for doc_id, _ in hits)
        for each, hits in zip(made.questions, found, strict=True)
    ]
    assert sum(hits) >= 58


async def test_documents_that_bm25_cannot_tell_apart_are_flagged() -> None:
    text = "The boiler of the clubhouse burned 1240 kg of oil last winter."
    documents = {
        "a": Document("a", "", text),
        "b": Document("b", "", f"{text} Twice."),
        "c": Document("c", "", "Judith sings in the choir of the old church on 3 May 2026."),
    }
    made = await made_of(documents, QuestionKind.KNOWN_ITEM)
    flags = {each.documents[0]: each.ambiguous for each in made.questions}
    assert flags == {"c": False, **{each: True for each in flags if each in "ab"}}
    assert len(flags) == 2  # the other copy is nearly the same question


async def test_one_title_on_two_documents_expects_both() -> None:
    documents = {
        key: Document(key, "Minutes of the choir", f"We met at {key}.") for key in ("a", "b")
    }
    made = await made_of(documents, QuestionKind.KNOWN_ITEM)
    (question,) = made.questions
    assert set(question.documents) == {"a", "b"}


@pytest.mark.parametrize("documents", [{}, {"a": Document("a", "", "")}])
async def test_nothing_to_ask_about_is_told(documents: dict[str, Document]) -> None:
    if not documents:
        with pytest.raises(UsageError, match="nothing to ask about"):
            await made_of(documents, *TEMPLATES)
    else:
        assert (await made_of(documents, *TEMPLATES)).questions == []


async def test_one_document_gives_what_one_document_can() -> None:
    text = "The lease of the garden plot stays at 186 euros per year until 3 May 2027, says Tomek."
    made = await made_of({"a": Document("a", "The garden plot", text)}, *TEMPLATES)
    assert {each.kind for each in made.questions} == {
        QuestionKind.KNOWN_ITEM,
        QuestionKind.SINGLE_HOP,
    }


def test_kinds_are_spelled_freely_and_default_to_what_can_be_made() -> None:
    assert parse_question_kinds(["Multi_Hop,temporal", "temporal"], model=False) == (
        QuestionKind.MULTI_HOP,
        QuestionKind.TEMPORAL,
    )
    assert QuestionKind.PARAPHRASED in parse_question_kinds((), model=True)
    assert QuestionKind.PARAPHRASED not in parse_question_kinds((), model=False)


def test_nearly_the_same_question_is_found_among_many() -> None:
    seen = SeenQuestions([f"What did note {place} say about harbor {place}?" for place in range(9)])
    assert seen.has("what did note 3 say about the harbor 3")
    assert not seen.has("Who waters the beans of the allotment in August?")
    seen.add("Who waters the beans of the allotment in August?")
    assert seen.has("Who waters the beans of the allotment in August, then?")
    assert not seen.has("Who waters the roses of the cemetery in winter?")


WRITTEN = {
    "question": "By how much did tea lower the blood pressure of forty adults?",
    "answer": "By 3 mmHg.",
    "facts": [
        {
            "text": "3 mmHg",
            "accept": ["3 mmHg"],
            "quote": "Tea lowered their blood pressure by 3 mmHg",
        }
    ],
}


def _model(reworded: str) -> Callable[[str], str]:
    def reply(prompt: str) -> str:
        if "Write one question" in prompt:
            return json.dumps(WRITTEN)
        if "in other words" in prompt:
            return reworded
        return "It fell by 3 mmHg. [1]" if "<document number" in prompt else "NOT FOUND"

    return reply


@pytest.mark.parametrize(
    ("reworded", "made"),
    [
        ("What was the drop in mmHg for adults who drank tea?", True),
        ("By how much did tea lower the blood pressure of 40 adults?", False),
        ("", False),
    ],
)
def test_a_paraphrase_has_other_words_and_the_same_answer(
    reworded: str, made: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("docs").mkdir()
    text = "Forty adults drank tea for a year. Tea lowered their blood pressure by 3 mmHg."
    Path("docs/tea.md").write_text(text)
    with ModelServer().running() as server:
        server.reply = _model(reworded)
        monkeypatch.setenv("RAG_EVAL_OPENAI_API_KEY", "key")
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        spec = f"openai:small@{server.url}/v1"
        arguments = ("docs", "--kinds", "paraphrased", "--count", 1, "--provider", spec)
        if not made:
            with pytest.raises(DataError, match="nothing was written"):
                questions(*arguments, "--out", "new")
            return
        questions(*arguments, "--out", "new")
    dataset = load_dataset("new")
    (query,) = dataset.queries.values()
    assert query.text == reworded
    assert {"kind=paraphrased", "written by a model"} <= set(query.tags)
    assert dataset.answers[query.id].answer == "By 3 mmHg."


@pytest.mark.skipif("ASSAY_GGUF_MODEL" not in os.environ, reason="ASSAY_GGUF_MODEL is not set")
def test_a_small_local_model_is_asked_and_what_it_cannot_prove_is_not_kept() -> None:
    Path("docs").mkdir()
    text = "The lease of the plot of Tomek stays at 310 euros until 3 May 2026."
    Path("docs/lease.md").write_text(f"# Lease of Tomek\n\n{text}")
    summary = questions(
        "docs", "--count", 2, "--kinds", "known-item,single-hop", "--provider", "gguf",
        "--out", "new",
    )  # fmt: skip
    assert summary["kinds"]["known-item"] == 1
    assert summary["spending"]["calls"] >= 1
    assert summary["questions"] + sum(summary["dropped"].values()) == summary["drafted"] == 2


SOURCE = "Last autumn the shed behind the clubhouse was painted by Judith and her brother."
TARGET = "From the jumble sale in spring Judith brought home 48 kg of old harbor maps."


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ("Nothing else was heard of it all that year.", True),
        ("At the weekend market Judith sold 12 kg of plums to the baker.", False),
        ("At the weekend market Judith sold 12 jars of plums to the baker.", True),
    ],
)
async def test_a_hop_that_leads_to_two_answers_is_not_asked(more: str, asked: bool) -> None:
    texts = (SOURCE, TARGET, more)
    documents = {f"d{n}": Document(f"d{n}", "", text) for n, text in enumerate(texts)}
    made = await made_of(documents, QuestionKind.MULTI_HOP)
    answers = [each.facts[0].accept for each in made.questions]
    assert answers == ([("48 kg",)] if asked else [])


async def test_a_hop_whose_first_document_has_the_answer_is_not_asked() -> None:
    documents = {
        "a": Document("a", "", f"{SOURCE} They weighed 48 kg together with the paint."),
        "b": Document("b", "", TARGET),
    }
    assert (await made_of(documents, QuestionKind.MULTI_HOP)).questions == []
    documents["a"] = Document("a", "", SOURCE)
    assert len((await made_of(documents, QuestionKind.MULTI_HOP)).questions) == 1


async def test_what_is_said_of_another_name_in_nearly_the_same_words_is_not_unanswerable() -> None:
    """The other document has not all words of the question, so that only the template can tell."""
    one = "For the garden plot near the river old Tomek pays a lease of 186 euros per year."
    two = "For the garden plot near the church old Judith pays a lease of 90 euros per year."
    documents = {"a": Document("a", "", one), "b": Document("b", "", two)}
    assert (await made_of(documents, QuestionKind.UNANSWERABLE)).questions == []
    documents["b"] = Document(
        "b", "", "At the market in spring old Judith sells 90 pieces of soap."
    )
    made = await made_of(documents, QuestionKind.UNANSWERABLE)
    assert {each.changed for each in made.questions} == {"Tomek -> Judith", "Judith -> Tomek"}
