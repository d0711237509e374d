"""Whether a text asserts a wording that it contains (negation, exceptions), or abstains.

Rules over the words around a match, in one sentence. They see the common forms ("not on 3 May",
"every day except Monday", "either 7:00 or 8:00"), not meaning: irony, a denial two sentences later
and a negation inside a verb ("failed to open") pass.
"""

import re
from enum import StrEnum
from itertools import dropwhile

from assay.answer.passages import NOT_FOUND
from assay.measure.answers.framing import bare_text, is_preamble, is_question
from assay.text import normalize, sentences


class Assertion(StrEnum):
    """What a text does with a wording, best first."""

    STATED = "stated"
    HEDGED = "hedged"
    OPTION = "one of several options"
    DENIED = "denied"
    ABSENT = "absent"


_NEGATOR = (
    r"(?:not|never|no longer|neither|nor|cannot|without|rather than|instead of|\w+n't|unlike|"
    r"no|nicht|keine?[mnrs]?|nie|niemals|weder|pas|jamais|nunca|non|niet|geen|nooit|não)"
)
# "not only 7:00" and "not before 7:00" assert 7:00.
_NO_NEGATION = (
    r"(?:only|just|merely|simply|until|till|before|after|later|earlier|more|less|fewer|"
    r"above|below|over|under|exceed\w*|necessarily|least|sooner|"
    r"nur|bloß|vor|nach|erst|mehr|weniger|länger|später|früher|seulement|avant|après|plus|moins|"
    r"sólo|solo|antes|después|más|menos|soltanto|prima|dopo|più|meno|alleen|voor|meer|minder|"
    r"só|apenas|depois|mais)"
)
_REACH = 7
_DENIED_BEFORE = re.compile(
    rf"\b{_NEGATOR}(?! {_NO_NEGATION}\b)(?: (?!but\b)[^\s,;:()]+){{0,{_REACH}}} ?[\"'(]?$"
)
# These deny the noun after them, and nothing further: "no time was lost opening at 7:00".
_NO_FURTHER = re.compile(r"\b(?:no|without|instead of|rather than|unlike)(?: [^\s,;:()]+){3,}$")
_FALSE_THAT = re.compile(
    r"\b(?:not (?:true|correct|right|the case|so)|false|untrue|incorrect|wrong|a myth|denied|"
    r"denies|deny|contrary to|no evidence|doubtful|disputed) (?:(?:to say|to claim|claims?|"
    r"statement) )?(?:that|the claim|what)\b"
)
_DENIED_AFTER = re.compile(
    r"^(?: [^\s,;:.()]+){0,3} (?:(?:is|was|are|were) (?:not (?:true|right|correct|the case|so|"
    r"it|the answer)|wrong|false|incorrect|untrue)|is a myth)\b"
    r"|^ (?:does|did|do|is|was|were|are|will|would|has|had|have|can|could) ?(?:not|never|n't)\b"
    rf"(?! {_NO_NEGATION}\b)"
    r"|^ (?:doesn't|didn't|don't|isn't|wasn't|weren't|aren't|won't|hasn't|hadn't|haven't|can't|"
    r"cannot|couldn't|never|no longer)\b"
)
_EXCEPT = re.compile(
    r"\b(?:except(?: for)?|excepting|excluding|apart from|other than|aside from|but not|"
    r"with the exception of|save for|anything but)(?: [^\s,;:()]+){0,4} ?$"
)
_HEDGE = re.compile(
    r"\b(?:perhaps|maybe|possibly|probably|presumably|apparently|supposedly|conceivably|might|"
    r"could (?:well |also |possibly )?be|could have been|could also|it is possible|it is likely|"
    r"it seems|seems to|appears to|(?:i|we) (?:would )?(?:think|believe|guess|suppose|assume)|"
    r"not (?:\w+ly )?(?:sure|certain)|unsure|uncertain|hard to say|it is unclear|allegedly|"
    r"(?:to (?:the best of )?my|to our) knowledge|"
    r"as far as (?:i|we) (?:know|can (?:tell|see|say)|am aware|remember|understand)|"
    r"if (?:i|memory) (?:am not mistaken|remember|recall|understand|serves)|"
    r"(?:i|we) (?:cannot|can't) (?:guarantee|confirm|verify|vouch|promise|be (?:sure|certain))|"
    r"(?:do not|don't) (?:rely on|trust|take) (?:this|that|it|me|my)|(?:do not|don't) quote me|"
    r"may (?:well )?(?:be|have become) (?:wrong|outdated|out of date|inaccurate|incorrect)|"
    r"or maybe|or perhaps|or possibly|"
    r"vielleicht|möglicherweise|vermutlich|wahrscheinlich|eventuell|ich (?:glaube|denke|vermute)|"
    r"nicht (?:ganz |völlig )?sicher|peut-être|probablement|je (?:crois|pense)|quizás?|tal vez|"
    r"probablemente|creo que|forse|probabilmente|credo che|misschien|waarschijnlijk|ik denk|"
    r"talvez|provavelmente|acho que)\b"
)
_EITHER = re.compile(r"\beither\b")
_OR = re.compile(r"\bor\b")
_CLAUSE = re.compile(
    r"[,;:()]|\b(?:and|plus|then|but|although|though|however|while|because|since)\b"
)
_UP_TO = re.compile(r"\b(?:until|till|before|more than|later than|less than|exceed\w*) ?$")
_NUMBER = re.compile(r"\d")
_OPTION_WORDS = 3
_NEGATIVE = re.compile(rf"\b{_NEGATOR}\b|\bexcept\b")


