"""Finding checks of grounding: an answer's words, figures and links against what was shown."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import dropwhile
from urllib.parse import unquote

from assay.answers.answer_view import AnswerCheck, AnswerView, example, in_quotes
from assay.answers.form_checks import answered, attempted, citing
from assay.answers.framing import content_stems
from assay.answers.lexical import held_words, is_supported
from assay.answers.quantities import quantities, spellings_of
from assay.data.dataset import Document
from assay.llm.prompt import cited_places
from assay.text import normalize, stem, stems, words

_ITEMS = re.compile(
    r",|;|\b(?:and|or|as well as|und|oder|et|y|e|for|by|with|without|during|except|unless)\b"
)
_ITEM_WORDS, _STRAY_WORDS = 4, 4
_ADDRESS = re.compile(
    r"(?:https?://|\bwww\.)[^\s()<>\[\]\"'`]{3,200}|\b[\w.+-]{1,64}@[\w-]{1,60}\.[\w.-]{2,60}"
)
_TITLED = re.compile(r"\[([^\[\]\n]{1,200})\]\([^()\s]{1,500}\)")  # "[Prices](https://host/x7)"
_SCHEME = re.compile(r"^(?:https?://|mailto:)?(?:www\.)?")


def _shown(view: AnswerView) -> bool:
    return view.attempted and bool(view.shown)


def _is_source_known(view: AnswerView) -> bool:
    """Whether it can be seen what an answer is from: what was shown, or that it needs nothing."""
    return bool(view.shown) or view.others.no_context is True


def _from_memory(view: AnswerView) -> bool:
    if view.others.no_context:
        return True
    return not view.case.needed & set(view.case.seen_ids) and not view.shows_a_fact


def _ignores_what_it_was_shown(view: AnswerView) -> bool:
    """By words alone: with one figure changed, an answer still rests on what was shown."""
    said = [each for each in view.sentences if content_stems(each)]
    return bool(said) and all(map(view.is_foreign, said))


def _marks_nothing(view: AnswerView) -> bool:
    """A number in brackets beyond everything that was shown, retrieved or cited."""
    case = view.case
    most = max(len(case.contexts), len(case.retrieved), len(case.citations))
    return any(not 1 <= place <= most for place in cited_places(case.answer or ""))


_WITHOUT_EXCEPTION = re.compile(
    r"\b(?:at any time|any ?time|every(?:body|one)|always|in (?:all|any|every) cases?|"
    r"without (?:exceptions?|any (?:limit|condition|exception)s?)|regardless of|unconditionally|"
    r"as (?:often|much|many) as (?:you|they) (?:like|want|wish)|no matter (?:what|when|who|how))\b"
)


def _lost_condition(view: AnswerView) -> str:
    """ "Always", "everybody" or the like in a sentence about what was shown, which has none."""
    known = [*view.shown, view.case.question, view.case.reference.answer or ""]
    if any(_WITHOUT_EXCEPTION.search(normalize(text)) for text in known):
        return ""
    about = (each for each in view.sentences if not view.is_foreign(each))
    return next((each for each in about if _WITHOUT_EXCEPTION.search(normalize(each))), "")


def _stray_sentence(view: AnswerView) -> str:
    """A sentence that what is cited or needed does not hold, and another document shown does."""
    own = {*view.case.citations, *view.case.needed}
    texts = [each.text for each in view.case.contexts if each.doc_id in own] or [
        view.documents[each].full_text for each in own if each in view.documents
    ]
    held = held_words([view.case.question, view.case.reference.answer or "", *texts])
    for sentence in view.sentences:
        said = frozenset(stems(sentence))
        if len(said) >= _STRAY_WORDS and said <= view.shown_stems and not is_supported(said, held):
            return sentence
    return ""


def _other_source(view: AnswerView) -> str:
    """The document that a whole answer is from, where that is none of the needed ones."""
    if not view.sentences:
        return ""
    said = frozenset(word for each in view.sentences for word in stems(each))
    needed = held_words(text for doc_id, text in view.passages if doc_id in view.case.needed)
    plain = frozenset(each for each in said if not each[0].isdigit())
    if len(plain) < _STRAY_WORDS or is_supported(plain, needed):
        return ""
    others = (each for each in view.passages if each[0] not in view.case.needed)
    return next((doc_id for doc_id, text in others if said <= held_words([text])), "")


def _unsupported(hit: Sequence[AnswerView]) -> str:
    """The first such sentence; if it is in most of the answers, the one that is."""
    counts = Counter(each for view in hit for each in {*view.unsupported})
    sentence, number = counts.most_common(1)[0]
    if number > 1 and 2 * number > len(hit):
        return f", {number} of them the same: {in_quotes(sentence)}"
    return example(lambda view: view.unsupported[0])(hit)


def _foreign_address(view: AnswerView) -> str:
    """A link or mail address of the answer that nothing shown has, and no id or title of it; not
    where the text of the link is the title of a document that was shown.
    """
    seen = [view.documents[each] for each in view.case.seen_ids if each in view.documents]
    known = [*view.shown, view.case.question, view.case.reference.answer or ""]
    known += [str(value) for each in seen for value in each.metadata.values()]
    titles = [set(words(each.title)) for each in seen if each.title]
    answer = _TITLED.sub(
        lambda link: "" if set(words(link[1])) in titles else link[0], view.case.answer or ""
    )
    for match in _ADDRESS.finditer(answer):
        if not _is_known(match[0], known, seen):
            return match[0].rstrip(".,;:!?*_")
    return ""


def _is_known(address: str, texts: Iterable[str], documents: Iterable[Document]) -> bool:
    """Whether a text has a link or mail address in any spelling, or it names a document: by all
    words of a title, or by an id that is a whole segment of its path or value of its query.
    """
    plain = _plain_address(address)
    said = set(words(plain))
    for each in documents:
        wanted = re.escape(_plain_address(each.id))
        whole = rf"(?:^|[/?&=#]){wanted}(?:\.(?:html?|md|pdf|php|txt|json))?(?:[/?&#]|$)"
        if (each.title and set(words(each.title)) <= said) or re.search(whole, plain):
            return True
    held = re.compile(rf"(?<![\w.+-])(?:www\.)?{re.escape(plain)}(?!\w)")
    return any(held.search(unquote(text).lower()) for text in texts)


def _plain_address(address: str) -> str:
    """Without scheme, "www.", upper case and what stands around."""
    return _SCHEME.sub("", unquote(address).lower().strip("`*_")).rstrip(".,;:!?*_`/")


def _added_item(view: AnswerView) -> str:
    """A part of a sentence, after another that is wholly known, without a word that was shown,
    asked or expected: one more item of a list, or a clause that was added.
    """
    known = view.shown_stems | view.reference_stems
    for sentence in view.sentences:
        items = [(found, part) for part in _ITEMS.split(sentence) if (found := set(stems(part)))]
        for found, part in dropwhile(lambda each: not each[0] <= known, items):
            if len(found) <= _ITEM_WORDS and not found & known:
                return part.strip()
    return ""


def _drops_a_unit(view: AnswerView) -> bool:
    """A key figure without the unit that everything shown has with it, and nobody asked for."""
    asked = set(stems(view.case.question))
    expected = set(quantities(view.case.reference.answer or ""))
    units = dict[str, set[str]]()
    for text in view.shown:
        for value, unit in quantities(text):
            units.setdefault(value, set()).add(unit)
    for value, unit in quantities(view.text):
        shown = units.get(value, {""})
        wanted = [each.unit for each in expected if each.value == value and each.unit]
        if not unit and wanted and "" not in shown:
            names = {stem(each) for each in (wanted[0], *spellings_of(wanted[0]))}
            if asked.isdisjoint(names):
                return True
    return False


def _in_sentence(find: Callable[[AnswerView], str]) -> Callable[[Sequence[AnswerView]], str]:
    """A `detail` with a word that is found and the sentence that it stands in."""

    def quote(hit: Sequence[AnswerView]) -> str:
        word = find(hit[0])
        where = [each for each in hit[0].sentences if word in words(each)]
        return f', for example "{word}"' + (f" in {in_quotes(where[0])}" if where else "")

    return quote


def contradicted(hit: Sequence[AnswerView]) -> str:
    """Which sorts of contradiction, and the first with both sides."""
    found = [each for view in hit for each in view.contradictions]
    kinds = Counter(str(each.kind) for each in found).most_common()
    which = ", ".join(f"{kind} {number}" for kind, number in kinds)
    shown = next((each for each in found if each.said and each.source), None)
    if shown is None:
        return f" ({which})" if which else ""
    return f' ({which}), for example "{shown.said}" where the source has "{shown.source}"'


_NOT_ITS_OWN = ("same answer", "answers other questions", "nothing shown", "stale text")
_OTHER_TEXT = ("other language", "repeats instructions", "shows its reasoning", "raw format")
_UNREADABLE = ("unfilled template", "broken characters")
NO_ANSWER = ("asks back", "names a document", "repeats the question")
"""Kinds of answers that say nothing about what was asked."""
_OF_A_SOURCE = ("names unknown sources", "contradicts itself")

_CONTRADICTIONS = (
    *("stale text", "other language", "raw format", "answers other questions", "hedges"),
    *("broken characters", "repeats the question", "contradicts itself", "unfilled template"),
)

CONTRADICTION_CHECKS = (
    AnswerCheck(
        "contradicts its citations",
        "contradict what they cite",
        citing,
        lambda view: bool(view.contradictions),
        detail=contradicted,
        explained_by=_CONTRADICTIONS,
    ),
    AnswerCheck(
        "contradicts its context",
        "contradict what they were shown",
        lambda view: attempted(view) and bool(view.case.seen_ids) and not view.case.citations,
        lambda view: bool(view.contradictions),
        detail=contradicted,
        explained_by=_CONTRADICTIONS,
    ),
)

GROUNDING_CHECKS = (
    AnswerCheck(
        "dangling marks",
        "have a citation mark that points at nothing that was shown",
        lambda view: view.attempted and bool(view.case.seen_ids or view.case.contexts),
        _marks_nothing,
    ),
    AnswerCheck(
        "foreign items",
        "add an item or a clause that nothing shown holds",
        _shown,
        _added_item,
        0.2,
        explained_by=(
            *(*_NOT_ITS_OWN, *_OTHER_TEXT, *_UNREADABLE, *NO_ANSWER, *_OF_A_SOURCE, "padded"),
            *("hedges", "ignores its context", "denies", "answers from memory"),
            "answers and declines",
        ),
    ),
    AnswerCheck(
        "drops units",
        "state a figure without its unit or currency",
        lambda view: answered(view) and bool(view.shown),
        _drops_a_unit,
        explained_by=_UNREADABLE,
    ),
    AnswerCheck(
        "answers from memory",
        "are right although nothing that was shown holds the answer: they are from memory",
        lambda view: answered(view) and view.correct is True and _is_source_known(view),
        _from_memory,
        0.2,
        explained_by=("nothing shown",),
    ),
    AnswerCheck(
        "ignores its context",
        "have no sentence that rests on what was shown: the context is ignored",
        _shown,
        _ignores_what_it_was_shown,
        0.3,
        detail=example(lambda view: view.sentences[0]),
        explained_by=(
            *(*_NOT_ITS_OWN, *_UNREADABLE, *NO_ANSWER, "other language"),
            "answers from memory",
        ),
    ),
    AnswerCheck(
        "unfaithful",
        "have a sentence that nothing shown supports",
        _shown,
        lambda view: bool(view.unsupported),
        0.25,
        detail=_unsupported,
        explained_by=(
            *(*_NOT_ITS_OWN, *_OTHER_TEXT, *_UNREADABLE, *NO_ANSWER, *_OF_A_SOURCE),
            *("ignores its context", "padded", "foreign numbers", "denies", "foreign items"),
            *("answers and declines", "hedges", "wrong number", "wrong date", "wrong name"),
            "foreign addresses",
        ),
    ),
    AnswerCheck(
        "foreign addresses",
        "give a link or address that nothing shown holds",
        _shown,
        _foreign_address,
        explained_by=_NOT_ITS_OWN,
    ),
    AnswerCheck(
        "mixes documents",
        "have a sentence of another document than they cite or need",
        lambda view: citing(view) and answered(view) and bool(view.shown),
        _stray_sentence,
        0.2,
        explained_by=(
            *(*_NOT_ITS_OWN, "cites wrong documents", "padded", "whole passages"),
            "uses another document",
        ),
    ),
    AnswerCheck(
        "uses another document",
        "are from a document that was shown beside the needed one",
        lambda view: answered(view) and view.correct is False and view.evidence,
        _other_source,
        what="wrong answers",
        explained_by=("same answer", "stale text", "same documents"),
    ),
    AnswerCheck(
        "lost conditions",
        'say "always", "everybody" or the like, and nothing shown does',
        lambda view: answered(view) and bool(view.shown),
        _lost_condition,
        explained_by=(*_NOT_ITS_OWN, "ignores its context", "padded"),
    ),
    AnswerCheck(
        "foreign numbers",
        "state a number that nothing shown holds",
        _shown,
        lambda view: bool(view.foreign_numbers),
        0.15,
        detail=_in_sentence(lambda view: min(view.foreign_numbers)),
        explained_by=(
            *(*_NOT_ITS_OWN, *_OF_A_SOURCE, "ignores its context", "raw format"),
            *("wrong number", "wrong date", "foreign addresses"),
        ),
    ),
    AnswerCheck(
        "foreign names",
        "state a name that nothing shown holds",
        _shown,
        lambda view: bool(view.foreign_names),
        0.25,
        detail=_in_sentence(lambda view: min(view.foreign_names)),
        explained_by=(
            *(*_NOT_ITS_OWN, *_OTHER_TEXT, *_UNREADABLE, *NO_ANSWER, *_OF_A_SOURCE),
            *("ignores its context", "foreign items", "wrong name", "foreign addresses"),
        ),
    ),
)
