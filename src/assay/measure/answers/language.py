"""The language of a short text, by its most common words or its script: a guess for warnings."""

import unicodedata
from collections import Counter

from assay.text import words

_COMMON = {
    "English": "the of and to in is that it was for on are with as at by be this have from or an "
    "not they which you were their has would what will there if can all her she him his when who",
    "German": "der die das und ist nicht ein eine zu den mit auf für im dem von es sich auch nach "
    "wie bei einer werden wurde hat sind oder aber noch kann nur wird um uhr wir ich",
    "French": "le la les des et est une un dans que qui pour pas sur du au avec par il elle nous "
    "vous sont été plus ce cette mais ou leur ont ses aux être",
    "Spanish": "el la los las de y es en que un una por con para no se del al lo como más pero sus "
    "fue son está ha este esta entre cuando muy",
    "Italian": "il lo la gli le di e è un una che per non con del della dei sono nel alla anche "
    "più come ma si da questo questa stato",
    "Dutch": "de het een en van is dat niet in op te zijn voor met aan er ook als maar om dan naar "
    "wordt werd heeft bij deze uit nog",
    "Portuguese": "o a os as de e é em que um uma por com para não se do da no na ao mais como mas "
    "foi são está este esta pelo pela",
}
_NEGATIONS = {
    "German": "nicht kein keine keinen keinem keiner keines nie niemals weder ohne",
    "French": "pas jamais aucun aucune sans ni",
    "Spanish": "no nunca jamás ningún ninguna sin tampoco",
    "Italian": "non mai nessun nessuno nessuna senza né",
    "Dutch": "niet geen nooit zonder",
    "Portuguese": "não nunca jamais nenhum nenhuma sem",
}
_LISTS = {name: frozenset(listed.split()) for name, listed in _COMMON.items()}
_FEWEST_WORDS = 5
_FEWEST_HITS = 2


def language_of(text: str) -> str | None:
    """The language or, for other scripts than Latin, the script; None if it cannot be told."""
    letters = [each for each in text if each.isalpha()]
    scripts = Counter(unicodedata.name(each, "?").partition(" ")[0] for each in letters[:500])
    script = scripts.most_common(1)[0][0] if scripts else "LATIN"
    if script != "LATIN":
        return script.capitalize()
    said = words(text)
    if len(said) < _FEWEST_WORDS:
        return None
    hits = {name: sum(word in listed for word in said) for name, listed in _LISTS.items()}
    (best, most), (_, second) = Counter(hits).most_common(2)
    return best if most >= _FEWEST_HITS and most > second else None


def negations_of(language: str | None) -> frozenset[str]:
    """The plain negations of a language other than English; none where it is not known."""
    return frozenset(_NEGATIONS.get(language or "", "").split())
