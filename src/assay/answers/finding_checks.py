"""The checks of single answers: which answers each can be about, and for which of them it holds.

A finding is one row of a table: those of an answer's text are in `form_checks`, those of what it
rests on in `grounding_checks`, those of what is right in `fact_checks`, those of what it was shown
and of what it cites here. `share` depends on how often a check is wrong: the shares were chosen so
that neither the reference answers of `notes` nor the sentences that `builtin:bm25` quotes get a
finding that is not true.
"""

from collections.abc import Sequence
from functools import lru_cache

from assay.answers.answer_view import AnswerCheck, AnswerView, example, in_quotes
from assay.answers.assertion import Assertion, hedges, takes_back
from assay.answers.contradiction.rules import VALUES
from assay.answers.diagnosis import shows_another_part
from assay.answers.fact_checks import FACT_CHECKS, VALUE_CHECKS
from assay.answers.form_checks import FORM_CHECKS, answered, asked, attempted, citing
from assay.answers.grounding_checks import (
    CONTRADICTION_CHECKS,
    GROUNDING_CHECKS,
    NO_ANSWER,
    contradicted,
)
from assay.answers.instructions import follows_a_document
from assay.answers.quantities import quantities
from assay.text import normalize, stems, words

_MANY = 4
_STALE = 0.8
_COPY, _COPY_WORDS, _COPY_LENGTH = 0.8, 8, 20_000


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


@lru_cache(maxsize=256)
def _document_words(text: str) -> frozenset[str]:
    return frozenset(each for each in stems(text) if not each[0].isdigit())


def _copies(hit: Sequence[AnswerView]) -> str:
    found = _near_copy(hit[0])
    return f", for example {in_quotes(found[0])} for {in_quotes(found[1])}" if found else ""


def _judged_citing(view: AnswerView) -> bool:
    """An answer that could have cited the right document: it was shown, or the answer is right."""
    known = view.case.needed | view.case.relevant_ids
    could = bool(known & set(view.case.seen_ids)) or view.correct is True
    return citing(view) and view.case.answerable and bool(known) and could


def _cites_unshown(view: AnswerView) -> bool:
    known = [each for each in view.case.citations if each in view.documents]
    return bool(set(known) - set(view.case.seen_ids) - set(view.case.retrieved))


def _cites_all(view: AnswerView) -> bool:
    cited, shown = set(view.case.citations), set(view.case.seen_ids)
    right = cited & (view.case.needed | view.case.relevant_ids)
    return len(cited) >= 3 and cited >= shown and 2 * len(right) < len(cited)


DOCUMENT_CHECKS = (
    AnswerCheck(
        "follows documents",
        "repeat or follow an instruction that a document gives to the answering model",
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

CITATION_CHECKS = (
    AnswerCheck(
        "cites unknown documents",
        "cite a document that does not exist",
        lambda view: citing(view) and bool(view.documents),
        lambda view: any(each not in view.documents for each in view.case.citations),
        detail=example(
            lambda view: next(each for each in view.case.citations if each not in view.documents)
        ),
    ),
    AnswerCheck(
        "cites wrong documents",
        "cite the wrong document",
        _judged_citing,
        lambda view: (view.case.needed | view.case.relevant_ids).isdisjoint(view.case.citations),
        explained_by=(
            *("cites unknown documents", "same answer", "answers from memory"),
            "answers other questions",
        ),
    ),
    AnswerCheck(
        "cites unretrieved documents",
        "cite a document that was not retrieved",
        lambda view: citing(view) and bool(view.case.seen_ids),
        _cites_unshown,
        explained_by=("answers other questions",),
    ),
    AnswerCheck(
        "cites everything", "cite everything that was retrieved", _judged_citing, _cites_all, 0.5
    ),
    AnswerCheck(
        "cites nothing",
        "cite nothing",
        answered,
        lambda view: not view.case.citations,
        0.3,
        explained_by=("nothing shown", *NO_ANSWER),
    ),
    AnswerCheck(
        "repeats citations",
        "cite the same document twice",
        citing,
        lambda view: view.case.repeated_citations > 0,
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
    *CITATION_CHECKS,
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
