"""Detects text around an answer that states nothing: emphasis, lines of sources, courtesy.

"Thanks for your question!", "**84** pounds" and "Source: Prices" are a style. A check that takes
them for statements finds faults in right answers. Courtesy is recognized by its words:
every one that carries meaning belongs to a conversation and not to a subject, or the sentence
offers help or names whom to ask. One with a figure or a name states something,
whatever else it says.
"""

import re

from assay.answers.quantities import numbers
from assay.llm.prompt import without_markers
from assay.text import is_stop, normalize, remember_short, sentences, stem, stems, words


def stemmed(text: str) -> frozenset[str]:
    """The stems of all words of a text."""
    return frozenset(map(stem, words(text)))


# Not "2 * 3 * 4", and not "snake_case_name".
_EMPHASIS = re.compile(
    r"(?<![\w*])(\*{1,3}|_{1,3})(?=[^\s*_])([^\n*]{1,300}?)(?<=[^\s*_])\1(?![\w*])"
)
_LINK = re.compile(r"(?<!!)\[([^\[\]\n]{1,200})\]\([^()\s]{1,500}\)")  # "[Tea](https://host/tea)"
# "12 euros.¹", "twelve euros¹" and the note itself; not "10²" or "km²".
_FOOTNOTE = re.compile(
    r"(?:(?<=[.,;:!?)\"'”’])|(?<=[^\W\d_]{3})|^)[¹²³⁴-⁹]{1,2}(?!\w)", re.MULTILINE
)
# "20 meter²", "9.81 meters per second²": an exponent. Nobody squares money or days: a footnote.
_OF_A_UNIT = re.compile(
    r"(?<![^\W_])([^\W_]\S{0,40})[ \u00a0-](?:[^\W\d_]{1,20}(?: (?:per|pro|par|por) |/))?"
    r"(?!(?:euros?|dollars?|pounds?|cents?|days?|weeks?|months?|years?|people|persons?|percent)$)"
    r"[^\W\d_]{3,20}$",
    re.IGNORECASE,
)
# "[^1]" in Markdown, and the beginning of the note itself; not "[^abc]" of a regular expression.
_NOTE_MARK = re.compile(
    r"(?<=[^\s\[({`|])\[\^[\w-]{1,20}\]| \[\^\d{1,2}\](?=[.,;]|$)|^\[\^[\w-]{1,20}\]:",
    re.MULTILINE,
)
_INLINE_CODE = re.compile(r"(?<!`)`([^`\n]{1,300})`(?!`)")
PICTURES = "\u2190-\u21ff\u2300-\u27bf\u2b00-\u2bff\ufe0f\u200d\U0001f000-\U0001faff"
_PICTURE_END = re.compile(rf"(?<![\s{PICTURES}])[\s{PICTURES}]++$")
_SOURCE_LABEL = (
    r"(?:sources?|references?|citations?|cited|footnotes?|see also|further reading|read more|"
    r"quellen?|références|fuentes?|fonti?|bronn?en)"
)
_SOURCE_START = re.compile(
    rf"^\W*{_SOURCE_LABEL}(?: documents?| used)?(?:\W{{0,3}}:\s*| [-–] |\W*$)", re.IGNORECASE
)
_SOURCE_LINE = re.compile(
    rf"(?:{_SOURCE_START.pattern}).*"
    r"|(?:\[\^?\d{1,2}\]:?|[¹²³⁴-⁹]) *\S.*(?<![.!?])",
    re.IGNORECASE,
)
_HEADING = re.compile(r"^#{1,6} .{1,80}$", re.MULTILINE)
_TABLE_HEAD = re.compile(r"^\|.+\|[ \t]*\n(?=\|[ :|-]+\|[ \t]*$)", re.MULTILINE)
_CONVERSION = re.compile(
    r"(?<=[^\W_]) \((?:about|around|approx\w*\.?|ca\.?|circa|roughly|or|etwa|environ|unos|[≈~=])? ?"
    r"[€$£]?\d[\d.,]*(?: ?(?!(?:in|on|at|of|for|from|by|to)\b)[^\W\d_]+| ?[€$£%°])?"
    r"(?: (?:per|an?) [^\W\d_]+)?\)"
)
_LIST_ITEM = re.compile(r"\s*(?:[-*•–]|\d{1,2}[.)]|[\[(]\d{1,2}[\])])\s")

