"""Findings: what is wrong with the answers of a run, also with right ones, each with its counts.

A table of checks, each over one answer (`AnswerView`); `run_findings` has those over all answers.
A check says which answers it can be about and for which of them it holds. It becomes a finding
where it holds for at least two answers and for a share of them that depends on how often the check
is wrong: the shares were chosen so that the reference answers of `notes` have no finding.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from assay.answer.extractive import is_instruction
from assay.data.dataset import ReferenceAnswer
from assay.measure.answers.answer_view import AnswerView
from assay.measure.answers.assertion import Assertion, hedges
from assay.measure.answers.language import language_of
from assay.measure.answers.lexical import contains_any
from assay.measure.answers.run_findings import compare_answers
from assay.text import normalize, stems, words

_EXAMPLES = 5
_FEWEST = 2
_COMPLETE = re.compile(r"[.!?…。！？][\"'”’)\]*_]*$")
_BREAKS_OFF = re.compile(
    r"(?:…|\.\.\.|[,;:(–-]|\b(?:the|a|an|and|or|of|to|in|on|at|for|with|by|from|is|was|are|that|"
    r"which|because|per|as))[\"'”’)\]]*$",
    re.IGNORECASE,
)
_PROMPT = re.compile(
    r"\byou (?:are|will be) (?:a|an|given|asked)\b|\banswer the (?:following )?question\b|"
    r"\b(?:based|using) only (?:on )?the (?:following |provided |given )?(?:context|documents)\b|"
    r"\bif (?:the documents|you) do(?:es)? not (?:hold|know|contain)\b|\bhelpful assistant\b|"
    r"</?(?:document|context|question|system|instructions?)\b|\bas an ai\b|"
    r"^\s*(?:system|user|assistant|human|instructions?|context|question)\s*:",
    re.IGNORECASE,
)
_LONG, _LONGER = 60, 5
_ENOUGH_WORDS = 6
_STALE = 0.8


@dataclass(frozen=True, slots=True)
class AnswerFinding:
    """One thing that is wrong: `kind` for programs, `words` for people."""

    kind: str
    number: int
    of: int
    words: str
    query_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """A check of one answer; `words` go on after "13 of 15 answers"."""

    kind: str
    words: str
    covers: Callable[[AnswerView], bool]
    holds: Callable[[AnswerView], bool]
    share: float = 0.1
    what: str = "answers"


def find_faults(
    views: Sequence[AnswerView], references: Iterable[ReferenceAnswer] = ()
) -> list[AnswerFinding]:
    """All findings about the answers of a run, the most common first.

    `references` are those of the whole data set: an answer may be to a question that was not asked.
    """
    found = [finding for check in ANSWER_CHECKS if (finding := _check(check, views))]
    for kind, phrase, what, covered, hit in compare_answers(views, references):
        found.append(_finding(kind, phrase, what, covered, hit))
    order = {kind: place for place, kind in enumerate(FINDING_KINDS)}
    found.sort(key=lambda each: (-round(each.number / each.of, 1), order[each.kind]))
    return [each for each in found if not _is_explained(each, found)]


def _is_explained(finding: AnswerFinding, found: Sequence[AnswerFinding]) -> bool:
    """Whether a more telling finding is about the same answers."""
    reasons = _EXPLAINED_BY.get(finding.kind, ())
    return any(each.kind in reasons and 2 * each.number > finding.number for each in found)


def _check(check: AnswerCheck, views: Sequence[AnswerView]) -> AnswerFinding | None:
    covered = [view for view in views if check.covers(view)]
    hit = [view for view in covered if check.holds(view)]
    if len(hit) < max(_FEWEST, check.share * len(covered)):
        return None
    return _finding(check.kind, check.words, check.what, covered, hit)


def _finding(
    kind: str, phrase: str, what: str, covered: Sequence[AnswerView], hit: Sequence[AnswerView]
) -> AnswerFinding:
    ids = tuple(view.case.query_id for view in hit[:_EXAMPLES])
    number, of = len(hit), len(covered)
    return AnswerFinding(kind, number, of, f"{number} of {of} {what} {phrase}", ids)


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
    return Assertion.DENIED in view.occurrences or view.contradicted or view.reverses_its_source


def _hedges(view: AnswerView) -> bool:
    if view.case.reference.facts:
        return bool({Assertion.HEDGED, Assertion.OPTION} & view.occurrences)
    return hedges(normalize(view.text))


def _is_padded(view: AnswerView) -> bool:
    expected = len(words(view.case.reference.answer or ""))
    return len(words(view.text)) >= max(_LONG, _LONGER * expected)


def _breaks_off(view: AnswerView) -> bool:
    if _BREAKS_OFF.search(view.text):
        return True
    return len(words(view.text)) >= _ENOUGH_WORDS and not _COMPLETE.search(view.text)


def _is_in_another_language(view: AnswerView) -> bool:
    expected = language_of(" ".join([view.case.question, *view.shown[:3]]))
    said = language_of(view.text)
    return said is not None and expected is not None and said != expected


def _repeats_an_instruction(view: AnswerView) -> bool:
    return any(is_instruction(each) or _PROMPT.search(each) for each in view.sentences)


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
    AnswerCheck(
        "nothing shown",
        "got no document at all",
        lambda view: _asked(view) and view.case.answerable,
        lambda view: not view.case.seen_ids and not view.case.contexts,
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
        lambda view: bool(view.case.retrieved),
        lambda view: len(set(view.case.retrieved)) < len(view.case.retrieved),
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
        "hedges",
        'hedge ("perhaps") or offer several options in place of one',
        _answered,
        _hedges,
        0.2,
    ),
    AnswerCheck(
        "breaks off", "break off in the middle of a sentence", _attempted, _breaks_off, 0.3
    ),
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
)

FINDING_KINDS = (
    "same answer",
    "answers other questions",
    *(check.kind for check in ANSWER_CHECKS),
    "same sentence",
    "same documents",
    "best last",
)
"""Every kind, the most telling first."""

_EXPLAINED_BY = {
    "unfaithful": (
        *("ignores its context", "other language", "repeats instructions", "stale text"),
        *("answers other questions", "same answer", "nothing shown", "padded", "foreign numbers"),
    ),
    "ignores its context": (
        *("other language", "answers other questions", "same answer", "nothing shown"),
        *("stale text", "answers from memory"),
    ),
    "foreign numbers": (
        *("ignores its context", "answers other questions", "same answer", "nothing shown"),
        *("stale text",),
    ),
    "foreign names": (
        *("ignores its context", "answers other questions", "same answer", "nothing shown"),
        *("other language", "stale text"),
    ),
    "answers from memory": ("nothing shown",),
    "same sentence": ("same answer", "padded", "repeats instructions"),
    "cites nothing": ("nothing shown",),
    "cites wrong documents": ("cites unknown documents", "same answer", "answers from memory"),
    "same documents": ("nothing shown", "unknown documents"),
    "denies": ("other language",),
    "declines wrongly": (),
}
"""What says the same in a more telling way, where it is about most of the same answers."""
