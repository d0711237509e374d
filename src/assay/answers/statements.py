"""What an answer states: its sentences without source marks, markup, courtesy; and refusals.

>>> statements("A locker costs **3 euros** [prices].\\n\\nSources: prices, rules")
['A locker costs 3 euros.']
>>> abstained("I could not find that in the documents.")
True
"""

import re
from collections.abc import Collection, Container, Sequence
from functools import partial
from itertools import dropwhile

from assay.answers.values import Value, content, is_in, values, without_stance
from assay.llm.passages import NOT_FOUND
from assay.llm.prompt import without_markers
from assay.text import is_negation, is_stop, normalize, sentences, stem, stems, words

# Words of conversations, answers and documents in general: they say nothing about a subject.
_TALK_WORDS = """hello hi hey dear customer thank thanks welcome great good question questions help
    helpful let know need anything else happy glad hope contact office team please more further
    detail details note information interest regards best kind reflects given documentation docs
    document documents page source sources official latest current today general change check
    answer answers short summary say says see find found looked look confidence high medium low
    according based sure yes certainly course here asked notice use refer read section quote guide
    handbook manual far regarding"""
TALK = frozenset(map(stem, _TALK_WORDS.split()))
_COURTESY = re.compile(
    r"\b(?:let (?:me|us) know|feel free|hesitate to|thank(?:s| you) for|(?:best|kind) regards|"
    r"(?:please|should|can) (?:contact|ask|check|verify|consult)|(?:not|no) \w+ advice|"
    r"subject to change|(?:may|might) change|"
    r"dear \w+,|your team|here(?:'s| is) what|for more (?:details|information)|"
    r"(?:able to|can) help)"
)
_LINK = re.compile(r"\[([^\]\n]{1,200})\]\([^()\s]{1,500}\)")
# "(billing-faq)", "[a; b]", "(see Billing)", "[^1]:" and "¹"; not "10²".
_BRACKETS = re.compile(r" ?[\[(]((?:see|source:?) )?([^\[\]()\n]{1,200})[\])]", re.IGNORECASE)
_FOOTNOTE = re.compile(
    r"^\[\^\w{1,20}\]:.*|\[\^\w{1,20}\]|<sup>.{1,20}</sup>"
    r"|(?<=[^\W\d])(?<!\bm)(?<!\bkm)(?<!\bcm)(?<!\bft)[¹²³]|(?<=[.!?])[¹²³]|^[¹²³] ",
    re.MULTILINE,
)
_SOURCES = re.compile(
    r"\W{0,8}(?:sources?|references?|citations?|see also|further reading)\b[\s*]{0,4}(?::|$)",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"[*`|]+|^[ \t]*[#>]+|(?<!\w)_+|_+(?!\w)", re.MULTILINE)
_CONVERSION = re.compile(r"(?<=[\w€$£%]) \((?:about |approx\S* |[~≈] ?)?[€$£]?\d[^()\n]{0,30}\)")
CLAUSE = re.compile(
    r"[,;:()–](?!\d)| - |\b(?:and|or|but|except|unless|until|if|for|with|because)\b"
)
_CONTRAST = re.compile(r"[,;]? \b(?:but|however|although|though|that said)\b,? ?|: ", re.IGNORECASE)
MAX_STATEMENTS = 500  # sentences of an answer that are measured


def statements(answer: str, names: Collection[str] = ()) -> list[str]:
    """The sentences of an answer without markup, source marks and its list of sources.

    `names` are ids and titles of documents: what names nothing else in brackets is a source mark.
    """
    known = {normalize(name) for name in names}
    bare = _FOOTNOTE.sub("", _LINK.sub(r"\1", answer))
    bare = without_markers(_BRACKETS.sub(lambda mark: _unless_source(mark, known), bare))
    kept: list[str] = []
    in_sources = False
    for line in _MARKUP.sub(lambda mark: "\n" if "|" in mark[0] else "", bare).split("\n"):
        listed = not line.strip() or line.strip()[0] in "-•([0123456789"
        in_sources = (in_sources and listed) or bool(_SOURCES.match(line))
        if in_sources or len(kept) > MAX_STATEMENTS:
            continue
        for sentence in sentences(line):
            if _SOURCES.match(sentence):
                break
            if normalize(sentence.strip(".")) not in known:
                kept.append(sentence)
    return kept[:MAX_STATEMENTS]


def _unless_source(mark: re.Match[str], known: Collection[str]) -> str:
    parts = [normalize(part) for part in mark[2].replace(";", ",").split(",")]
    is_id = mark[0].strip()[0] == "[" and " " not in mark[2]
    return "" if is_id or mark[1] or all(part in known for part in parts) else mark[0]