def is_negative(text: str) -> bool:
    """Whether a normalized text has a negation, so that one in an answer denies nothing."""
    return _NEGATIVE.search(text) is not None


_TAKEN_BACK = re.compile(
    r"(?:^|[.;!,] |\b(?:but|however|although)[, ]+)(?:all of |none of )?(?:that|this|it|the above|"
    r"which|the opposite)(?: (?:answer|statement|claim))? (?:is|was) (?:in fact |actually )?"
    r"(?:wrong|false|untrue|incorrect|not (?:so|true|right|correct|the case)|the opposite|"
    r"the case instead)\b[^.;]{0,20}(?:$|[.;])"
)


def takes_back(text: str) -> bool:
    """Whether a normalized text denies what it said before: "That is wrong, however"."""
    return _TAKEN_BACK.search(text) is not None


def hedges(text: str) -> bool:
    """Whether a normalized text has a word that takes back what it says."""
    return _HEDGE.search(text) is not None


def assertion_at(
    sentence: str, start: int, end: int, *, options: bool = True, negative: bool = False
) -> Assertion:
    """What a normalized sentence does with the wording at `start` to `end`.

    `options` is False where the fact itself names alternatives, `negative` is True where the fact
    itself says what is not so: then only "it is not true that" denies it.
    """
    before, after = sentence[:start], sentence[end:]
    if _FALSE_THAT.search(before) or (not negative and _is_denied(before, after)):
        return Assertion.DENIED
    if options and _is_option(sentence, start, end):
        return Assertion.OPTION
    part = before.rpartition(";")[2] + sentence[start:end] + after.partition(";")[0]
    return Assertion.HEDGED if is_question(sentence) or _HEDGE.search(part) else Assertion.STATED


def _is_denied(before: str, after: str) -> bool:
    if _EXCEPT.search(before) or _DENIED_AFTER.match(after):
        return True
    clause = _CLAUSE.split(before)[-1]
    if _NO_FURTHER.search(clause) or _UP_TO.search(clause):
        return False
    return _DENIED_BEFORE.search(clause) is not None


def _is_option(sentence: str, start: int, end: int) -> bool:
    """Whether the wording is one of several that are offered: "7:00 or 8:00", "either A or B"."""
    wording = sentence[start:end]
    if _OR.search(wording):
        return False
    before, after = sentence[:start], sentence[end:]
    either = _EITHER.search(before)
    if either and _OR.search(sentence[either.end() :]):
        return True
    wants_number = _NUMBER.search(wording) is not None
    ahead, behind = _OR.search(after), [*_OR.finditer(before)]
    if ahead and _are_options(after[: ahead.start()], after[ahead.end() :], wants_number):
        return True
    if not behind:
        return False
    return _are_options(before[behind[-1].end() :], before[: behind[-1].start()], wants_number, -1)


def _are_options(between: str, beyond: str, number: bool, side: int = 1) -> bool:
    """Whether only short items of a list are `between`, and another option is `beyond` the "or"."""
    items = [item.split() for item in between.split(",")]
    if any(len(item) > _OPTION_WORDS for item in items) or re.search(r"[;()]|: ", between):
        return False
    near = beyond.split()[:_OPTION_WORDS] if side > 0 else beyond.split()[-_OPTION_WORDS:]
    if not near or near[0] in ("so", "more", "less", "later", "earlier", "not"):
        return False
    listed = number or len(items) > 1 or any("," in word for word in near)
    return listed and (not number or any(_NUMBER.search(word) for word in near))


