"""The checks of single answers: which answers each can be about, and for which of them it holds.

A finding is one row of a table: those of an answer's text are in `form_checks`, those of what it
rests on in `grounding_checks`, those of what it was shown and of what is right here. `share`
depends on how often a check is wrong: the shares were chosen so that neither the reference answers
of `notes` nor the sentences that `builtin:bm25` quotes get a finding that is not true.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

from assay.measure.answers.abstention import abstained
from assay.measure.answers.answer_view import AnswerCheck, AnswerView, in_quotes
from assay.measure.answers.assertion import Assertion, hedges, is_negative, takes_back
from assay.measure.answers.contradiction.rules import VALUES
from assay.measure.answers.diagnosis import shows_another_part
from assay.measure.answers.form_checks import FORM_CHECKS, answered, asked, attempted
from assay.measure.answers.grounding_checks import (
    CONTRADICTION_CHECKS,
    GROUNDING_CHECKS,
    contradicted,
)
from assay.measure.answers.instructions import follows_a_document
from assay.measure.answers.lexical import yes_or_no
from assay.measure.answers.list_checks import LIST_CHECKS
from assay.measure.answers.quantities import numbers, quantities
from assay.measure.answers.wrong_values import ValueKind
from assay.text import normalize, stems, words

_MANY = 4
_STALE = 0.8
_COPY, _COPY_WORDS, _COPY_LENGTH = 0.8, 8, 20_000
_BEGINNING = 8


def _only_empty(view: AnswerView) -> bool:
    texts = [chunk.text for chunk in view.case.contexts]
    return bool(texts) and not any(any(map(str.isalnum, each)) for each in texts)


def _repeats_documents(view: AnswerView) -> bool:
    """The same id, or the same text under several ids."""
    texts = [normalize(chunk.text) for chunk in view.case.contexts if chunk.text.strip()]
    ids = view.case.retrieved
    return len(set(ids)) < len(ids) or len(set(texts)) < len(texts)


def _denies(view: AnswerView) -> bool:
    if takes_back(normalize(view.text)):
        return True
    return Assertion.DENIED in view.occurrences or view.contradicted or view.reverses_its_source


def _hedges(view: AnswerView) -> bool:
    if not view.case.reference.facts:
        return hedges(normalize(view.text))
    if {Assertion.HEDGED, Assertion.OPTION} & view.occurrences:
        return True
    # "28 days. But I cannot guarantee this."
    return any(view.is_foreign(each) and hedges(normalize(each)) for each in view.sentences)


def _lists_everything(view: AnswerView) -> bool:
    """A key fact among many quantities, where the reference has few."""
    if not view.stated:
        return False
    expected = set(quantities(f"{view.case.question} {view.case.reference.answer}"))
    more = [set(quantities(each)) - expected for each in view.sentences]
    return any(len(each) >= max(_MANY, 2 * len(expected)) for each in more)


def _follows_a_document(view: AnswerView) -> bool:
    expected = f"{view.case.question} {view.case.reference.answer or ''}"
    return follows_a_document(view.case.answer or "", view.shown, expected)


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


def _is_incomplete(view: AnswerView) -> bool:
    return 0 < view.stated < len(view.case.reference.facts)


def _says_something_else(view: AnswerView) -> bool:
    return not view.stated and view.evidence and view.shows_a_fact


def _declined_with_evidence(view: AnswerView) -> bool:
    return view.declined and view.evidence and (view.shows_a_fact or not view.shown)


def _is_stale(view: AnswerView) -> bool:
    for chunk in view.case.contexts:
        document = view.documents.get(chunk.doc_id)
        if document is None:
            continue
        if " ".join(words(chunk.text)) in " ".join(words(document.full_text)):
            continue  # also one that was cut in the middle of a word
        held, said = set(stems(document.full_text)), set(stems(chunk.text))
        figures = {word for word in said if word[0].isdigit()}
        if said and (figures - held or len(said & held) < _STALE * len(said)):
            return True
    return False


def _near_copy(view: AnswerView) -> tuple[str, str] | None:
    """A document that was shown and nearly is one that is needed and was not, with that one."""
    known = view.documents.keys()
    missing = sorted(known & view.case.needed - set(view.case.seen_ids))
    others = [each for each in view.case.seen_ids if each in known and each not in view.case.needed]
    for needed in missing if others else ():
        wanted = _document_words(view.documents[needed].full_text[:_COPY_LENGTH])
        for found in others:
            held = _document_words(view.documents[found].full_text[:_COPY_LENGTH])
            fewest, most = sorted((len(wanted), len(held)))
            if fewest >= _COPY_WORDS and len(wanted & held) >= _COPY * most:
                return found, needed
    return None


def _plain_words(text: str) -> frozenset[str]:
    return frozenset(each for each in stems(text) if not each[0].isdigit())


_document_words = lru_cache(maxsize=256)(_plain_words)


def _copies(hit: Sequence[AnswerView]) -> str:
    found = _near_copy(hit[0])
    return f", for example {in_quotes(found[0])} for {in_quotes(found[1])}" if found else ""


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
    around = _plain_words(view.case.reference.answer or "")
    facts = view.case.reference.facts
    expected = any(fact.accept and all(map(numbers, fact.accept)) for fact in facts)
    return expected and 2 * len(around & set(stems(view.text))) >= len(around)


DOCUMENT_CHECKS = (
    AnswerCheck(
        "follows documents",
        "repeat or follow an instruction that a document gives to whoever answers",
        attempted,
        _follows_a_document,
        0.0,
        fewest=1,
    ),
    AnswerCheck(
        "judge against facts",
        "are judged right and state none of the key facts: calibrate the judge",
        lambda view: answered(view) and bool(view.case.reference.facts) and view.correct is True,
        lambda view: not view.stated,
        0.5,
    ),
    AnswerCheck(
        "nothing shown",
        "got no document at all, or only empty ones",
        lambda view: asked(view) and view.case.answerable,
        lambda view: not (view.case.contexts or view.case.seen_ids) or _only_empty(view),
        what="questions",
    ),
    AnswerCheck(
        "unknown documents",
        "got documents that do not exist",
        lambda view: bool(view.case.retrieved) and bool(view.documents),
        lambda view: any(each not in view.documents for each in view.case.retrieved),
        what="questions",
    ),
    AnswerCheck(
        "repeated documents",
        "got the same document more than once",
        lambda view: bool(view.case.retrieved or view.case.contexts),
        _repeats_documents,
        what="questions",
    ),
    AnswerCheck(
        "stale text",
        "rest on text that its document does not have: an old or a changed copy",
        lambda view: bool(view.case.contexts),
        _is_stale,
    ),
    AnswerCheck(
        "wrong part",
        "were written from a part of the right document that does not hold the answer",
        lambda view: bool(view.case.contexts) and view.case.answerable,
        lambda view: shows_another_part(view.case, view.documents),
        explained_by=("nothing shown",),
    ),
    AnswerCheck(
        "near copies",
        "got a near copy of the document that is needed, another version of it perhaps",
        lambda view: view.case.answerable and bool(view.case.seen_ids),
        lambda view: _near_copy(view) is not None,
        0.05,
        what="questions",
        detail=_copies,
    ),
)

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
        _declined_with_evidence,
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
    *LIST_CHECKS,
    AnswerCheck(
        "incomplete",
        "state only a part of the key facts",
        lambda view: answered(view) and len(view.case.reference.facts) > 1,
        _is_incomplete,
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
        _says_something_else,
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

ANSWER_CHECKS = (
    *DOCUMENT_CHECKS,
    *FORM_CHECKS,
    AnswerCheck(
        "denies",
        "deny a fact that they name, or reverse their source",
        answered,
        _denies,
        0.2,
        explained_by=("other language", "hedges", "contradicts itself"),
    ),
    AnswerCheck(
        "hedges",
        'hedge ("perhaps"), offer several options or hide the answer among other figures',
        answered,
        lambda view: _hedges(view) or _lists_everything(view),
        0.2,
    ),
    *VALUE_CHECKS,
    *CONTRADICTION_CHECKS,
    *GROUNDING_CHECKS,
    *FACT_CHECKS,
)
"""The most telling first."""

TENTATIVE = AnswerCheck(
    "may contradict",
    "may contradict a source; read it",
    attempted,
    lambda view: any(each.kind in VALUES for each in view.contradictions),
    0.0,
    fewest=1,
    detail=contradicted,
)
"""Where nothing else is found at all: the few values that a source has otherwise."""

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