# What leads up to a list, and how sure a model says it is: "Confidence: high".
_NO_STATEMENT = re.compile(
    r"\D*:$|\W*confidence(?: level| score)?\W{1,4}"
    r"(?:(?:very )?(?:high|medium|low)|[\d.,/]+ ?%?)\W*$",
    re.IGNORECASE,
)
_FIGURE = re.compile(r"\d")
_NAME_INSIDE = re.compile(rf"(?<=[^\s.!?:\"'“({PICTURES}] )[\"'“(]?(?!I\b)[A-ZÀ-Þ]")
_MOST_WORDS = 25
_PLEASANTRIES = stemmed("""
    hello hi hey dear greetings welcome good great excellent nice interesting morning day
    afternoon evening thank thanks many question questions ask asked asking reach reached
    reaching contact contacting touch hope hopes help helps helped helpful assist
    assistance useful happy glad pleased pleasure please sure certainly course absolutely
    let know need like want look looking forward hear feel hesitate else anything
    something further additional more detail details information answer answers answered
    here summary summarize short brief briefly best kind regards sincerely
    cheers bye goodbye enjoy luck wish news clarify clarification clarifies follow
    concern concerns find found sorry apologies unfortunately may
    understand us wonderful lovely always provide provided
""")
# Words of documents and answers in general, and not of a subject.
_GENERAL = _PLEASANTRIES | stemmed("""
    documentation docs document context official latest example explain reflect given
    check show say mention confidence tl dr
""")
# Alone these words may be what was asked for: "change the key", "the front page".
_CAVEAT = re.compile(
    r"^\W*(?:please )?note(?: that\b|:)|\bkey points?(?=:)|\b(?:on|in|see) (?:this|the) page\b|"
    r"\b(?:details|this|it|information|things) (?:may|might|can) (?:have )?changed?\b",
    re.IGNORECASE,
)
_PERSON = re.compile(
    r"\b(?:i|me|my|we|us|our|you|your|hello|hi|hey|dear|greetings|welcome|thanks?|cheers|"
    r"(?:good|great|excellent|nice|interesting) (?:question|morning|day|afternoon|evening)|"
    r"(?:hope|glad|happy|pleased) (?:this|that|to|it)|(?:kind|best) regards|"
    r"(?:short|brief) (?:answer|summary)|sure|certainly|of course|absolutely)\b"
)
_OFFERS_HELP = re.compile(
    r"\b(?:let (?:me|us) know|feel free to (?:ask|contact|reach|get|write|let)|"
    r"(?:do not|don't) hesitate to|(?:i|we)(?: am| are|'m|'re|'d be|'ll be| will be| would be)? "
    r"(?:happy|glad|pleased) to (?:help|assist|answer)|"
    r"(?:i|we) (?:can|could|may) (?:also )?(?:help|assist)(?: you)? with)\b"
    r"|^(?:happy|enjoy(?: your| the)?|good luck with(?: your| the)?) \w+\W*$"
)
# Whom to ask is advice for what is missing; what comes after "because" or "as" states something.
_NAMES_WHOM_TO_ASK = re.compile(
    r"^(?:(?:if you (?:need|have|want|would like|require|are (?:unsure|not sure|in doubt))|"
    r"for (?:any )?(?:more|further|additional|other|questions|details|help))\b[^,;]{0,60},? )?"
    r"(?:please|kindly|you (?:can|could|may|might want to|should)|feel free to|simply|just)? ?"
    r"(?:also |always |directly )?(?:contact|ask|consult|speak (?:to|with)|talk to|check with|"
    r"get in touch with|reach out to|write to|turn to|refer to)\b"
    r"(?: (?!(?:to|by|only|when|on|at|after|before|until|within|except)\b)[\w'-]+){1,12}\W*$"
)
_REASON = re.compile(r"\b(?:because|since|who|which|as|and|but|or)\b")


