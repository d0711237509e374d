"""The checks of lists: key facts in another order, and an item that is none of them."""

import re
from collections.abc import Iterator

from assay.measure.answers.answer_view import AnswerCheck, AnswerView, example
from assay.measure.answers.form_checks import answered
from assay.measure.answers.lexical import contains_any, fact_places
from assay.text import is_stop, normalize, stems, words

_IN_ORDER = re.compile(
    r"\bin (?:\w+ ){0,2}order\b|\border of\b|\bsequence|\b(?:steps|stages|phases)\b|\bchronolog|"
    r"\breihenfolge\b|\bnacheinander\b",
    re.IGNORECASE,
)
_STEPS = re.compile(r"^\s{0,8}1[.)] .*\n(?:.*\n){0,3}?\s{0,8}2[.)] ", re.MULTILINE)
_LISTED = 3
# "Monday, Tuesday and Friday", of one or two words each; and a line of a list.
_ITEM = r"[^\W\d_][\w'’-]{0,40}+(?: [A-ZÀ-Þ][\w'’-]{0,40}+)?"
_ENUMERATION = re.compile(
    rf"(?<![\w'’-]){_ITEM}(?:, {_ITEM}){{1,12}},? (?:and|or|und|oder|et|ou|y|o|e) {_ITEM}"
)
_BETWEEN = re.compile(r",? (?:and|or|und|oder|et|ou|y|o|e) |, ")
_BULLET = re.compile(
    r"^[ \t]{0,8}(?:[-*•]|\d{1,2}[.)])[ \t]{1,8}([^\s.:!?;,][^.:!?;,\n]{1,40})$", re.MULTILINE
)
_ITEM_WORDS = 3


def _in_order(view: AnswerView) -> bool:
    """Whether the question asks for an order or the needed text numbers its steps, and the
    reference has the key facts in one.
    """
    facts = view.case.reference.facts
    places = fact_places(view.case.reference.answer or "", facts)
    if not answered(view) or len(places) < _LISTED or places != sorted(set(places)):
        return False
    if _IN_ORDER.search(view.case.question):
        return True
    needed = (view.documents[each].text for each in view.case.needed if each in view.documents)
    steps = (fact_places(each, facts) for each in needed if _STEPS.search(each))
    return any(len(each) >= _LISTED and each == sorted(set(each)) for each in steps)


def _is_out_of_order(view: AnswerView) -> bool:
    places = fact_places(view.text, view.case.reference.facts)
    return len(places) >= _LISTED and places != sorted(places)


def _lists(text: str) -> Iterator[list[str]]:
    """The lists of a text, in a sentence or line by line."""
    yield from (_BETWEEN.split(each[0]) for each in _ENUMERATION.finditer(text))
    yield [each.strip() for each in _BULLET.findall(text)]


def _one_more(view: AnswerView) -> str:
    """An item of a list with two key facts or more that is none, and that neither the question nor
    the reference has.
    """
    facts = view.case.reference.facts
    known = {*stems(view.case.question), *view.reference_stems}
    known |= {each for fact in facts for wording in fact.accept for each in stems(wording)}
    for items in _lists(view.text):
        held = [any(contains_any(each, fact.accept) for fact in facts) for each in items]
        for item, is_fact in zip(items, held, strict=True):
            said = [each for each in words(item) if not is_stop(each)]
            short = 0 < len(said) <= _ITEM_WORDS and not any(map(str.isdigit, item))
            if sum(held) > 1 and not is_fact and short and known.isdisjoint(stems(item)):
                return f"{item} in {normalize(', '.join(items))}"
    return ""


LIST_CHECKS = (
    AnswerCheck(
        "wrong order",
        "list the key facts in another order than the reference, where an order is asked for or "
        "the source numbers its steps",
        _in_order,
        _is_out_of_order,
        fewest=1,
        detail=example(lambda view: view.text),
    ),
    AnswerCheck(
        "one item more",
        "list an item more than expected beside the key facts",
        lambda view: answered(view) and len(view.case.reference.facts) > 1,
        lambda view: bool(_one_more(view)),
        detail=example(_one_more),
        explained_by=("padded", "whole passages", "answers other questions", "raw format"),
    ),
)
