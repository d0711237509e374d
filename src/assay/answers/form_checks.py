"""Finding checks of an answer's text: broken, cut off, not for its reader, or no answer at all.

Each is one row of `FORM_CHECKS`, and needs no judgment of what is right.
"""

import re
from collections import Counter
from collections.abc import Sequence

from assay.answers.abstention import abstained
from assay.answers.answer_view import AnswerCheck, AnswerView, example
from assay.answers.assertion import is_negative
from assay.answers.framing import (
    bare_text,
    is_question,
    stemmed,
    without_asking_again,
    without_source_lines,
)
from assay.answers.lexical import yes_or_no
from assay.answers.quantities import numbers
from assay.llm.answerer import is_instruction
from assay.text import detect_language, is_stop, normalize, sentences, stem, stems, words

_PROMPT = re.compile(
    r"\byou (?:are|will be) (?:a|an|given|asked)\b|\banswer the (?:following )?question\b|"
    r"\b(?:based|using) only (?:on )?the (?:following |provided |given )?(?:context|documents)\b|"
    r"\bif (?:the documents|you) do(?:es)? not (?:hold|know|contain)\b|\bhelpful assistant\b|"
    r"</?(?:document|context|question|system|instructions?)\b|\bas an ai\b|"
    r"\byou are (?:\w+, )?(?:an?|the) (?:\w+ ){0,3}(?:assistant|chat ?bot|bot|language model)\b|"
    r"\b(?:answer|respond|reply) only (?:from|with|using|based on|in) (?:the|this|your)\b|"
    r"\b(?:do not|never) (?:mention|reveal|disclose|repeat) (?:these|this|the|your) "
    r"(?:rules|instructions?|prompt)\b|"
    r"^\s*(?:system|user|assistant|human|instructions?|context|question)\s*:",
    re.IGNORECASE,
)
_ROLE = re.compile(
    r"\[/?(?:system|user|assistant|inst)\]|<\|[a-z_]{2,20}\|>|<</?sys>>|"
    r"^#{2,} ?(?:instruction|response|human|assistant|system)\b",
    re.IGNORECASE | re.MULTILINE,
)
_REASONING = re.compile(
    r"</?(?:think(?:ing)?|thoughts?|reasoning|scratchpad|reflection|analysis|plan)>|"
    r"^[^\w\n]*(?:thought|action|action input|observation|scratchpad|chain of thought)\s*:",
    re.IGNORECASE | re.MULTILINE,
)
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
    r"\[(?:insert|your|placeholder)\b[^\]\n]*\]|[\[<][A-Z]{3}[A-Z_ ]{0,30}[\]>]|\bTODO\b|"
    r"\blorem ipsum\b|_{3,}|"
    # "XX:XX", "XXXX", "£XX", "XX euros"; "chapter XX" and "XX chromosomes" have a meaning.
    r"\b(?:X{2,}(?:[.,:/-]X+)+|X{4,})\b|(?:[€$£] ?|\b(?:at|costs?) )X{2,}\b(?! chrom)|"
    r"\bX{2,}(?= ?(?:[%€$£°]|(?:euros?|pounds?|dollars?|percent|minutes?|hours?|days?)\b))",
)
_RULE = re.compile(r"^[ \t]*_{3,}[ \t]*$", re.MULTILINE)  # a line across the page in Markdown
# "04/11/2026": the fourth of November, or the eleventh of April.
_EITHER_DATE = re.compile(
    r"\b(?:0?([1-9])|(1[0-2]))/(?!(?:0?\1|\2)/)(?:0?[1-9]|1[0-2])/(?:\d{4}|\d\d)\b"
)
_COMPLETE = re.compile(r"(?:[.!?。！？][\"'”’)\]*_]*|[)\]])$")
# Words that nothing ends with; "9 am" and "turned off" are ends.
_BREAKS_OFF = re.compile(
    r"(?:…|\.\.\.|[,;:(\[–-]|\b(?:the|a|an|and|or|but|of|to|in|on|at|for|with|without|by|from|into|"
    r"between|during|until|within|than|is|was|are|were|that|which|whose|because|if|while|per|as|"
    r"its|their|your|our|my|every|und|oder|der|das|dem|eine?[nmrs]?|mit|von|für|zum|zur|le|les|du|"
    r"et|une|el|los|las|para|del|della|het|een))[\"'”’)\]]*$",
    re.IGNORECASE,
)
_LAST_WORDS = 3
_LONG, _LONGER = 60, 5
_STUTTERS, _GROUP = 4, 4
_PASSAGE, _WHOLE = 60, 10
# What may stand around a title that is named in place of an answer.
_POINTERS = stemmed("see refer read consult check look page document article section please find")
_ASIDES = stemmed("however actually instead correction correct fact rather yet")
_CORRECTS = re.compile(
    r"\W*(?:correction|actually|no, wait|wait|sorry|i mean|or rather|in fact|korrektur|"
    r"correcci[oó]n)\b",
    re.IGNORECASE,
)
_SAME_WORDS, _MOST_SENTENCES = 3, 30


