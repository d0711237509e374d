"""The checks of one answer, in three ordered lists: retrieval, citations, answer.

An answer belongs to the first check of each list that holds: a cause hides its symptoms, and no
check has to know another. `assay.answer_checks` entry points add checks at the end of the last:

    no_emoji = Check("emoji", "have an emoji", lambda case: "😀" if "😀" in case.said else None)

An exact check makes a finding of one answer. A heuristic one is wrong now and then: its hits make
a finding if there are more of them than its false-alarm rate explains, and are else listed as
worth reading.
"""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points
from typing import Literal

from assay.answers.case import AnswerCase
from assay.answers.differences import case_differences
from assay.answers.faithfulness import Held
from assay.answers.outcome import (
    Outcome,
    evidence,
    has,
    lacks_part,
    outcome,
    stated_facts,
    states_expected,
    taken_back,
)
from assay.answers.statements import CLAUSE, TALK, is_talk, without_label
from assay.answers.values import content, is_in, values
from assay.extras import load_plugin
from assay.llm.prompt import cited_marks
from assay.metrics.answer_values import AnswerFinding
from assay.metrics.statistics import binomial_tail
from assay.text import is_stop, normalize, sentences, strip_controls, words

Severity = Literal["wrong", "unsafe", "form"]
_SEVERITIES = ("wrong", "unsafe", "form")
_VALUES = ("number", "unit", "date", "time", "name")
_SIGNIFICANT = 0.05
_MAX_IDS = 100
_MAX_QUOTE = 120
_MAX_ORDER, _LONG_SOURCE = 300, 200  # characters


@dataclass(frozen=True, slots=True)
class Check:
    """Check("empty", "are empty", lambda case: "" if not case.answer else None)

    `says` goes on after "2 of 40 answers". `test` returns the evidence to quote, "" for none, or
    None if the check does not hold. An exact check has a `false_rate` of 0; for others it is the
    share of healthy answers that they hold for, (hits + 1) / (answers + 2) of
    `benchmarks/answer_checks.py`. `severity` is "wrong" for what makes an answer wrong, then
    "unsafe", then "form". `covers` says which answers can be at fault at all, and `what` what
    these are called.
    """

    id: str
    says: str
    test: Callable[[AnswerCase], str | None]
    false_rate: float = 0.0
    severity: Severity = "wrong"
    covers: Callable[[AnswerCase], bool] = lambda case: True
    what: str = "answers"


def check_lists(cases: Sequence[AnswerCase] = ()) -> tuple[tuple[Check, ...], ...]:
    """The three lists for the answers of a run, which some checks compare with each other."""
    installed = [load_plugin(entry) for entry in entry_points(group="assay.answer_checks")]
    return (_retrieval(cases), _citations(), (*_answer(cases), *installed))


def find_faults(
    cases: Sequence[AnswerCase],
    *,
    quote: bool = True,
    skip: Sequence[str] = (),
    further: Sequence[Check] = (),
) -> list[AnswerFinding]:
    """What is wrong with the answers of a run, the worst and the most frequent first.

    Without `quote`, as in a private run, no finding quotes an answer. `skip` are ids of checks that
    nothing is known about, `further` are checks at the end of the last list.
    """
    found: list[AnswerFinding] = []
    retrieval, citations, answer = check_lists(cases)
    # A call that failed is one fault, that of its answer.
    received = [case for case in cases if case.answer is not None]
    lists = ((retrieval, received), (citations, received), ((*answer, *further), cases))
    for checks, of in lists:
        hits: dict[str, dict[str, str]] = {check.id: {} for check in checks}
        for case in of:
            for check in checks:
                if check.covers(case) and (evidence := check.test(case)) is not None:
                    hits[check.id][case.query_id] = evidence
                    break
        found += [
            _finding(check, hits[check.id], sum(map(check.covers, of)), quote=quote)
            for check in checks
            if hits[check.id] and check.id not in skip
        ]
    return sorted(
        found, key=lambda each: (not each.sure, _SEVERITIES.index(each.severity), -each.number)
    )