# "Dear Ms Moss," and "Your team at the pool" are lines of their own.
_LETTER = re.compile(
    r"^\W*(?:(?:dear|hi|hello|hey|liebe[rs]?|sehr geehrte[rs]?|cher|chère|estimad[oa])"
    r"(?: [^\s,]+){1,4}|(?:your|ihr|votre|su) (?:[^\s.]+ ){0,3}(?:team|équipe|equipo)\b"
    r"(?: [^\s.]+){0,4})[,!]?$"
)
_DISCLAIMS = re.compile(
    r"\b(?:not (?:\w+ ){0,2}(?:legal|medical|financial|tax|professional) advice|subject to change|"
    r"(?:may|might|can) change(?: at any time| without (?:prior )?notice)?\W*$|without guarantee|"
    r"for (?:general )?information(?:al purposes)? only|changes (?:are )?(?:possible|reserved)|"
    r"änderungen vorbehalten|no liability|errors excepted|"
    r"ai[- ]generated|generated by (?:an )?ai|ohne gewähr|sans garantie|sin garantía)\b"
)
_THANKS = re.compile(
    r"^\W*(?:(?:hello|hi|hey|good (?:morning|day|afternoon|evening))\b\W*(?:and )?)?"
    r"(?:thank you|thanks)(?: (?:very|so) much)? for (?!free\b)[^.;:\d]{1,60}$"
)
_SEARCHED = re.compile(
    r"^(?:i|we)(?:'ve| have)? (?:just |now |carefully )?(?:searched|looked|checked|read|reviewed|"
    r"consulted|scanned|examined)(?: (?:through|in|at|up|all|the|your|our|these|available))*"
    r" (?:documents?|sources?|notes?|context|passages?|pages?|files?|knowledge base|handbook)"
    r"(?: that (?:were|was|you|i|we)(?: \w+)?)?(?: for (?:you|this|an answer))?\W*$"
)
# Of German, French and Spanish the usual greetings, thanks, hopes and offers of help.
_GREETS_ELSEWHERE = re.compile(
    r"^\W*(?:hallo|guten (?:tag|morgen|abend)|(?:vielen |besten )?dank\b|danke|gerne?\b|"
    r"gute frage|bonne question|buena pregunta|"
    r"selbstverständlich|(?:mit )?(?:freundlichen|besten|viele|liebe) grüssen?|bonjour|bonsoir|"
    r"merci|avec plaisir|bien sûr|cordialement|bonne journée|hola|buen(?:os días|as tardes)|"
    r"(?:muchas )?gracias|con (?:mucho )?gusto|claro|(?:un )?(?:cordial )?saludos?)\b"
    r"[^.:;\d]{0,60}$"
)
_OFFERS_ELSEWHERE = re.compile(
    r"\b(?:(?:bei|falls|wenn|sollten|für)\b[^.]{0,40}\b(?:fragen?|hilfe|informationen)\b[^.]{0,60}"
    r"\b(?:helfe|hilft|helfen|wenden|melden|melde|kontakt\w*|verfügung|gerne?)|"
    r"ich hoffe,? (?:das|dies|dass|ihnen|dir)\b[^.]{0,40}\b(?:hilft|geholfen|helfen|weiter)|"
    r"(?:lassen sie|lass) (?:es )?(?:mich|uns)\b[^.]{0,30}\bwissen|zur verfügung stehen|"
    r"stehen?\b[^.]{0,30}\bzur verfügung|n'hésitez pas à|j'espère que[^.]{0,40}\b(?:aide|utile)|"
    r"(?:si vous avez|pour toute)[^.]{0,40}\bquestions?|à votre disposition|"
    r"no dud(?:e|es) en|espero que[^.]{0,40}\b(?:ayud\w*|útil|sirva)|"
    r"si (?:tienes?|necesitas?|desea)\b[^.]{0,40}\b(?:preguntas?|dudas?|ayuda|información)|"
    r"a (?:su|tu|vuestra) disposición|para ayudar(?:le|te|les))\b"
)
_FULL_NAME = re.compile(r"\b(?:Herrn?|Frau|[A-ZÀ-Þ][\w'’-]{1,40}) [A-ZÀ-Þ][\w'’-]")


def _is_courtesy_elsewhere(sentence: str, plain: str) -> bool:
    """In German every noun has a capital: two of them together are a name, but for a greeting."""
    if _GREETS_ELSEWHERE.search(plain):
        return True
    return _OFFERS_ELSEWHERE.search(plain) is not None and not _FULL_NAME.search(sentence)


@remember_short
def bare_text(answer: str) -> str:
    """An answer without citation markers, addresses of links and the marks of emphasis."""
    marked = _NOTE_MARK.sub("", _FOOTNOTE.sub(_exponent, _LINK.sub(r"\1", answer)))
    return without_emphasis(without_markers(marked))


def _exponent(match: re.Match[str]) -> str:
    """What stays of a raised figure: all of it after a number and its unit, else nothing."""
    before = match.string[max(0, match.start() - 60) : match.start()]
    unit = _OF_A_UNIT.search(before) if match[0] in "²³" else None
    return match[0] if unit and numbers(unit[1]) else ""