def attempted(view: AnswerView) -> bool:
    """Whether there is an answer that does not decline."""
    return view.attempted


def answered(view: AnswerView) -> bool:
    """Whether there is an answer, and an answer to find."""
    return view.attempted and view.case.answerable


def asked(view: AnswerView) -> bool:
    """Whether the agent replied."""
    return view.case.answer is not None


def citing(view: AnswerView) -> bool:
    """Whether there is an answer that cites something."""
    return view.attempted and bool(view.case.citations)


def is_formatted(view: AnswerView) -> bool:
    """Whether the text begins as JSON, markup or code does."""
    return _FORMATTED.match(view.text) is not None


def _is_in_another_language(view: AnswerView) -> bool:
    expected = detect_language([view.case.question, *view.shown[:3]])
    said = detect_language([" ".join(view.sentences) or view.text])
    return said is not None and expected is not None and said != expected


def _instruction(view: AnswerView) -> str:
    """The part of a prompt or of a conversation that an answer repeats."""
    if role := _ROLE.search(view.case.answer or ""):
        return role[0]
    said = [each for each in sentences(view.text) if len(words(each)) > 1]  # "No" is an answer
    return next((each for each in said if is_instruction(each) or _PROMPT.search(each)), "")


def repeats_the_question(view: AnswerView) -> bool:
    """Whether the text is most of the question and nothing else, no yes or no either, and states no
    key fact.
    """
    if yes_or_no(view.text):
        return False
    said = set(stems(without_asking_again(view.text)))
    asked = set(stems(view.case.question))
    return bool(said) and said <= asked and 2 * len(said) >= len(asked) and not view.stated


def _names_a_document(view: AnswerView) -> bool:
    """Nothing but the title of a document that was shown, or of one that is needed."""
    ids = (*view.case.seen_ids, *view.case.needed)
    titles = [set(words(view.documents[each].title)) for each in ids if each in view.documents]
    said = set(words(view.text))
    return not view.stated and any(
        title and title <= said and all(is_stop(w) or stem(w) in _POINTERS for w in said - title)
        for title in titles
    )


def _repeats_itself(view: AnswerView) -> bool:
    """Not the cells of a table, of which many are the same."""
    told = [each for each in view.sentences if len(words(each)) >= 3 and "|" not in each]
    said = Counter(map(normalize, told))
    prose = "\n".join(line for line in view.text.splitlines() if "|" not in line)
    return any(number > 1 for number in said.values()) or _stutters(words(prose))