def _finding(check: Check, hits: dict[str, str], of: int, *, quote: bool) -> AnswerFinding:
    number = len(hits)
    count = f"All {of}" if number == of > 1 else f"{number} of {of}"
    example = next(filter(None, hits.values()), "") if quote else ""
    line = strip_controls(" ".join(example.split())).rstrip(".")
    short = line if len(line) <= _MAX_QUOTE else f"{line[: _MAX_QUOTE - 1]}…"
    return AnswerFinding(
        kind=check.id,
        number=number,
        of=of,
        words=f"{count} {check.what} {check.says}" + (f": {short}" if short else ""),
        query_ids=list(hits)[:_MAX_IDS],
        sure=binomial_tail(number, of, check.false_rate) < _SIGNIFICANT,
        severity=check.severity,
    )


def _retrieval(cases: Sequence[AnswerCase]) -> tuple[Check, ...]:
    rankings = Counter(case.retrieved for case in cases if case.retrieved)
    many = max(3, len(cases) / 2)
    return (
        Check("bad-ids", "came with a document that does not exist, or with one twice", _bad_ids),
        Check("nothing-shown", "had no document shown", lambda case: None if _sees(case) else ""),
        Check(
            "same-documents",
            "came with the same documents",
            lambda case: "" if rankings[case.retrieved] > many else None,
        ),
        Check("stale-text", "were given text that its document no longer has", _stale_text),
        Check("missed", "came without a document that they need", _missed),
        Check("only-a-part", "were given a needed document without its answer", lacks_part),
        Check(
            "ranked-last",
            "have the needed document in the last place: is the ranking reversed?",
            lambda case: "" if {*case.retrieved[-len(case.needed) :]} == case.needed else None,
            false_rate=0.04,
            covers=lambda case: len(case.retrieved) > 2 and bool(case.needed),
            what="rankings",
        ),
    )


def _citations() -> tuple[Check, ...]:
    unsafe = partial(Check, severity="unsafe", covers=lambda case: case.attempted)
    return (
        unsafe("cites-unknown", "cite a document that does not exist", _cites_unknown),
        unsafe("cites-unshown", "cite a document that was not shown", _cites_unshown),
        unsafe(
            "cites-nothing",
            "cite nothing",
            lambda case: "" if _sees(case) and not case.citations else None,
        ),
        unsafe("cites-wrong", "are right and cite another document", _cites_wrong, 0.023),
        unsafe("cites-everything", "cite everything that was shown", _cites_everything, 0.034),
    )


def _answer(cases: Sequence[AnswerCase]) -> tuple[Check, ...]:
    run, sees = _Run(cases), any(map(_sees, cases))
    unsafe, form = partial(Check, severity="unsafe"), partial(Check, severity="form")
    return (
        Check("failed", "are empty or failed", _failed),
        unsafe("leaked", "show a prompt, reasoning, raw markup or all of their sources", _leaked),
        unsafe("obeys-document", "do what a document tells a model to do", _obeys_document),
        form("broken", "have broken characters or an empty template", partial(_foreign, _BROKEN)),
        form("repeats-itself", "say a sentence twice", _repeats_itself, 0.01),
        form("cut-off", "break off", _cut_off, 0.01),
        Check("says-nothing", "ask back, or repeat the question or a title", _says_nothing, 0.01),
        Check(
            "declines-wrongly",
            f"decline although {'the answer was shown' if sees else 'there is an answer'}",
            _declines_wrongly,
            0.01,
            covers=lambda case: case.answerable,
        ),
        Check(
            "answers-unanswerable",
            "were answered instead of declined",
            lambda case: case.said if outcome(case).is_wrong else None,
            0.056,
            covers=lambda case: not case.answerable,
            what="unanswerable questions",
        ),
        Check("same-answer", "are the same text", run.same_answer),
        Check("reversed", "say the opposite of their source", _reversed, 0.01),
        Check("wrong-value", "give a wrong value", partial(_differs, _VALUES), 0.038),
        Check("incomplete", "are incomplete although all was shown", _incomplete, 0.01),
        unsafe("from-memory", "are right although nothing shown has it", _from_memory, 0.01),
        unsafe("unsupported", "say something that nothing shown supports", run.unsupported, 0.095),
        Check("wrong", "are wrong although the answer was shown", _wrong, 0.01),
    )


