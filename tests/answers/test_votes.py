"""What is a vote of a judge, and what votes make of an answer."""

import pytest

from assay.answers.judge import (
    Judgment,
    Vote,
    correctness_values,
    flip_rate,
    parse_vote,
    parse_word,
)

T, F, U, R = Vote.TRUE, Vote.FALSE, Vote.UNPARSEABLE, Vote.REFUSED


@pytest.mark.parametrize(
    ("reply", "vote"),
    [
        ("TRUE", T),
        ("TRUE.", T),
        (" true\n", T),
        ("**False**", F),
        ('"FALSE"', F),
        ("Answer: TRUE", T),
        ("**Verdict:** FALSE.", F),
        ("<think>Could be FALSE, hm.</think>\n\nTRUE", T),
        ("", U),
        ("   \n", U),
        ("not true", U),
        ("NOT TRUE.", U),
        ("TRUE or FALSE", U),
        ("TRUE FALSE", U),
        ("UNTRUE", U),
        ("TRUE, except for the date", U),
        ("TRUE\n\nBoth answers name the same day.", U),
        ("The answers convey the same facts, so the verdict is TRUE.", U),
        ("It would be wrong to say TRUE here; the dates differ.", U),
        ("yes", U),
        ("1", U),
        ("T", U),
        ("<think>TRUE", U),
        ("ＴＲＵＥ", U),
    ],
)
def test_a_reply_is_a_verdict_only_if_it_is_nothing_else(reply: str, vote: Vote) -> None:
    assert parse_vote(reply) is vote


def test_other_questions_have_other_words() -> None:
    assert parse_word("Stated.", ("STATED", "ABSENT")) == "STATED"
    assert parse_word("TRUE", ("STATED", "ABSENT")) is None


@pytest.mark.parametrize(
    ("votes", "verdict", "flipped"),
    [
        ((T,), True, False),
        ((U,), None, False),
        ((T, F), None, True),
        ((T, T, F), True, True),
        ((F, U, F), False, False),
        ((T, U, U), None, False),
        ((T, R), None, False),
        ((T, T, F, U, F), None, True),
    ],
)
def test_a_verdict_needs_more_than_half_of_all_votes(
    votes: tuple[Vote, ...], verdict: bool | None, flipped: bool
) -> None:
    judgment = Judgment(votes)
    assert (judgment.verdict, judgment.flipped) == (verdict, flipped)


def test_the_flip_rate_is_the_share_of_repeated_questions_with_both_verdicts() -> None:
    judgments = [Judgment((T, F, T)), Judgment((T, T, T)), Judgment((F,)), Judgment((T, U, T))]
    assert flip_rate(judgments) == pytest.approx(1 / 3)
    assert flip_rate([Judgment((T,))]) is None
    assert flip_rate([]) is None


def test_an_undecided_judge_makes_no_answer_right() -> None:
    judgments = [Judgment((T,)), Judgment((U,)), Judgment((F,)), Judgment((T, F))]
    assert correctness_values(judgments).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert [each.unparseable for each in judgments] == [0, 1, 0, 0]