def without_emphasis(text: str) -> str:
    """The text without the Markdown marks for bold, italic and code: "**84** kg" and "`84` kg" are
    "84 kg".
    """
    if "`" in text:
        text = _INLINE_CODE.sub(r"\1", text)
    return _EMPHASIS.sub(r"\2", text) if "*" in text or "_" in text else text


def without_source_lines(text: str) -> str:
    """The text without the lines after it that name its sources, and without pictures at its end.

    Such lines are "Source: Prices", a list under "Sources:" and footnotes.
    """
    lines = text.rstrip().split("\n")
    kept = len(lines)
    for place in range(len(lines) - 1, 0, -1):
        line = lines[place]
        if is_source_line(line):
            kept = place
        elif line.strip() and not _LIST_ITEM.match(line):
            break
    return _PICTURE_END.sub("", "\n".join(lines[:kept]))


def is_source_line(line: str) -> bool:
    """Whether a line of an answer names a source and says nothing else."""
    return _SOURCE_LINE.fullmatch(line.strip()) is not None


def statements(answer: str) -> list[str]:
    """The sentences of an answer that are no courtesy and no heading; of a line with a source, its
    name. Beside others, a question and what only leads up to a list ("Do this:") state nothing.
    """
    bare = bare_text(answer)
    text = _HEADING.sub("", _TABLE_HEAD.sub("", bare))
    said = [_SOURCE_START.sub("", each) for each in sentences(text if text.strip() else bare)]
    found = [each for each in said if any(map(str.isalnum, each)) and not is_courtesy(each)]
    return [each for each in found if not (is_question(each) or _NO_STATEMENT.match(each))] or found


def content_stems(sentence: str) -> frozenset[str]:
    """The words of a sentence that carry its meaning: not those of conversations, documents and
    answers in general, and no conversions.
    """
    bare = _CAVEAT.sub(" ", without_conversions(sentence))
    return frozenset(stems(bare)) - _GENERAL


def contents(answer: str) -> list[tuple[str, frozenset[str]]]:
    """The statements of an answer with the words that carry their meaning, without those that have
    none; all words where nothing else is left, as in "The official documentation."
    """
    said = statements(answer)
    found = [(each, held) for each in said if (held := content_stems(each))]
    return found or [(each, held) for each in said if (held := frozenset(stems(each)))]


def is_question(sentence: str) -> bool:
    """Whether a sentence asks, and so states nothing."""
    return sentence.rstrip("\"'”’)* ").endswith("?")


def without_conversions(text: str) -> str:
    """The text without what converts a quantity before it: "39 euros (about 43 dollars)"."""
    return _CONVERSION.sub("", text)


def is_courtesy(sentence: str) -> bool:
    """Whether a sentence greets, thanks, offers help or says whom to ask, without any fact."""
    plain = normalize(sentence)
    said = words(plain)
    if _FIGURE.search(sentence) or not said or len(said) > _MOST_WORDS:
        return False
    if _is_courtesy_elsewhere(sentence, plain) or _LETTER.search(plain) or _THANKS.search(plain):
        return True
    if _NAME_INSIDE.search(sentence):
        return False
    if any(each.search(plain) for each in (_OFFERS_HELP, _DISCLAIMS, _SEARCHED)):
        return True
    asks = _NAMES_WHOM_TO_ASK.search(plain)
    if asks and not _REASON.search(plain):
        return True
    return _PERSON.search(plain) is not None and all(map(_is_pleasantry, said))


def _is_pleasantry(word: str) -> bool:
    return is_stop(word) or stem(word.partition("'")[0]) in _PLEASANTRIES


_PREAMBLE = re.compile(
    r"(?:i|we)(?:'ve| have)? (?:just |now |carefully )?(?:searched|looked|checked|read|reviewed|"
    r"consulted|scanned|examined|went|gone)\b|let me (?:check|look|see|search)\b|#"
)
_ASKED_AGAIN = re.compile(
    r"^\W*(?:you (?:asked|(?:would like|want(?:ed)?) to know)\b|(?:your )?question:)"
)


def without_asking_again(text: str) -> str:
    """The normalized text without "You asked:" or "You would like to know:" before a question."""
    return _ASKED_AGAIN.sub("", normalize(text), count=1)


def is_preamble(sentence: str) -> bool:
    """Whether a sentence before an answer may be left out: courtesy, the question again, a
    heading, or that documents were searched.
    """
    plain = normalize(sentence)
    if is_courtesy(sentence) or is_question(sentence) or _ASKED_AGAIN.match(plain):
        return True
    return _PREAMBLE.match(plain) is not None and not _FIGURE.search(plain)