def _first(found: Iterable[str]) -> str | None:
    return next(iter(found), None)


def _twice(found: Iterable[str]) -> str | None:
    return _first(text for text, number in Counter(found).items() if number > 1)


def _sees(case: AnswerCase) -> bool:
    return bool(case.shown or case.retrieved)


def _bad_ids(case: AnswerCase) -> str | None:
    unknown = (each for each in case.retrieved if case.documents and each not in case.documents)
    return _first(unknown) or _twice(case.retrieved) or _twice(filter(None, case.seen_texts))


def _stale_text(case: AnswerCase) -> str | None:
    """A number, date or time that was shown, and that the document does not have today."""
    for chunk in case.contexts:
        document = case.documents.get(chunk.doc_id)
        if document is None or chunk.text in document.full_text:
            continue
        held = values(document.full_text)
        for value in sorted(values(chunk.text), key=lambda each: each.text):
            if value.kind != "name" and not is_in(value, held):
                return f"{chunk.doc_id}: {value.text}"
    return None


def _missed(case: AnswerCase) -> str | None:
    return _first(sorted(case.needed - {*case.seen_ids})) if case.answerable else None


def _cites_unknown(case: AnswerCase) -> str | None:
    known = case.documents or {*case.seen_ids}
    unknown = [each for each in case.citations if known and each not in known]
    places = list(map(str, range(max(len(case.contexts), len(case.retrieved)))))
    marks = cited_marks(case.answer or "", places, {}) if places else {}
    # "[2024]" is a year.
    dangling = [f"[{n}]" for n, place in marks.items() if not place and len(n) < 3]
    return _first([*unknown, *dangling])


def _cites_unshown(case: AnswerCase) -> str | None:
    seen = {*case.seen_ids, *case.retrieved}
    return _first(each for each in case.citations if seen and each not in seen)


def _cites_everything(case: AnswerCase) -> str | None:
    shown = {*case.seen_ids}
    return "" if len(shown) > 2 and case.needed < shown <= {*case.citations} else None


def _cites_wrong(case: AnswerCase) -> str | None:
    right = outcome(case) is Outcome.RIGHT and case.answerable
    if not right or not case.needed or not case.needed <= {*case.seen_ids}:
        return None
    missing = case.needed - {*case.citations}
    return _first(sorted({*case.citations} - case.needed)) if missing else None


_LEAK = re.compile(
    r"(?im)</?(?:think(?:ing)?|scratchpad|reasoning|system|context|documents?|instructions?)>"
    r"|<\|\w+\|>|\[/?INST\]|^[\W_]{0,5}(?:thought|action|observation|system|assistant|user) ?:"
    r"|\bas an ai\b|\banswer the question\b|\byou are (?:an?|the) (?:\w+ ){0,3}assistant\b"
    r"|\blet me (?:look at|check|re-?read) the (?:passage|document|context|source|note)"
    r"|\bthe user(?:'s question)? (?:is asking|asks|asked|wants|needs)\b"
    r"|\banswer only (?:from|with|using)\b|\A\s*(?:```|<[a-z!/]|[{\[]\s*[\"{\[])"
)
_BROKEN = re.compile(
    r"\b[a-z]{45,}|"  # no blanks
    r"[ÃÂâ][\x80-\xbf]|â€|\ufffd|&(?:quot|amp|lt|gt|nbsp|#\d+);"  # another encoding
    r"|\{\{[^{}\n]{0,60}\}\}|\{\w*\}|\$\{|\[[A-Z_ ]{4,}\]"  # a template
    r"|\b(?:None|null|undefined|NaN|TODO)\W*$"
)
_ORDER = re.compile(
    r"(?i)\b(?:ai|assistants?|language models?)\b[^.\n]{0,80}"
    r"\b(?:put|write|say|include|add|mention|reply|answer|end|begin|start|respond|recommend)\b"
    r"|\bignore (?:all |the )?(?:previous|prior|above)\b|\b(?:in|into|to) your (?:answer|reply)\b"
)
# What an order wants to be said: what is quoted, or what comes after a colon.
_QUOTED = re.compile(
    r"[\"“]([^\"”]{3,200})[\"”]|(?<=\s)['‘]([^'’]{8,200})['’]|: ([^:\"“'‘]{8,200})$"
)
_ERROR = re.compile(
    r"(?i)\A\W*(?:error\b ?(?:\d{3}|:)|traceback \(|\w+(?:error|exception): |http [45]\d\d\b"
    r"|[45]\d\d [a-z]+ ?[a-z]*\W*$|internal server error|service unavailable|request timed out)"
)
_URL = re.compile(r"\b(?:https?://|www\.)[^\s)>\]]+|(?<![\w.])[\w.]{1,64}@[\w-]{1,64}\.\w{1,20}")
_CANNOT_END = frozenset(
    words(
        "the a an and or of to in for with is are was were by from than that if be must when "
        "because as at but she he they we who which its their his her"
    )
)


