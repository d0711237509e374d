"""The checks of single answers: which answers each can be about, and for which of them it holds.

`share` depends on how often a check is wrong: the shares were chosen so that neither the reference
answers of `notes` nor the sentences that `builtin:bm25` quotes get a finding that is not true.
"""

import re
from collections import Counter

from assay.answer.answerer import is_instruction
from assay.measure.answers.answer_view import AnswerCheck, AnswerView
from assay.measure.answers.assertion import Assertion, hedges, takes_back
from assay.measure.answers.instructions import (
    FORM_CHECKS,
    breaks_off,
    follows_a_document,
    repeats_the_question,
)
from assay.measure.answers.lexical import contains_any
from assay.measure.answers.quantities import quantities
from assay.text import detect_language, normalize, sentences, stems, words

_PROMPT = re.compile(
    r"\byou (?:are|will be) (?:a|an|given|asked)\b|\banswer the (?:following )?question\b|"
    r"\b(?:based|using) only (?:on )?the (?:following |provided |given )?(?:context|documents)\b|"
    r"\bif (?:the documents|you) do(?:es)? not (?:hold|know|contain)\b|\bhelpful assistant\b|"
    r"</?(?:document|context|question|system|instructions?)\b|\bas an ai\b|"
    r"^\s*(?:system|user|assistant|human|instructions?|context|question|thought|action|"
    r"action input|observation|final answer|scratchpad|reasoning)\s*:",
    re.IGNORECASE,
)
_ROLE = re.compile(
    r"\[/?(?:system|user|assistant|inst)\]|<\|[a-z_]{2,20}\|>|<</?sys>>|"
    r"^#{2,} ?(?:instruction|response|human|assistant|system)\b",
    re.IGNORECASE | re.MULTILINE,
)
_LONG, _LONGER = 60, 5
_MANY = 4
_STALE = 0.8


def _attempted(view: AnswerView) -> bool:
    return view.attempted


def _answered(view: AnswerView) -> bool:
    return view.attempted and view.case.answerable


def _asked(view: AnswerView) -> bool:
    return view.case.answer is not None


def _shown(view: AnswerView) -> bool:
    return view.attempted and bool(view.shown)


def _citing(view: AnswerView) -> bool:
    return view.attempted and bool(view.case.citations)


def _only_empty(view: AnswerView) -> bool:
    texts = [chunk.text for chunk in view.case.contexts]
    return bool(texts) and not any(any(map(str.isalnum, each)) for each in texts)


def _repeats_documents(view: AnswerView) -> bool:
    """The same id, or the same text under several ids."""
    texts = [normalize(chunk.text) for chunk in view.case.contexts if chunk.text.strip()]
    ids = view.case.retrieved
    return len(set(ids)) < len(ids) or len(set(texts)) < len(texts)


def _judged_citing(view: AnswerView) -> bool:
    """An answer that could have cited the right document: it was shown, or the answer is right."""
    known = view.case.needed | view.case.relevant_ids
    could = bool(known & set(view.case.seen_ids)) or view.correct is True
    return _citing(view) and view.case.answerable and bool(known) and could


def _cites_wrong(view: AnswerView) -> bool:
    return not (view.case.needed | view.case.relevant_ids) & set(view.case.citations)


def _cites_unshown(view: AnswerView) -> bool:
    known = [each for each in view.case.citations if each in view.documents]
    return bool(set(known) - set(view.case.seen_ids) - set(view.case.retrieved))


def _cites_all(view: AnswerView) -> bool:
    cited, shown = set(view.case.citations), set(view.case.seen_ids)
    right = cited & (view.case.needed | view.case.relevant_ids)
    return len(cited) >= 3 and cited >= shown and 2 * len(right) < len(cited)


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


def _is_padded(view: AnswerView) -> bool:
    expected = len(words(view.case.reference.answer or ""))
    return len(words(view.text)) >= max(_LONG, _LONGER * expected)


def _is_in_another_language(view: AnswerView) -> bool:
    expected = detect_language([view.case.question, *view.shown[:3]])
    said = detect_language([view.text])
    return said is not None and expected is not None and said != expected


def _repeats_an_instruction(view: AnswerView) -> bool:
    if _ROLE.search(view.case.answer or ""):
        return True
    return any(is_instruction(each) or _PROMPT.search(each) for each in sentences(view.text))


def _follows_a_document(view: AnswerView) -> bool:
    expected = f"{view.case.question} {view.case.reference.answer or ''}"
    return follows_a_document(view.case.answer or "", view.shown, expected)


def _repeats_itself(view: AnswerView) -> bool:
    said = Counter(normalize(each) for each in view.sentences if len(words(each)) >= 3)
    return any(number > 1 for number in said.values())


def _is_incomplete(view: AnswerView) -> bool:
    return 0 < view.stated < len(view.case.reference.facts)


def _says_something_else(view: AnswerView) -> bool:
    return not view.stated and view.evidence and view.shows_a_fact


def _from_memory(view: AnswerView) -> bool:
    if view.others.no_context:
        return True
    return not view.case.needed & set(view.case.seen_ids) and not view.shows_a_fact


def _ignores_what_it_was_shown(view: AnswerView) -> bool:
    """By words alone: with one figure changed, an answer still rests on what was shown."""
    return bool(view.sentences) and all(map(view.is_foreign, view.sentences))


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


