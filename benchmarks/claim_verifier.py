"""How often CLAIM_VERIFY is right about claims whose truth is known.

Sentences of abstracts are claimed of their own abstract: as they stand, with a word in eight left
out, with a number changed, a denial put in, a direction turned round, and of another abstract.

    NFCORPUS_ARCHIVE=nfcorpus.zip python benchmarks/claim_verifier.py
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from assay.data import load_dataset
from assay.serve.contract_agents.claim_evidence import STRICTNESS, EvidenceBase

DOCUMENTS = 600
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_NUMBER = re.compile(r"\b\d+(?:\.\d+)?\b")
_DENIAL = re.compile(r"\b(not|no|without|nor|never)\b|n't", re.IGNORECASE)
_VERB = re.compile(r"\b(?:was|were|is|are|has|have)\b ")
_TURNS = {
    "increased": "decreased",
    "decreased": "increased",
    "higher": "lower",
    "lower": "higher",
    "reduced": "increased",
    "improved": "worsened",
}


def sentences(text: str) -> list[str]:
    return [each for each in _SENTENCE.split(text) if 8 <= len(each.split()) <= 40]


def variants(sentence: str) -> Iterator[tuple[str, str]]:
    yield "as it stands", sentence
    kept = [word for place, word in enumerate(sentence.split()) if place % 8 != 5]
    yield "a word in eight left out", " ".join(kept)
    if number := _NUMBER.search(sentence):
        changed = f"{float(number[0]) * 1.7 + 3:g}"
        yield "a number changed", sentence[: number.start()] + changed + sentence[number.end() :]
    if (verb := _VERB.search(sentence)) and not _DENIAL.search(sentence):
        yield "denied", f"{sentence[: verb.end()]}not {sentence[verb.end() :]}"
    for word, opposite in _TURNS.items():
        if word in sentence.split():
            yield "a direction turned", sentence.replace(word, opposite, 1)
            return


def main() -> None:
    documents = list(load_dataset("nfcorpus").documents.values())
    chance = random.Random(0)
    chance.shuffle(documents)
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for document, other in zip(documents, documents[DOCUMENTS:], strict=False):
        own, foreign = sentences(document.text), sentences(other.text)
        if not own or not foreign or _full(found):
            continue
        base = EvidenceBase([(document.id, document.text)])
        claims = [*variants(chance.choice(own)), ("of another abstract", chance.choice(foreign))]
        for kind, claim in claims:
            found[kind][base.check(claim, STRICTNESS["normal"]).verdict] += 1
    print(f"{'claim':26}{'n':>5}{'pass':>8}{'fail':>8}{'unclear':>9}")
    for kind, verdicts in found.items():
        total = verdicts.total()
        shares = [f"{verdicts[verdict] / total:.3f}" for verdict in ("pass", "fail", "unclear")]
        print(f"{kind:26}{total:5}{shares[0]:>8}{shares[1]:>8}{shares[2]:>9}")


def _full(found: dict[str, Counter[str]]) -> bool:
    return found["as it stands"].total() >= DOCUMENTS


if __name__ == "__main__":
    main()