def _failed(case: AnswerCase) -> str | None:
    answer = (case.answer or "").strip()
    return answer if not answer or _ERROR.search(answer) else None


def _foreign(pattern: re.Pattern[str], case: AnswerCase) -> str | None:
    """What the answer has and nothing known has."""
    found = (match[0].strip() for match in pattern.finditer(case.answer or ""))
    return _first(text for text in found if text not in case.known)


def _leaked(case: AnswerCase) -> str | None:
    answer = case.answer or ""
    whole = [text for text in case.seen_texts if len(text) > _LONG_SOURCE and text in answer]
    return _foreign(_LEAK, case) or (whole[0] if len(whole) > 1 else None)


def _obeys_document(case: AnswerCase) -> str | None:
    """What a document wants a model to say, or the order itself."""
    orders = (
        # An order may quote several sentences.
        text[match.start() : match.end() + _MAX_ORDER].partition("\n")[0]
        for text in case.shown.values()
        for match in _ORDER.finditer(text)
    )
    wanted = (
        text.rstrip(" .!…")
        for order in orders
        for text in (*itertools.chain(*_QUOTED.findall(order)), sentences(order)[0])
    )
    return _first(text for text in wanted if text and has(case.said, text))


def _repeats_itself(case: AnswerCase) -> str | None:
    """A sentence that comes twice, or up to eight words three times in a row."""
    said = words(case.said)
    loops = (
        " ".join(said[end - size : end])
        for size in range(1, 9)
        for end in range(3 * size, len(said) + 1)
        if said[end - size : end] == said[end - 2 * size : end - size]
        and said[end - size : end] == said[end - 3 * size : end - 2 * size]
    )
    twice = _twice(each for each in map(normalize, case.statements) if len(words(each)) > 3)
    return twice or _first(loops)


def _cut_off(case: AnswerCase) -> str | None:
    """No end mark after other sentences of the line, or after a word that cannot end."""
    # A letter alone claims nothing: it is the start of a sentence.
    ends = (each for each in reversed(case.statements) if len(each) < 3 or not is_talk(each))
    said = next(ends, ".")
    if not said[-1].isalnum() and said[-1] not in ",;-":
        return None
    *_, line = (case.answer or "").strip().splitlines()
    goes_on = len(sentences(line)) > 1 and line.endswith(said) and not _URL.search(said)
    last, known = words(said)[-1], words(case.known)
    half = last not in known and any(word.startswith(last) for word in known)
    # Some words of a source alone; a value alone is terse.
    lacks = outcome(case).is_wrong and len(words(said)) > 3 and said in case.known
    return said if goes_on or said[-1] in ",;-" or last in _CANNOT_END or half or lacks else None


