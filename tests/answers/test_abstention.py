"""Answers that decline, and those that only contain a no."""

import pytest

from assay.answers.abstention import abstained, declined


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
