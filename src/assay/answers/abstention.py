"""Detects answers that decline: phrases of refusals in seven languages, and their context.

Rules over words, narrow on purpose: "no evidence of harm" is an answer. A refusal in other words is
taken for an answer.
"""

import re
from itertools import dropwhile

from assay.answers.assertion import long_forms
from assay.answers.framing import bare_text, is_preamble
from assay.answers.quantities import numbers
from assay.llm.passages import NOT_FOUND
from assay.text import is_stop, sentences, words

_SOURCES = (
    r"(?:documents?|documentation|docs?|sources?|notes?|context|passages?|texts?|materials?|excerpts?|"
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
    r"aber|jedoch|mais|pero|però|maar|mas)\b",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"\b(?:not|no|none|nothing|cannot|unable|unknown|unclear|sorry|unfortunately|lacks?|missing)\b"
)


# After what the sources do say: "it does not give a date", "but not the head of sales".
_DECLINES_THEN = re.compile(
    rf"^(?:it|they) (?:(?:do|does|did) not (?:\w+ )?{_TELL}|{_TELL}s? no)\b|"
    rf"^not (?:the|an?|any|{_ASKED})\b|^(?:give|mention|state|specify|name)s? no {_DATUM}\W*$|"
    rf"\b(?:is|are|was|were) not {_ABSENT}(?: anywhere)?\W*$|"
    rf"\bthere(?: is|'s| are) no (?:\w+ ){{0,2}}?{_DATUM}(?=\W*$|[:,;]| (?:yet|{_ABSENT}|for|of)\b)"
)
_OF_SOURCES = re.compile(rf"\b{_SOURCES}\b")
# What comes after these is an answer of its own, and not what the sources are about.
_BY_SOURCES = re.compile(r"\b(?:according to|based on|as per)\b[^,:]*")
_CAPITALIZED = re.compile(r"(?<!^)(?<![\w'’])[A-ZÀ-Þ][\w'’-]*")
_NO_NAMES = frozenset({"i", "unfortunately", "sadly", "currently"})


def declined(answer: str, question: str = "") -> bool:
    """Whether an answer declines a question that no document answers: as `abstained`, or after it
    told in the same sentence what the sources do say. "The notes say that a branch is planned, but
    they give no date" would be an answer to another question. With a number or a name that the
    question does not have, it may be an invented one to this.
    """
    if abstained(answer):
        return True
    first = next(dropwhile(_leads_up, sentences(bare_text(answer))), "")
    split = [part.strip(" ,") for each in _CONTRAST.split(first) for part in each.split(";")]
    parts = [part for part in split if part]
    clauses = [_BY_SOURCES.sub("", long_forms(part)).strip() for part in parts]
    for place, clause in enumerate(clauses):
        if _refuses(clause) or _DECLINES_THEN.search(clause):
            told = any(map(_OF_SOURCES.search, clauses[: place + 1]))
            return told and not _names_more(" ".join(parts[: max(place, 1)]), question)
        if not (_OF_SOURCES.search(clause) or _adds_nothing(clause)):
            return False
    return False


def _names_more(text: str, question: str) -> bool:
    """Whether a text has a number or, after its first word, a capitalized one that the question
    does not have.
    """
    names = {word for each in _CAPITALIZED.findall(text) for word in words(each)}
    known = {*words(question), *_NO_NAMES}
    other = {each for each in names - known if not (is_stop(each) or _OF_SOURCES.fullmatch(each))}
    return bool(other or numbers(text) - numbers(question))


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