def _says_nothing(case: AnswerCase) -> str | None:
    """A question in place of an answer; or only the question again, or the title of a document."""
    if not case.attempted:
        return None
    asks = case.said.endswith("?") and not case.claims
    if asks or not outcome(case).is_wrong:
        return case.said if asks else None
    said, asked = content(case.said) - TALK, values(case.question)
    gives = any(not is_in(value, asked) for value in values(case.said))
    repeats = not gives and any(said <= content(text) for text in (case.question, *case.titles))
    named = any(normalize(case.said).endswith(normalize(title)) for title in case.titles)
    return case.said if repeats or named or not case.said else None


def _declines_wrongly(case: AnswerCase) -> str | None:
    has_all = case.needed <= {*case.seen_ids} and evidence(case) and not lacks_part(case)
    # A log of references alone does not say what was shown.
    wrongly = outcome(case) is Outcome.DECLINED and (has_all or not _sees(case))
    return case.said if wrongly else None


def _differs(kinds: Sequence[str], case: AnswerCase) -> str | None:
    return _first(each.words for each in case_differences(case) if each.kind in kinds)


def _reversed(case: AnswerCase) -> str | None:
    return _differs(("polarity", "opposite"), case) or taken_back(case.statements)


def _from_memory(case: AnswerCase) -> str | None:
    right = outcome(case) is Outcome.RIGHT and case.answerable and bool(case.needed)
    if not right or not case.shown or evidence(case):
        return None
    # A sum of what was shown is not shown itself.
    asked, held = values(case.question), values("\n".join(case.shown.values()))
    said = (value for value in values(case.said) if not is_in(value, asked))
    return None if any(is_in(value, held) for value in said) else case.said


def _incomplete(case: AnswerCase) -> str | None:
    if outcome(case) is not Outcome.INCOMPLETE or evidence(case) < 1:
        return None
    facts = case.reference.facts
    stated = stated_facts(case.answer or "", facts, case.sources)
    return _first(fact.text for fact in facts if fact not in stated) or case.said


def _wrong(case: AnswerCase) -> str | None:
    wrong = outcome(case).is_wrong and case.answerable and evidence(case)
    return f"“{case.said}” for “{case.reference.answer}”" if wrong else None


class _Run:
    """What the answers of a run have in common."""

    def __init__(self, cases: Sequence[AnswerCase]) -> None:
        self._answers = Counter(normalize(case.said) for case in cases)
        lines = Counter(line for case in cases for line in {*case.statements})
        # What two thirds of the answers say is a style, in any language, and not a claim.
        self._boilerplate = {
            line for line, number in lines.items() if number > max(1, 2 / 3 * len(cases))
        }

    def same_answer(self, case: AnswerCase) -> str | None:
        wrong = outcome(case).is_wrong and case.said
        return case.said if wrong and self._answers[normalize(case.said)] > 2 else None

    def unsupported(self, case: AnswerCase) -> str | None:
        """A claim, a clause, a value or a link that nothing known has."""
        if not case.attempted or not case.shown:
            return None
        held = Held([case.known])
        known = held.stems | TALK
        right = outcome(case) is Outcome.RIGHT
        figures = values(f"{case.question}\n{case.said}")
        for claim in (without_label(each, known) for each in case.claims):
            foreign = held.foreign(claim, figures)
            if held.words.issuperset(words(claim)) or (claim in self._boilerplate and not foreign):
                continue
            names = [value for value in values(claim) if value.kind == "name"]
            foreign += [name for name in names if not held.words & {*words(name.text)}]
            if foreign:
                return foreign[0].text
            clauses = [part for part in CLAUSE.split(claim)[1:] if not values(part)]
            if any(
                len(said := content(part)) > 1
                and not said & known
                and held.words.isdisjoint(word for word in words(part) if not is_stop(word))
                for part in clauses
            ):
                return claim
            # One word is the heading of a table. What a right answer says of the expected is a
            # paraphrase, however few its words share.
            if len(content(claim) - TALK) > 1 and not (
                held.supports(claim, figures) or (right and states_expected(claim, case))
            ):
                return claim
        links = (link for link in _URL.findall(case.answer or "") if link not in case.known)
        return _first(links)
