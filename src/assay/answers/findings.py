"""Findings: what is wrong with the answers of a run, also with right ones, each with its counts.

`finding_checks` has the table of checks of single answers; those over all answers together are
here. A check becomes a finding where it holds for as many answers, and for the share of them, as
the check asks for: most ask for two answers, a few for one, those over all answers for three.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from assay.answers.answer_view import AnswerCheck, AnswerView, for_example, in_quotes
from assay.answers.answered_question import QuestionIndex, expected_answers
from assay.answers.fact_checks import UNNAMED
from assay.answers.finding_checks import ANSWER_CHECKS, TENTATIVE
from assay.answers.framing import content_stems, stemmed
from assay.answers.lexical import stated_facts
from assay.data.dataset import ReferenceAnswer
from assay.text import normalize, stems, words

_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class AnswerFinding:
    """One thing that is wrong: `kind` for programs, `words` for people."""

    kind: str
    number: int
    of: int
    words: str
    query_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunCheck:
    """A check that compares answers with each other, with all references or all documents.

    `find` returns the answers that it can be about, those that it is about, and a detail of them;
    the other fields are those of an `AnswerCheck`.
    """

    kind: str
    words: str
    find: Callable[[Sequence[AnswerView], Sequence[ReferenceAnswer]], "Covered"]
    what: str = "answers"
    explained_by: tuple[str, ...] = ()


class Covered(NamedTuple):
    """The answers that a check can be about, and those that it holds for."""

    covered: Sequence[AnswerView] = ()
    hit: Sequence[AnswerView] = ()
    detail: str = ""


_NONE = Covered()


def find_faults(
    views: Sequence[AnswerView],
    references: Iterable[ReferenceAnswer] = (),
    *,
    quote: bool = True,
) -> list[AnswerFinding]:
    """All findings about the answers of a run, the most common first.

    Parameters:
        views: the answers, in the order in which they were asked for.
        references: those of the whole data set: an answer may be to a question that was not asked.
        quote: whether the words of a finding may quote answers and documents.
    """
    listed = list(islice(references, _MOST_REFERENCES))
    found = []
    named = set[int]()
    for check in CHECKS:
        found_by = (
            check.find(views, listed) if isinstance(check, RunCheck) else _apply(check, views)
        )
        covered, hit, detail = found_by
        if hit:
            number, of = len(hit), len(covered)
            phrase = f"{number} of {of} {check.what} {check.words}{detail if quote else ''}"
            ids = tuple(view.case.query_id for view in hit[:_EXAMPLES])
            found.append(AnswerFinding(check.kind, number, of, phrase, ids))
            if check.kind != UNNAMED.kind and _says_what_is_wrong(check):
                named |= {id(view) for view in hit}
    unnamed = not any(UNNAMED.covers(view) and id(view) in named for view in views)
    order = {kind: place for place, kind in enumerate(FINDING_KINDS)}
    found.sort(
        key=lambda each: (
            each.kind == UNNAMED.kind,
            -round(_at_least(each.number, each.of), 1),
            order[each.kind],
        )
    )
    explained_by = {check.kind: check.explained_by for check in CHECKS}
    return [
        each
        for each in found
        if (each.kind != UNNAMED.kind or unnamed)
        and (each.kind != TENTATIVE.kind or len(found) == 1)
        and not any(
            other.kind in explained_by[each.kind] and 2 * other.number > each.number
            for other in found
        )
    ]


def _says_what_is_wrong(check: AnswerCheck | RunCheck) -> bool:
    """Whether a check is about what answers say, and not about rankings or citations alone."""
    return check.what.endswith("answers") and not check.kind.startswith(("cites", "repeats cit"))


def _at_least(number: int, of: int) -> float:
    """The lower end of Wilson's interval (1927): 2 of 2 weigh less than 30 of 50, and a single
    answer least of all.
    """
    if number == 1:
        return -1.0
    share, spread = number / of, 1.96**2 / of
    half = 1.96 * math.sqrt(share * (1 - share) / of + spread / (4 * of))
    return (share + spread / 2 - half) / (1 + spread)


def _apply(check: AnswerCheck, views: Sequence[AnswerView]) -> Covered:
    covered = [view for view in views if check.covers(view)]
    found = [(view, held) for view in covered if (held := check.holds(view))]
    if len(found) < max(check.fewest, check.share * len(covered)):
        return _NONE
    hit = [view for view, _ in found]
    texts = (held for _, held in found if isinstance(held, str))
    return Covered(covered, hit, check.detail(hit) if check.detail else for_example(texts))


_FEWEST, _FEWEST_IN_RUN = 2, 3
_SHARE = 0.3
_SENTENCE_WORDS = 4
_MOST_REFERENCES = 2000


def _same_answer(views: Sequence[AnswerView], _: Sequence[ReferenceAnswer]) -> Covered:
    attempted = [view for view in views if view.attempted]
    hit = _most_common(attempted, lambda view: normalize(view.text))
    return _if_many(attempted, hit, f": {in_quotes(hit[0].text)}" if hit else "")


def _same_sentence(views: Sequence[AnswerView], _: Sequence[ReferenceAnswer]) -> Covered:
    attempted = [view for view in views if view.attempted]
    counts = Counter(each for view in attempted for each in sorted(_long_sentences(view)))
    sentence, _number = counts.most_common(1)[0] if counts else ("", 0)
    hit = [view for view in attempted if sentence in _long_sentences(view)]
    return _if_many(attempted, hit, f": {in_quotes(sentence)}")


def _references_without_facts(views: Sequence[AnswerView], _: Sequence[ReferenceAnswer]) -> Covered:
    covered = [view for view in views if view.case.reference.facts and view.case.reference.answer]
    missing = {
        id(view): [each for each in reference.facts if each not in stated]
        for view in covered
        for reference in (view.case.reference,)
        for stated in (stated_facts(reference.answer or "", reference.facts),)
    }
    hit = [view for view in covered if missing[id(view)] and view.correct is False]
    if not hit:
        return _NONE
    first, fact = hit[0].case.reference.answer or "", missing[id(hit[0])][0]
    detail = f', for example {in_quotes(first)} without "{fact.text}"'
    return Covered(covered, hit, f"{detail}: list the wording under `accept`")


def _long_sentences(view: AnswerView) -> set[str]:
    said = (each for each in view.sentences if content_stems(each))
    return {normalize(each) for each in said if len(words(each)) >= _SENTENCE_WORDS}


def _other_questions(views: Sequence[AnswerView], references: Sequence[ReferenceAnswer]) -> Covered:
    covered = [view for view in views if view.attempted and view.reference_stems]
    index = QuestionIndex(expected_answers(covered, references))
    found = [(view, other) for view in covered if (other := index.other_question(view))]
    if len(found) < max(_FEWEST_IN_RUN, 0.1 * len(covered)):
        return _NONE
    order = {view.case.query_id: place for place, view in enumerate(views)}
    texts = {view.case.query_id: view.case.question for view in views}
    steps = Counter(order[view.case.query_id] - order.get(other, -1) for view, other in found)
    view, other = next((each for each in found if each[1] in texts), found[0])
    detail = f", for example {in_quotes(view.case.question)}"
    if other in texts:
        detail += f" gets the answer of {in_quotes(texts[other])}"
    if 2 * steps[1] > len(found):
        detail += (
            f"; {steps[1]} of them that of the question before, as with a cache or an error by one"
        )
    return Covered(covered, [view for view, _ in found], detail)


def _same_documents(views: Sequence[AnswerView], _: Sequence[ReferenceAnswer]) -> Covered:
    covered = [view for view in views if view.case.seen_ids]
    return _if_many(covered, _most_common(covered, lambda view: view.case.seen_ids))


def _best_last(views: Sequence[AnswerView], _: Sequence[ReferenceAnswer]) -> Covered:
    """Rankings whose one needed document is at the end more often than at the beginning."""
    covered = [
        view
        for view in views
        if len(view.case.retrieved) >= 3 and len(view.case.needed & set(view.case.retrieved)) == 1
    ]
    last = [view for view in covered if view.case.retrieved[-1] in view.case.needed]
    first = [view for view in covered if view.case.retrieved[0] in view.case.needed]
    return _if_many(covered, last) if len(last) > 2 * len(first) else _NONE


# "Source: Prices", "(Source: the handbook, page 3)", "According to the Members' Handbook,".
_SOURCE = re.compile(
    r"(?:^|[\s(\[*])(?i:sources?|references?|quellen?|fuentes?)\W{0,3}:\W*(?P<label>[^\n)\]*;]{3,120})"
    r"|\b(?i:according to|as (?:stated|described|reported|mentioned|noted|explained) (?:in|by)|"
    r"as(?= (?:the )?[^.,\n]{3,60} (?:reports|states|says|writes|explains|puts it)\b)|as per|laut|"
    r"gemäß|selon|según) (?:(?:the|our|its|dem|der|le|la|el) )?[\"“„']?"
    r"(?P<name>[^\W\d_a-zß-ÿ][\w'’-]*(?: (?:(?:of|and|the|for) )*[^\Wa-zß-ÿ][\w'’-]*)+)"
)
_PARTS = re.compile(r",|;|\n| - ")
_OF_ANY_SOURCE = stemmed("""
    source document page section chapter edition version article file paragraph context
    passage table figure title http https www com org net html pdf