_SOURCES = (
    r"(?:documents?|documentation|sources?|notes?|context|passages?|texts?|materials?|excerpts?|"
    r"content|records?|rules|regulations|pages?|articles?|files|handbook|manual|guide(?:lines|s)?|"
    r"polic(?:y|ies)|knowledge base|data ?base|snippets?|chunks?|corpus|search results|website)"
)
# A guide or a policy may give no refunds; these can only give no answer.
_EVIDENCE = r"(?:documents|sources|notes|context|passages|texts|excerpts|records|snippets|chunks)"
# What may be between the sources and their verb: "the notes about it", not "the context menu".
_MORE = (
    r"(?: (?:i|you|we|that|which|in|of|on|about|from|for|here|above|provided|given|available|"
    r"supplied|retrieved|found|at hand)\b[^.;]{0,60})?"
)
_TELL = (
    r"(?:answer|mention|contain|say|state|specify|provide|include|hold|tell|give|cover|address|"
    r"discuss|describe|indicate|explain|reveal|name|list)"
)
_ABSENT = (
    r"(?:mentioned|stated|specified|given|provided|recorded|contained|found|documented|indicated|"
    r"disclosed|said)"
)
_KNOWLEDGE = r"(?:information|details?|data|context|knowledge|answer|mention|records?|documents?)"
_ABOUT = (
    r"(?= (?:about|on|regarding|concerning|of|in|to|for|that|here|available|provided|given|found)\b"
    r"| (?:is|was) (?:available|provided|given|found)(?: (?:in|by|here)\b|\W*$)|\W*$|[,;:)])"
)
# "No refund is given" is an answer, "no number is given" is none.
_DATUM = (
    r"(?:numbers?|names?|dates?|prices?|address(?:es)?|times?|figures?|years?|codes?|e-?mails?|"
    r"details?|amounts?|titles?|brands?|makers?)"
)
_FOR_WHAT = r"(?: (?:for|in|here|by|anywhere)\b|\W*$)"
_ASKED = r"(?:who|whom|whose|what|when|where|which|how|why|whether|if)"
_WHAT = rf"(?=(?: (?:anything|that|this|it|so|more))?\W*$| {_ASKED}\b| anything\b)"
# What a refusal calls that which was asked for; "the door code is confidential" is an answer.
_THIS = (
    r"(?:this|that|it|(?:this|that|the) (?:requested )?(?:information|data|answer|page|content|"
    r"documents?|details?))"
)
# Narrow on purpose: "no evidence of harm" and "was not found in blood" are answers.
_ENGLISH = (
    r"^\W*(?:answer\W+)?(?:not found|unknown|no answer|n/a)(?: - |[:;,.!(*\"]|\W*$)",
    rf"^\W*(?:answer\W+)?not (?:{_ABSENT}|known)\W*$",
    rf"^no (?:[\w-]+ ){{1,4}}(?:is|are|was|were) (?:mentioned|stated|specified|named){_FOR_WHAT}",
    rf"^no (?:[\w-]+ ){{0,3}}{_DATUM} (?:is|are|was|were) (?:{_ABSENT}|listed){_FOR_WHAT}",
    r"\bi (?:do not|cannot|can not|could not|did not|(?:am|was) (?:not able|unable) to) "
    r"(?:\w+ ){0,2}?(?:know|answer|find|tell|say|determine|help|locate|comment|"
    r"(?:give|provide|offer) (?:you )?(?:\w+ )?(?:information|advice|details|answers?))\b",
    r"\bwe (?:do not|cannot|could not|did not|(?:are|were) (?:not able|unable) to) "
    r"(?:\w+ )?(?:know|find|determine|locate)\b(?! (?:of any|\w* ?evidence)\b)",
    rf"\b(?:i|we) (?:do|did) not (?:\w+ )?have (?:\w+ ){{0,3}}?(?:{_KNOWLEDGE}|anything)\b",
    r"\b(?:i|we) (?:do|did) not have access to\b",
    rf"\b(?:i|we) (?:have|had|found|see|saw) (?:nothing|no (?:\w+ )?{_KNOWLEDGE})"
    r"(?:\W*$| (?:about|on|of|regarding|concerning|in|here|that)\b)",
    rf"\b{_SOURCES}{_MORE} (?:do(?:es)?|did) not (?:\w+ ){{0,2}}?{_TELL}\b",
    # Whatever has not said what was asked is a source: "Our bylaws do not say that".
    rf"^(?:\w+ ){{1,6}}?(?:do|does|did) not (?:actually |explicitly |really )?"
    rf"(?:say|mention|state|specify|tell|indicate|reveal|address|explain){_WHAT}",
    rf"\b{_SOURCES}{_MORE} (?:is|are|remains?|stays?) (?:\w+ )?(?:silent|unclear)\b",
    rf"\b{_SOURCES}{_MORE} (?:{_TELL}|ha(?:ve|s)|offer)(?:e?s)? "
    rf"(?:nothing|no (?:\w+ )?{_KNOWLEDGE})\b",
    rf"\b{_EVIDENCE}{_MORE} (?:{_TELL}|ha(?:ve|s)|offer)s? no\b"
    r"(?! (?:longer|one|fewer|less|more)\b)",
    rf"^(?:\w+ )?no (?:\w+ )?{_SOURCES} (?:\w+ )?{_TELL}(?:e?s|ies)?\b",
    rf"\b(?:none of|nothing in) (?:\w+ ){{0,3}}?{_SOURCES} (?:\w+ ){{0,2}}?{_TELL}s?\b",
    rf"\bnothing (?:is|was) (?:{_ABSENT}|known)(?: (?:about|on|of|there|here|in)\b|\W*$)",
    rf"(?:^|\b(?:is|are|was|were) )not {_ABSENT} (?:in|by) (?:\w+ ){{0,4}}?{_SOURCES}\b",
    rf"\b(?:it|this|that) (?:is|was) (?:not (?:{_ABSENT}|known|clear)|unclear|unknown|unspecified)"
    rf"(?:\W*$|(?: from [^.;]{{1,40}})? {_ASKED}\b)",
    rf"^no (?:relevant|matching|related|suitable) (?:{_SOURCES}|results?|information)\b",
    rf"^no (?:{_SOURCES}|results?|answer|match(?:es)?) (?:(?:is|was|were|could be) )?found\W*$",
    rf"\b(?:no (?:\w+ )?(?:information|mention)|"
    rf"(?:not enough|insufficient) (?:\w+ )?{_KNOWLEDGE}){_ABOUT}",
    rf"\bno answer (?:(?:is|was) (?:given |found )?)?in (?:\w+ ){{0,2}}?{_SOURCES}\b",
    rf"\b(?:is|are|was|were) not (?:in|part of|covered (?:by|in)) (?:\w+ ){{0,3}}?"
    rf"(?:{_SOURCES}\W*$|{_EVIDENCE};)",
    r"\b(?:cannot|can not|could not) be (?:answered|determined)\b",
    rf"\b{_THIS} (?:may|can|could|must) ?not be (?:disclosed|shared|provided|revealed|displayed|"
    r"shown|given out|loaded|retrieved|accessed|opened|reached)\b",
    rf"\b{_THIS} (?:is|are) (?:strictly |currently )?(?:confidential|classified|restricted|private|"
    r"unavailable|not (?:public|available|accessible))\b",
    r"\b(?:i am|we are|i'm) not (?:allowed|permitted|authorized|able) to "
    r"(?:answer|say|disclose|share|tell|reveal|provide|discuss)\b",
)
_GERMAN_SOURCES = (
    r"(?:dokument\w*|unterlagen|quellen?|texte?n?|kontext\w*|notizen|regeln|regelwerk|abschnitte?n?|"
    r"auszüge?n?|passagen|materialien|angaben|seiten?|artikeln?)"
)
_OTHER_LANGUAGES = (
    # German
    r"\b(?:weiß|weiss|kann|konnte|könnte|finde|fand|habe) ich\b"
    r"[^.;]{0,60}\b(?:nichts?|keine?\w?)\b",
    r"\bich (?:weiß|weiss)\b[^.;]{0,30}\bnicht\b",
    r"\bich (?:kann|konnte|könnte|finde|fand|habe)\b[^.;]{0,60}\b(?:nichts?|keine?\w?)\b[^.;]{0,40}"
    r"(?:beantwort|finden|gefunden|sagen|inform|angabe|hinweis|antwort|weiterhelfen|dazu|darüber)",
    rf"\b{_GERMAN_SOURCES}\b[^.;]{{0,60}}\b(?:nichts (?:zu|über|davon)\b|(?:keine?\w?|nichts?)\b"
    r"[^.;]{0,40}(?:inform|angabe|hinweis|antwort|auskunft|erwähn|genannt|hervor|gesagt|dazu|darüber))",
    r"\b(?:dazu|hierzu|darüber)\b[^.;]{0,40}\bkeine?\w? (?:\w+ )?"
    r"(?:inform|angabe|hinweis|antwort|auskunft)",
    r"\b(?:(?:dazu|hierzu|darüber) (?:steht|gibt|liegt|findet|sagt|sagen|enthält|enthalten|ist)|"
    r"(?:steht|gibt es|findet sich|ist) (?:dazu|hierzu|darüber))\b"
    r"[^.;]{0,40}\bnichts\b",
    r"\b(?:wird|werden|ist|sind|wurde) (?:\w+ ){0,3}?nicht (?:erwähnt|genannt|angegeben|"
    r"beantwortet|ersichtlich|bekannt)\b(?:\W*$| in\b)",
    r"^(?:leider )?keine (?:information\w*|angaben?|antwort|auskunft|daten)\b",
    r"\b(?:lässt|läßt|kann) (?:\w+ ){0,6}?nicht (?:beantworten|beantwortet werden|sagen)\b",
    # French
    r"\bje (?:ne |n')(?:sais|peux|trouve|dispose|connais|ai) (?:\w+ )?(?:pas|rien|aucune?)\b",
    r"\b(?:documents?|sources?|textes?|contexte|notes|extraits?|passages|règles)\b[^.;]{0,50}"
    r"\b(?:ne |n')(?:\w+ )?(?:mention|précis|indiqu|contien|di[ts]|disent|donn|parl|répond|fourni)"
    r"\w* (?:pas|rien|aucune?)\b",
    r"\b(?:n'est|ne sont|n'a) pas (?:été )?(?:mentionn|précis|indiqu|spécifi)",
    r"\baucune (?:information|mention|donnée|indication|réponse)\b",
    # Spanish
    r"\bno (?:lo )?sé\b|\bno se (?:menciona|indica|especifica|dice)\b",
    r"\bno (?:puedo|encuentro|encontré|tengo|dispongo)\b[^.;]{0,40}"
    r"(?:respond|inform|respuest|datos)",
    r"\b(?:documentos?|fuentes?|textos?|contexto|notas|reglas|pasajes)\b[^.;]{0,40}"
    r"\bno (?:lo |se )?(?:mencion|dice|indica|especific|contiene|respond)",
    r"\bno hay (?:información|datos|respuesta)\b",
    # Italian
    r"\bnon (?:lo )?so\b|\bnon (?:è|sono|viene) (?:menzionat|indicat|specificat|riportat)",
    r"\bnon (?:posso|riesco|trovo|ho|dispongo)\b[^.;]{0,40}(?:rispond|trovar|inform|dati)",
    r"\b(?:documenti|fonti|testi|contesto|note|regole|passaggi)\b[^.;]{0,40}"
    r"\bnon (?:lo )?(?:dic|menzion|indica|specific|conten|riport|rispond)",
    r"\bnessuna informazione\b",
    # Dutch
    r"\bweet ik niet\b|\bik weet (?:het |dat )?niet\b|\bgeen informatie\b",
    r"\bik (?:kan|kon|vind|vond)\b[^.;]{0,40}\b(?:niets?|geen)\b[^.;]{0,30}"
    r"(?:vinden|beantwoord|antwoord)",
    r"\b(?:documenten|bronnen|teksten?|context|notities|regels|passages)\b[^.;]{0,50}"
    r"\b(?:niets?|geen)\b[^.;]{0,30}(?:vermeld|genoemd|over|antwoord|informatie|gezegd|\W*$)",
    r"\bwordt (?:\w+ ){0,2}?niet (?:genoemd|vermeld)\b",
    # Portuguese
    r"\bnão (?:o )?sei\b|\bnão (?:é|são|foi) (?:mencionad|indicad|especificad)",
    r"\bnão (?:posso|consigo|encontrei|encontro|tenho)\b[^.;]{0,40}"
    r"(?:respond|inform|encontr|dados)",
    r"\b(?:documentos?|fontes?|textos?|contexto|notas|regras)\b[^.;]{0,40}"
    r"\bnão (?:o )?(?:diz|mencion|indica|especific|cont|respond)",
    r"\bnão há (?:informaç|dados|resposta)|\bnenhuma informação\b",
)
_REFUSAL = re.compile("|".join((*_ENGLISH, *_OTHER_LANGUAGES)))
# No phrase is without one of these; most answers are.
_CUE = re.compile(
    r"\b(?:no|not|none|nothing|cannot|unable|unknown|unclear|unspecified|silent|insufficient|n/a|"
    r"confidential|classified|restricted|private|unavailable|"
    r"nichts?|keine?\w?|pas|rien|aucune?|non|nessuna|niets?|geen|não|nenhuma)\b"
)
_APOLOGY = re.compile(
    r"\W*(?:(?:i am )?(?:very |so |really )?sorry|unfortunately|(?:my )?apologies|i apologi[sz]e|"
    r"leider|tut mir leid|désolée?|lo siento|mi dispiace|helaas|desculpe)"
    r"(?: (?:about|for) (?:that|this|it|the \w+))?\W*"
)
_OFFER = re.compile(
    r"\b(?:please|let me know|feel free|if you (?:provide|share|give|have|tell)|happy to|"
    r"i can (?:help|look|search|try))\b"
)
_CONTRAST = re.compile(
    r"\b(?:but|however|although|though|nevertheless|that said|"
    r"aber|jedoch|mais|pero|però|maar|mas)\b"
)
_DOUBT = re.compile(
    r"\b(?:not|no|none|nothing|cannot|unable|unknown|unclear|sorry|unfortunately|lacks?|missing)\b"
)
_SHORT = ((r"\bcan't\b", "cannot"), (r"n't\b", " not"), (r"\bi'm\b", "i am"), (r"'ve\b", " have"))


