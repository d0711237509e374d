"""Finding checks against the reference: missing key facts, wrong values, lists, declining."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from assay.answers.abstention import abstained
from assay.answers.answer_view import AnswerCheck, AnswerView, example, in_quotes
from assay.answers.assertion import is_negative
from assay.answers.form_checks import answered, asked
from assay.answers.lexical import contains_any, fact_places, yes_or_no
from assay.answers.quantities import numbers
from assay.answers.wrong_values import ValueKind
from assay.text import is_stop, normalize, stems, words

_BEGINNING = 8
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


def _wrong(view: AnswerView) -> bool:
    """Known to be wrong although everything was shown that is needed: no matter of retrieval, as
    far as anybody knows.
    """
    evidence = view.evidence or not view.case.needed
    return answered(view) and view.correct is False and evidence


def _gives_another(kind: ValueKind) -> Callable[[AnswerView], bool]:
    return lambda view: view.wrong_value is not None and view.wrong_value.kind is kind


def _values(hit: Sequence[AnswerView]) -> str:
    """The first value with what was expected, and where the values come from."""
    found = [value for view in hit if (value := view.wrong_value)]
    origins = Counter(value.origin for value in found if value.origin).most_common()
    where = ", ".join(f"{number} {origin}" for origin, number in origins)
    first = f' (for example "{found[0].said}" for "{found[0].expected}")'
    return f"{first}: {where}" if where else first


def _unstated(hit: Sequence[AnswerView]) -> str:
    """What the first answer says, and the first key fact that it does not."""
    view = hit[0]
    return f', for example {in_quotes(view.text)} without "{view.unstated[0].text}"'


def _says_yes_for_no(view: AnswerView) -> bool:
    """Yes where the reference says no or the other way round; or the question's own words without a
    negation, where the reference begins with one: a false premise that is taken for true.
    """
    said, expected = normalize(view.text), normalize(view.case.reference.answer or "")
    if {yes_or_no(view.text), yes_or_no(view.case.reference.answer or "")} == {"yes", "no"}:
        return True
    first = " ".join(expected.split()[:_BEGINNING])
    asked = set(stems(view.case.question))
    about = 2 * len(asked & set(stems(said))) >= len(asked) > 0
    return about and is_negative(first) and not is_negative(f"{said} {view.case.question.lower()}")


def _beside_the_reference(hit: Sequence[AnswerView]) -> str:
    view = hit[0]
    expected = in_quotes(view.case.reference.answer or "")
    return f", for example {in_quotes(view.text)} for {expected}"


def _gives_no_number(view: AnswerView) -> bool:
    """No key fact and no number at all, where a key fact is one and the answer has the words of it
    or of the reference around it.
    """
    if view.stated or numbers(view.text):
        return False
    around = {each for each in stems(view.case.reference.answer or "") if not each[0].isdigit()}
    facts = view.case.reference.facts
    expected = any(fact.accept and all(map(numbers, fact.accept)) for fact in facts)
    return expected and 2 * len(around & set(stems(view.text))) >= len(around)


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


_OTHERWISE_WRONG = (
    *("breaks off", "hedges", "denies", "other language", "stale text", "wrong part"),
    *("answers other questions", "same answer", "unfilled template", "broken characters"),
)

_NO_VALUE = (
    *(*_OTHERWISE_WRONG, "raw format", "nothing shown", "names a document"),
    *("asks back", "ignores its context", "padded", "same documents"),
    "repeats the question",
)

VALUE_CHECKS = (
    *(
        AnswerCheck(
            f"wrong {kind.split()[0]}",
            f"give another {kind} than expected",
            _wrong,
            _gives_another(kind),
            0.2,
            what="wrong answers",
            fewest=1,
            detail=_values,
            explained_by=_NO_VALUE,
        )
        for kind in ValueKind
    ),
    AnswerCheck(
        "no number",
        "give no number where one is expected",
        _wrong,
        _gives_no_number,
        0.3,
        what="wrong answers",
        detail=_unstated,
        explained_by=(*_NO_VALUE, "denies", "wrong yes or no"),
    ),
    AnswerCheck(
        "wrong yes or no",
        "say yes for no or no for yes, or take for granted what the reference denies",
        _wrong,
        _says_yes_for_no,
        0.2,
        what="wrong answers",
        detail=_beside_the_reference,
        explained_by=_NO_VALUE,
    ),
)

FACT_CHECKS = (
    AnswerCheck(
        "declines wrongly",
        "decline although what was shown holds the answer",
        lambda view: asked(view) and view.case.answerable and view.evidence,
        lambda view: view.declined and (view.shows_a_fact or not view.shown),
        explained_by=("empty answer", "answers and declines"),
    ),
    AnswerCheck(
        "never declines",
        "that no document answers are answered all the same",
        lambda view: asked(view) and not view.case.answerable,
        # One that declines after other words is no invention.
        lambda view: view.attempted and not any(map(abstained, view.sentences)),
        0.5,
        what="questions",
    ),
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
        _one_more,
        explained_by=("padded", "whole passages", "answers other questions", "raw format"),
    ),
    AnswerCheck(
        "incomplete",
        "state only a part of the key facts",
        lambda view: answered(view) and len(view.case.reference.facts) > 1,
        lambda view: 0 < view.stated < len(view.case.reference.facts),
        detail=_unstated,
        explained_by=(
            *(*_OTHERWISE_WRONG, "foreign numbers", "foreign names"),
            *(check.kind for check in VALUE_CHECKS),
        ),
    ),
    AnswerCheck(
        "something else",
        "state none of the key facts although what was shown holds them",
        lambda view: answered(view) and bool(view.case.reference.facts),
        lambda view: not view.stated and view.evidence and view.shows_a_fact,
        detail=_unstated,
        explained_by=(
            *(*_OTHERWISE_WRONG, "foreign numbers", "foreign names", "incomplete"),
            *("repeats the question", "raw format", "ignores its context", "same documents"),
            *("padded", "contradicts its citations", "contradicts its context", "empty answer"),
            *("drops units", "names a document", "asks back"),
            *(check.kind for check in VALUE_CHECKS),
        ),
    ),
)

UNNAMED = AnswerCheck(
    "unlike the reference",
    "differ from the reference",
    _wrong,
    lambda view: True,
    what="wrong answers",
    fewest=1,
    detail=_beside_the_reference,
)
"""Where nothing else is found about wrong answers: what one says."""