def is_talk(sentence: str) -> bool:
    """Whether a sentence states nothing: courtesy, an offer, a disclaimer, a question, a heading.

    >>> is_talk("Let me know if you need anything else!"), is_talk("The office costs 5 euros.")
    (True, False)
    """
    if sentence.rstrip("\"'”’) ").endswith("?"):
        return True
    # "In other words: no" and "The rules are:" have nothing after their heading.
    stated = sentence.rpartition(":")[2]
    talks = bool(_COURTESY.search(normalize(sentence))) or content(stated) <= TALK
    return talks and all(value.kind == "name" for value in values(sentence))


def is_heading(sentence: str) -> bool:
    """Whether a few words without an end mark name what follows: a title, a row; or wish well.

    >>> is_heading("Opening hours"), is_heading("Have a nice day!"), is_heading("Dogs may enter.")
    (True, True, False)
    """
    return len(content(sentence)) < 4 and not values(sentence) and sentence[-1] not in ".;:"


def without_label(sentence: str, known: Container[str]) -> str:
    """The sentence without up to three words and a colon of which no source has a stem.

    >>> without_label("TL;DR: It costs 5 euros.", {"cost"})
    'It costs 5 euros.'
    """
    label, _, rest = sentence.partition(": ")  # not the colon of 19:00
    is_label = bool(rest.strip()) and len(words(label)) < 4
    return (
        rest.strip() if is_label and not any(map(known.__contains__, content(label))) else sentence
    )


def claims(said: Sequence[str]) -> list[str]:
    """Those of the statements that a source has to support, without conversions in brackets."""
    return [_CONVERSION.sub("", sentence) for sentence in said if not is_talk(sentence)]


# A refusal denies, right before it, that a source tells something or that the speaker knows it.
_DENYING = frozenset(words("silent unable unclear unknown unspecified confidential lacks beyond"))
_DOCUMENTS = """document documents documentation source sources notes note context passage passages
    page pages handbook manual guide file files record records text texts material excerpt website
    policy database rules article articles snippets"""
_SPEAKERS = f"{_DOCUMENTS} i we this that it there information data details answer"
_TELLING = """answer find found know known say tell help determine mention state specify locate
    information unclear unknown unspecified silent confidential disclose details confirm cover"""
_HOLDING = f"""{_TELLING} contain provide include give explain describe indicate address have
    has list name record lacks about sure certain"""
_REFUSALS = tuple(
    (frozenset(map(stem, speakers.split())), frozenset(map(stem, verbs.split())))
    for speakers, verbs in ((_SPEAKERS, _TELLING), (f"i {_DOCUMENTS}", _HOLDING))
)
_FILES = frozenset(map(stem, _DOCUMENTS.split()))
_SPEAKING = frozenset(("i", "we", "they"))
# "According to the guide, dogs may not enter" denies nothing of the guide, and the number of "4
# documents" is no answer.
_INTRODUCED = re.compile(
    r"\b(?:according to|based on) [^,]{1,80},|.{1,80}\b(?:says?|states?|explains?) that\b"
    rf"|\b\d+ (?=(?:{'|'.join(_DOCUMENTS.split())})\b)",
    re.IGNORECASE,
)
_SAYING = frozenset(map(stem, words("mention specify state say indicate disclose")))
_WITHOUT_ADVICE = frozenset({"advice", "guarantee", "longer"})
_PARTS = re.compile(r"[:;] |, (?:and|so) ")
_NEAR = 4  # words from a denial to what it denies


def declines(sentence: str, asked: Collection[Value] = ()) -> bool:
    """Whether a sentence says that there is no answer, in English; `asked` are the question's
    values, which a refusal may repeat.

    >>> declines("The notes do not mention a price."), declines("Dogs are not allowed.")
    (True, False)
    """
    last = normalize(sentence).strip(" .!").rpartition(": ")[2]
    if last in ("not found", "no answer", "unknown", "n/a") or last.startswith("nothing about"):
        return True
    new = (value for value in values(sentence) if not is_in(value, asked))
    if not all(value.kind == "name" for value in new):
        return False
    # Not 'The page says: "No, ..."'. What one clause denies is not about the files of another.
    parts = _PARTS.split(sentence)
    return any(_refuses(words(without_stance(part))) for part in parts)


def _refuses(said: Sequence[str]) -> bool:
    if not _WITHOUT_ADVICE.isdisjoint(said):
        return False
    stems = [*map(stem, said)]
    denials = [n for n, word in enumerate(said) if word in _DENYING or is_negation(word)]
    denied = {each for n in denials for each in _denied(stems, n)}
    tells = any(
        not speakers.isdisjoint(stems) and not verbs.isdisjoint(denied)
        for speakers, verbs in _REFUSALS
    )
    # "The rules do not mention it", whatever the rules are called. "No price is mentioned."
    within = {stems[n] for n in range(len(said)) if "in" in said[max(0, n - 3) : n]}
    # "There is no date in the documents." "The date is not in the documents."
    absent = any("there" in said or said[n + 1 : n + 2] == ["in"] for n in denials)
    lacks = absent and not within.isdisjoint(_REFUSALS[1][0])
    return tells or bool(lacks) or not _SAYING.isdisjoint(denied)