""")
_ALIKE = 2 / 3


def named_sources(view: AnswerView) -> list[str]:
    """The sources that an answer names in its text."""
    found = _SOURCE.finditer(view.case.answer or "")
    return [(match["label"] or match["name"]).strip() for match in found]


def _unknown_sources(views: Sequence[AnswerView], _: Sequence[ReferenceAnswer]) -> Covered:
    """Answers that name a source whose words are in no title, in no id and in nothing shown."""
    covered = [view for view in views if view.attempted and view.documents]
    naming = [view for view in covered if named_sources(view)]
    if len(naming) < _FEWEST:
        return _NONE
    documents = naming[0].documents.values()
    titles = [frozenset(stems(f"{each.title} {each.id}")) for each in documents]
    if 2 * sum(bool(each.title) for each in documents) < len(titles):
        return _NONE  # nobody knows what they are called
    holding: dict[str, list[frozenset[str]]] = {}
    for title in titles:
        for word in title:
            holding.setdefault(word, []).append(title)

    def is_known(source: str, view: AnswerView) -> bool:
        unknown = False
        for part in _PARTS.split(source):
            said = {each for each in stems(part) if len(each) > 2} - _OF_ANY_SOURCE
            near = [title for word in said for title in holding.get(word, ())]
            if any(len(said & title) >= _ALIKE * len(said) for title in near):
                return True
            unknown = unknown or bool(said - view.shown_stems)
        return not unknown

    found = [(v, each) for v in naming for each in named_sources(v) if not is_known(each, v)]
    hit = list({id(view): view for view, _ in found}.values())
    if len(hit) < max(_FEWEST, 0.1 * len(covered)):
        return _NONE
    return Covered(covered, hit, f", for example {in_quotes(found[0][1])}")


def _most_common(
    views: Sequence[AnswerView], key: Callable[[AnswerView], Hashable]
) -> list[AnswerView]:
    counts = Counter(map(key, views))
    if not counts:
        return []
    value, _ = counts.most_common(1)[0]
    return [view for view in views if key(view) == value]


def _if_many(of: Sequence[AnswerView], hit: Sequence[AnswerView], detail: str = "") -> Covered:
    many = len(hit) >= max(_FEWEST_IN_RUN, _SHARE * len(of))
    return Covered(of, hit, detail) if many else _NONE


CHECKS: tuple[AnswerCheck | RunCheck, ...] = (
    RunCheck("same answer", "are the same text", _same_answer),
    RunCheck(
        "answers other questions",
        "answer another question",
        _other_questions,
        explained_by=("same answer", "uses another document"),
    ),
    RunCheck(
        "names unknown sources",
        "name a source that is no document",
        _unknown_sources,
        explained_by=("same answer",),
    ),
    RunCheck(
        "references without their facts",
        "do not state their own key facts, and an answer in the same words is called wrong",
        _references_without_facts,
        what="reference answers",
    ),
    *ANSWER_CHECKS,
    TENTATIVE,
    UNNAMED,
    RunCheck(
        "same sentence",
        "have a sentence in common",
        _same_sentence,
        explained_by=(
            *("same answer", "padded", "repeats instructions", "follows documents", "denies"),
            *("unfaithful", "asks back", "shows its reasoning", "names unknown sources"),
        ),
    ),
    RunCheck(
        "same documents",
        "got the same documents",
        _same_documents,
        what="questions",
        explained_by=("nothing shown", "unknown documents"),
    ),
    RunCheck(
        "best last",
        "have the document that is needed in the last place: is the ranking reversed?",
        _best_last,
        what="rankings",
    ),
)
"""Every check, the most telling first: a finding is one row."""

FINDING_KINDS = (
    "follows planted documents",
    "repeats planted documents",
    *(check.kind for check in CHECKS),
)
"""Every kind, the most telling first."""
