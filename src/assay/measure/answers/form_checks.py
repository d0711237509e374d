"""Checks of an answer's form: what a text shows of a broken application, whatever it is about."""

import re

from assay.answer.citations import cited_places
from assay.measure.answers.abstention import abstained
from assay.measure.answers.answer_view import AnswerCheck, AnswerView
from assay.text import stems

_FORMATTED = re.compile(r"\s*(?:[{\[]\s*[\"'{\[\]}]|```|<[a-z!?/]|---\n)", re.IGNORECASE)
# UTF-8 that was read as Latin-1 or Windows-1252, a character that could not be read, and what HTML
# writes for one.
_BROKEN = re.compile(
    r"[ÃÂ][\x80-\xbf\u0152-\u0178\u2013-\u2122]|â€.|\ufffd|&(?:amp|quot|apos|lt|gt|nbsp|#x?[0-9a-f]+);",
    re.IGNORECASE,
)
_UNFILLED = re.compile(
    r"\{\{?\s*[a-z_][\w.]*\s*\}?\}|\$\{[^}\n]{1,40}\}|%\(\w+\)s|\[object Object\]|"
    r"\b(?:undefined|NaN)\b|(?:^|[\s:])(?:None|null)[.\s]*$|<(?:insert|your|placeholder)\b[^>\n]*>|"
    r"\[(?:insert|your|placeholder)\b[^\]\n]*\]|\bTODO\b|\blorem ipsum\b",
)
_ITEMS = re.compile(r",|;|\b(?:and|or|as well as|und|oder|et|y|e)\b")
_ITEM_WORDS = 4


def is_formatted(view: AnswerView) -> bool:
    """Whether the text begins as JSON, markup or code does."""
    return _FORMATTED.match(view.text) is not None


def _in_no_source(pattern: re.Pattern[str], view: AnswerView) -> bool:
    """A document that has such characters itself may be quoted."""
    found = {match[0].strip() for match in pattern.finditer(view.text)}
    return bool(found) and not any(each in text for each in found for text in view.shown)


def _marks_nothing(view: AnswerView) -> bool:
    """A number in brackets beyond everything that was shown, retrieved or cited."""
    case = view.case
    most = max(len(case.contexts), len(case.retrieved), len(case.citations))
    return any(not 1 <= place <= most for place in cited_places(case.answer or ""))


def _declines_too(view: AnswerView) -> bool:
    return len(view.sentences) > 1 and any(map(abstained, view.sentences))


def _adds_an_item(view: AnswerView) -> bool:
    """A list of which one item has no word that was shown, asked or expected, and another is
    wholly known.
    """
    known = view.shown_stems | view.reference_stems
    for sentence in view.sentences:
        items = [found for part in _ITEMS.split(sentence) if (found := set(stems(part)))]
        foreign = [each for each in items if len(each) <= _ITEM_WORDS and not each & known]
        if foreign and any(each <= known for each in items):
            return True
    return False


def _attempted(view: AnswerView) -> bool:
    return view.attempted


FORM_CHECKS = (
    AnswerCheck(
        "empty answer",
        "are empty",
        lambda view: view.case.answer is not None,
        lambda view: not any(map(str.isalnum, view.text)),
    ),
    AnswerCheck(
        "unfilled template",
        "hold a placeholder or an empty value in place of a text",
        _attempted,
        lambda view: _in_no_source(_UNFILLED, view),
    ),
    AnswerCheck(
        "broken characters",
        "have broken characters: an encoding, or HTML that was not decoded",
        _attempted,
        lambda view: _in_no_source(_BROKEN, view),
    ),
    AnswerCheck(
        "raw format", "are JSON, markup or code in place of a text", _attempted, is_formatted
    ),
    AnswerCheck(
        "answers and declines",
        "answer and decline at once",
        lambda view: view.attempted and view.case.answerable,
        _declines_too,
        0.3,
    ),
    AnswerCheck(
        "dangling marks",
        "have a citation mark that points at nothing that was shown",
        lambda view: view.attempted and bool(view.case.seen_ids or view.case.contexts),
        _marks_nothing,
    ),
    AnswerCheck(
        "foreign items",
        "list something that nothing shown holds",
        lambda view: view.attempted and bool(view.shown),
        _adds_an_item,
        0.2,
    ),
)
"""The most telling first."""