def _denied(said: Sequence[str], place: int) -> Sequence[str]:
    """The stems beside a denial: "does not give", "gives no", "none of the pages gives"."""
    end = place + _NEAR + 1
    sources = [n for n in range(place, min(end, len(said))) if said[n] in _FILES]
    return said[max(0, place - 1) : (sources[-1] + _NEAR + 1 if sources else end)]


def abstained(answer: str, question: str = "") -> bool:
    """Whether an answer declines: its first claim does, and nothing else in it answers.

    "The notes do not give the price, but the invoice says 40" answers, and so does any number,
    date or name that the question does not have. Refusals are recognized in English.
    """
    if not answer.strip() or answer.strip() == NOT_FOUND:
        return True
    asked = values(question)
    said = list(dropwhile(partial(_leads_up, asked=asked), statements(answer))) or statements(
        answer
    )
    first = [part for part in _CONTRAST.split(said[0]) if part.strip()] if said else []
    if not any(declines(part, asked) for part in (*said[:1], *first)):
        return False
    others = [part for part in [*first, *said[1:]] if not declines(part, asked)]
    if any(not is_in(value, asked) for part in others for value in values(part)):
        return False
    # What comes after "but" is an answer, also if it has no value.
    refused = next((n for n, part in enumerate(first) if declines(part, asked)), len(first))
    after = [part for part in first[refused + 1 :] if part in others and not is_talk(part)]
    return not any(content(part) - content(question) - TALK for part in after)


def _misses(sentence: str) -> bool:
    """Whether a sentence denies something of the sources: "nothing on it in these pages"."""
    said = words(without_stance(_INTRODUCED.sub("", sentence)))
    stems, verbs = [*map(stem, said)], _REFUSALS[1][1]
    denials = [
        n
        for n, word in enumerate(said)
        if word in _DENYING or is_negation(word) or (word[:2] == "un" and stem(word[2:]) in verbs)
    ]
    tells = not _SPEAKING.isdisjoint(said) and any(
        not verbs.isdisjoint(_denied(stems, n)) for n in denials
    )
    return bool(denials) and (tells or not _FILES.isdisjoint(stems))


def refers_on(answer: str, question: str, shown: str) -> bool:
    """Whether an answer declines, and else tells only what was shown, about something else."""
    asked, known, said = values(question), values(shown), statements(answer)
    claims_more = words(answer[:40])[:1] in (["yes"], ["no"])
    others = [
        part for part in said if not declines(part, asked) and (claims_more or not _misses(part))
    ]
    return len(others) < len(said) and all(
        is_in(value, known) or is_in(value, asked) for part in others for value in values(part)
    )


def _leads_up(sentence: str, asked: Collection[Value] = ()) -> bool:
    return not declines(sentence, asked) and (is_talk(sentence) or "sorry" in words(sentence))


def clearly_abstained(answer: str) -> bool:
    """Whether every claim of the answer declines, so that no judge has to be asked."""
    said = [sentence for sentence in statements(answer) if not _leads_up(sentence)]
    return abstained(answer) and all(map(declines, said))


def may_decline(answer: str) -> bool:
    """Whether any word denies or doubts, so that a judge should be asked whether it declines."""
    doubts = _DENYING | {"sorry", "unfortunately", "missing"}
    return any(is_negation(word) or word in doubts for word in words(answer))


# An aside for the judge often stands in brackets, or after a comma.
_ASIDE = re.compile(r"[,.:](?!\d)|[;!?()\[\]{}<>|\"“”„«»\n]|\s[-–—*]+\s")


def split_surplus(answer: str, expected: str) -> tuple[list[str], list[str]]:
    """The sentences with a clause of which half is neither asked nor expected, and the others.

    Whatever an answer says to its judge is among the first, in any language, format or code: what
    is expected holds no verdict. `expected` is the question and the reference.
    """
    known = {*words(expected), *stems(expected)}
    parts: tuple[list[str], list[str]] = ([], [])
    for sentence in sentences(answer):
        surplus = False
        for clause in _ASIDE.split(without_markers(sentence)):
            # "Both are the same" has no other words.
            said = [word for word in words(clause) if not is_stop(word)] or words(clause)
            unknown = [word for word in said if word not in known and stem(word) not in known]
            surplus |= bool(unknown) and 2 * len(unknown) >= len(said)
        parts[0 if surplus else 1].append(sentence)
    return parts