def _shows_another_part(view: AnswerView) -> bool:
    """The right documents, but not the part of them that has the answer."""
    if not view.case.contexts or not view.evidence or view.shows_a_fact:
        return False
    needed = [view.documents[each].full_text for each in view.case.needed if each in view.documents]
    facts = view.case.reference.facts
    return any(contains_any(text, fact.accept) for text in needed for fact in facts)


ANSWER_CHECKS = (
    FORM_CHECKS[0],
    AnswerCheck(
        "follows documents",
        "repeat or follow an instruction that a document gives to whoever answers",
        _attempted,
        _follows_a_document,
        0.0,
        fewest=1,
    ),
    AnswerCheck(
        "judge against facts",
        "are judged right and state none of the key facts: calibrate the judge",
        lambda view: _answered(view) and bool(view.case.reference.facts) and view.correct is True,
        lambda view: not view.stated,
        0.5,
    ),
    AnswerCheck(
        "nothing shown",
        "got no document at all, or only empty ones",
        lambda view: _asked(view) and view.case.answerable,
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
        _shows_another_part,
    ),
    AnswerCheck(
        "repeats instructions",
        "repeat an instruction or a part of the prompt",
        _attempted,
        _repeats_an_instruction,
    ),
    AnswerCheck(
        "other language",
        "are in another language than question and documents",
        _attempted,
        _is_in_another_language,
        0.2,
    ),
    AnswerCheck(
        "denies", "deny a fact that they name, or reverse their source", _answered, _denies, 0.2
    ),
    AnswerCheck(
        "contradicts its citations",
        "contradict what they cite",
        _citing,
        lambda view: bool(view.contradictions),
    ),
    AnswerCheck(
        "contradicts its context",
        "contradict what they were shown",
        lambda view: _attempted(view) and bool(view.case.seen_ids) and not view.case.citations,
        lambda view: bool(view.contradictions),
    ),
    AnswerCheck(
        "hedges",
        'hedge ("perhaps") or offer several options in place of one',
        _answered,
        lambda view: _hedges(view) or _lists_everything(view),
        0.2,
    ),
    *FORM_CHECKS[1:],
    AnswerCheck(
        "repeats the question", "only repeat the question", _answered, repeats_the_question
    ),
    AnswerCheck("repeats itself", "say the same sentence twice", _attempted, _repeats_itself),
    AnswerCheck("breaks off", "break off in the middle of a sentence", _attempted, breaks_off, 0.3),
    AnswerCheck(
        "padded",
        f"are padded: {_LONG} words or more, and {_LONGER} times the reference",
        lambda view: _answered(view) and bool(view.case.reference.answer),
        _is_padded,
        0.3,
    ),
    AnswerCheck(
        "answers from memory",
        "are right although nothing that was shown holds the answer: they are from memory",
        lambda view: _answered(view) and view.correct is True,
        _from_memory,
        0.2,
    ),
    AnswerCheck(
        "ignores its context",
        "have no sentence that rests on what was shown: the context is ignored",
        _shown,
        _ignores_what_it_was_shown,
        0.3,
    ),
    AnswerCheck(
        "unfaithful",
        "have a sentence that nothing shown supports",
        _shown,
        lambda view: bool(view.unsupported),
        0.25,
    ),
    AnswerCheck(
        "foreign numbers",
        "state a number that nothing shown holds",
        _shown,
        lambda view: bool(view.foreign_numbers),
        0.15,
    ),
    AnswerCheck(
        "foreign names",
        "state a name that nothing shown holds",
        _shown,
        lambda view: bool(view.foreign_names),
        0.25,
    ),
    AnswerCheck(
        "cites unknown documents",
        "cite a document that does not exist",
        lambda view: _citing(view) and bool(view.documents),
        lambda view: any(each not in view.documents for each in view.case.citations),
    ),
    AnswerCheck("cites wrong documents", "cite the wrong document", _judged_citing, _cites_wrong),
    AnswerCheck(
        "cites unretrieved documents",
        "cite a document that was not retrieved",
        lambda view: _citing(view) and bool(view.case.seen_ids),
        _cites_unshown,
    ),
    AnswerCheck(
        "cites everything", "cite everything that was retrieved", _judged_citing, _cites_all, 0.5
    ),
    AnswerCheck(
        "cites nothing", "cite nothing", _answered, lambda view: not view.case.citations, 0.3
    ),
    AnswerCheck(
        "repeats citations",
        "cite the same document twice",
        _citing,
        lambda view: view.case.repeated_citations > 0,
    ),
    AnswerCheck(
        "declines wrongly",
        "decline although what was shown holds the answer",
        lambda view: _asked(view) and view.case.answerable and view.evidence,
        _declined_with_evidence,
    ),
    AnswerCheck(
        "never declines",
        "that no document answers are answered all the same",
        lambda view: _asked(view) and not view.case.answerable,
        lambda view: view.attempted,
        0.5,
        what="questions",
    ),
    AnswerCheck(
        "incomplete",
        "state only a part of the key facts",
        lambda view: _answered(view) and len(view.case.reference.facts) > 1,
        _is_incomplete,
        0.2,
    ),
    AnswerCheck(
        "something else",
        "state none of the key facts although what was shown holds them",
        lambda view: _answered(view) and bool(view.case.reference.facts),
        _says_something_else,
    ),
)