def abstained(answer: str) -> bool:
    """Whether the answer declines, by the usual phrases in its first sentence after courtesy.

    "The notes do not give the price, but the invoice says 40" answers, as does anything else after
    "but" or "however" that does not decline again. Known are the phrases of English and, fewer, of
    German, French, Spanish, Italian, Dutch and Portuguese; refusals in other words are taken for
    answers.
    """
    clauses = _clauses(answer)
    if not clauses or answer.strip() == NOT_FOUND:
        return True
    (first, _), *others = clauses
    if not _refuses(first):
        return False
    return all(_adds_nothing(clause) for clause, contrasted in others if contrasted)


def clearly_abstained(answer: str) -> bool:
    """Whether the answer does nothing but decline, so that no judge has to be asked.

    Not if it names a number: "I could not find the note, the calendar says 3 May".
    """
    clauses = [clause for clause, _ in _clauses(answer)]
    bare = not any(map(str.isdigit, "".join(clauses)))
    return abstained(answer) and bare and all(map(_adds_nothing, clauses))


def may_decline(answer: str) -> bool:
    """Whether the wording is ambiguous between declining and answering."""
    return any(_DOUBT.search(clause) for clause, _ in _clauses(answer))


def _clauses(answer: str) -> list[tuple[str, bool]]:
    """Sentences cut at "but", each part with whether a "but" is before it.

    What leads up to the answer is left out. Empty for an answer without words.
    """
    whole = sentences(bare_text(answer))
    parts = (
        (part.strip(), place > 0)
        for sentence in list(dropwhile(_leads_up, whole)) or whole
        for place, part in enumerate(_CONTRAST.split(long_forms(sentence)))
    )
    said = [(part, after) for part, after in parts if any(map(str.isalnum, part))]
    return list(dropwhile(lambda each: _APOLOGY.fullmatch(each[0]), said)) or said


def _leads_up(sentence: str) -> bool:
    plain = long_forms(sentence)
    return bool(_APOLOGY.fullmatch(plain) or is_preamble(sentence)) and not _refuses(plain)


def _adds_nothing(clause: str) -> bool:
    return bool(_refuses(clause) or _OFFER.search(clause) or _APOLOGY.fullmatch(clause))


def _refuses(clause: str) -> bool:
    return _CUE.search(clause) is not None and _REFUSAL.search(clause) is not None


def long_forms(text: str) -> str:
    """A text, normalized, with "cannot" for "can't"."""
    folded = normalize(text)
    for short, long in _SHORT:
        folded = re.sub(short, long, folded)
    return folded