def _stutters(said: Sequence[str]) -> bool:
    """Whether words, or groups of up to four, come twice in a row again and again."""
    return any(
        sum(said[i : i + size] == said[i + size : i + 2 * size] for i in range(len(said)))
        >= max(_STUTTERS, len(said) // 5)
        for size in range(1, _GROUP + 1)
    )


def _is_a_passage(view: AnswerView) -> bool:
    """Whether whole passages are given, with or without a title, three times as long as the
    reference or more.
    """
    said = words(view.text)
    if len(said) < max(_PASSAGE, 3 * len(words(view.case.reference.answer or ""))):
        return False
    whole = " ".join(said)
    passages = sorted((words(each) for each in view.shown), key=len, reverse=True)
    for each in passages:
        whole = whole.replace(" ".join(each), "") if len(each) >= _WHOLE else whole
    return len(whole.split()) < _WHOLE or any(
        " ".join(each[-len(said) :]) == whole for each in passages if len(each) - 10 < len(said)
    )


def self_contradiction(view: AnswerView) -> tuple[str, str] | None:
    """Two sentences with the same words and other numbers, or of which one negates; or a number
    that a later sentence corrects ("Correction: it is 42").

    Not where the sources have all these numbers: a table has many rows of the same words.
    """
    read = [
        (each, _subject(each), numbers(each), is_negative(normalize(each)))
        for each in view.sentences[:_MOST_SENTENCES]
        if not is_question(each)
    ]
    for place, (one, ours, figures, negative) in enumerate(read):
        corrects = _CORRECTS.match(one) is not None
        for other, theirs, others, negates in read[:place]:
            same = ours == theirs and len(ours) >= _SAME_WORDS
            if not same and not (corrects and ours <= theirs):
                continue
            changed = figures ^ others if len(figures) == len(others) or corrects else set()
            if (figures & changed) - view.shown_stems or (negative is not negates and not changed):
                return other, one
    return None


def _subject(sentence: str) -> frozenset[str]:
    found = {each for each in stems(sentence) if not each[0].isdigit()}
    return frozenset(found - _ASIDES - {"never", "cannot"})


def breaks_off(view: AnswerView) -> bool:
    """Whether the text ends in the middle of a sentence.

    Lines that name sources are no part of it. A full stop that is missing is a style, unless the
    last word cannot be the last, or a source or the reference goes on after it: of a right answer,
    within the word.
    """
    text = _body(view)
    if is_formatted(view):
        return False
    if _BREAKS_OFF.search(text):
        return True
    return not _COMPLETE.search(text) and _goes_on_in_a_source(text, view)


def _body(view: AnswerView) -> str:
    return bare_text(without_source_lines(view.case.answer or "")).strip()


def _goes_on_in_a_source(text: str, view: AnswerView) -> bool:
    """Whether a source or the reference has the last words in the middle of a sentence, or the last
    word as the beginning of a longer one.
    """
    last = words(text)[-_LAST_WORDS:]
    if len(last) < _LAST_WORDS:
        return False
    # A capital after it begins the text under a title.
    further = r"(?:[^\W_]{2})" if view.correct else r"(?:,? [a-zß-ÿ]|[^\W_]{2})"
    end = re.compile("(?i:" + r"\W+".join(map(re.escape, last)) + ")" + further)
    return any(end.search(each) for each in [*view.shown, view.case.reference.answer or ""])


def _is_padded(view: AnswerView) -> bool:
    expected = len(words(view.case.reference.answer or ""))
    return len(words(view.text)) >= max(_LONG, _LONGER * expected)


def _foreign(pattern: re.Pattern[str], view: AnswerView) -> str:
    """What the answer first has of such characters; a document that has them may be quoted."""
    found = [match[0].strip() for match in pattern.finditer(_RULE.sub("", view.text))]
    known = [*view.shown, *view.documents.keys() & {each[1:-1] for each in found}]
    foreign = (each for each in found if not any(each.strip("[]<>") in text for text in known))
    return next(foreign, "")


def _declines_too(view: AnswerView) -> bool:
    both = view.attempted or view.stated > 0
    return both and len(view.sentences) > 1 and any(map(abstained, view.sentences))


_UNREADABLE = ("unfilled template", "broken characters")

FORM_CHECKS = (
    AnswerCheck(
        "empty answer", "are empty", asked, lambda view: not any(map(str.isalnum, view.text))
    ),
    AnswerCheck(
        "unfilled template",
        "hold a placeholder or an empty value in place of a text",
        attempted,
        lambda view: _foreign(_UNFILLED, view),
    ),
    AnswerCheck(
        "broken characters",
        "have broken characters: an encoding, or HTML that was not decoded",
        attempted,
        lambda view: bool(_foreign(_BROKEN, view)),
    ),
    AnswerCheck(
        "ambiguous dates",
        "write a date in figures of which day and month may be taken for each other",
        attempted,
        lambda view: _foreign(_EITHER_DATE, view),
    ),
    AnswerCheck(
        "shows its reasoning",
        "show the model's reasoning or the steps of an agent",
        attempted,
        lambda view: _REASONING.search(view.case.answer or "") is not None,
    ),
    AnswerCheck(
        "repeats instructions",
        "repeat an instruction or a part of the prompt",
        attempted,
        _instruction,
        explained_by=("same answer", "follows documents"),
    ),
    AnswerCheck(
        "raw format",
        "are JSON, markup or code in place of a text",
        attempted,
        is_formatted,
        explained_by=("shows its reasoning", "repeats instructions"),
    ),
    AnswerCheck(
        "other language",
        "are in another language than question and documents",
        attempted,
        _is_in_another_language,
        0.2,
    ),
    AnswerCheck(
        "answers and declines",
        "answer and decline at once",
        lambda view: asked(view) and view.case.answerable,
        _declines_too,
        0.3,
    ),
    AnswerCheck(
        "contradicts itself",
        "contradict themselves",
        attempted,
        lambda view: self_contradiction(view) is not None,
        0.05,
        detail=example(lambda view: " / ".join(self_contradiction(view) or ())),
        explained_by=("stale text",),
    ),
    AnswerCheck(
        "repeats the question",
        "only repeat the question",
        answered,
        repeats_the_question,
        explained_by=("breaks off", "names a document"),
    ),
    AnswerCheck(
        "names a document",
        "give the title of a document in place of an answer",
        answered,
        _names_a_document,
        detail=example(lambda view: view.text),
    ),
    AnswerCheck(
        "asks back",
        "ask a question in place of answering",
        answered,
        lambda view: (
            bool(view.sentences) and not view.stated and all(map(is_question, view.sentences))
        ),
        detail=example(lambda view: view.text),
        explained_by=("repeats the question",),
    ),
    AnswerCheck("repeats itself", "say a sentence or words twice", attempted, _repeats_itself),
    AnswerCheck(
        "breaks off",
        "break off in the middle of a sentence",
        attempted,
        breaks_off,
        0.3,
        detail=example(lambda view: _body(view)[-40:]),
        explained_by=_UNREADABLE,
    ),
    AnswerCheck(
        "padded",
        f"are padded: {_LONG} words or more, and {_LONGER} times the reference",
        lambda view: answered(view) and bool(view.case.reference.answer),
        _is_padded,
        0.3,
        explained_by=("whole passages",),
    ),
    AnswerCheck(
        "whole passages",
        "are a whole passage that was shown, in place of an answer",
        lambda view: answered(view) and bool(view.case.reference.answer),
        _is_a_passage,
        0.3,
    ),
)
"""The most telling first."""
