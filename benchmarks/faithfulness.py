"""How well each level of faithfulness tells supported sentences from contradicted ones.

    python benchmarks/faithfulness.py scifact.zip --model onnx:models/nli [--judge gguf:FILE]

SciFact: claims with the abstracts that support or contradict them, labeled by people. `notes`:
sentences of the reference answers, as they are and with one number, name or negation changed.
Recall is that of contradicted sentences at the threshold that flags 5% of the supported ones.
"""

import argparse
import asyncio
import json
import random
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from assay.answers.differences import differences
from assay.answers.entailment import open_entailment, support
from assay.answers.judge import Judge
from assay.answers.judge_controls import near_misses
from assay.answers.values import content
from assay.data.load import load_dataset
from assay.llm.providers.opening import open_provider
from assay.text import sentences, words


@dataclass(frozen=True)
class Claim:
    """A sentence with its sources, and whether they support it."""

    text: str
    sources: tuple[str, ...]
    supported: bool


def scifact_claims(archive: Path) -> list[Claim]:
    """Every claim that people labeled, with the abstract of its label."""
    with zipfile.ZipFile(archive) as files:
        lines = files.read("scifact/corpus.jsonl").decode().splitlines()
        corpus = {row["_id"]: f"{row['title']}. {row['text']}" for row in map(json.loads, lines)}
        queries = files.read("scifact/queries.jsonl").decode().splitlines()
    return [
        Claim(row["text"], (corpus[doc_id],), marks[0]["label"] == "SUPPORT")
        for row in map(json.loads, queries)
        for doc_id, marks in row["metadata"].items()
        if doc_id in corpus
    ]


def notes_claims() -> list[Claim]:
    """Sentences of the reference answers, and each with one change."""
    notes = load_dataset("notes")
    names = sorted({name for each in notes.documents.values() for name in each.title.split()})
    found = []
    for reference in notes.answers.values():
        sources = tuple(notes.documents[doc_id].full_text for doc_id in reference.documents)
        for sentence in sentences(reference.answer or ""):
            changed = [*near_misses(sentence, [name for name in names if name.istitle()])]
            if sources and changed:
                found.append(Claim(sentence, sources, True))
                found += [Claim(text, sources, False) for text in changed]
    return found


def token_overlap(claim: Claim) -> float:
    """The share of all words of the claim that its sources have."""
    said = {*words(claim.text)}
    return len(said & {*words(" ".join(claim.sources))}) / max(1, len(said))


def words_and_values(claim: Claim) -> float:
    """What Assay does without a model: shared content words, and exact differences."""
    said, held = content(claim.text), content(" ".join(claim.sources))
    differs = differences(claim.text, dict.fromkeys(claim.sources, "the source"))
    return len(said & held) / max(1, len(said)) - len(differs)


def flags(claim: Claim) -> bool:
    """Whether a value, a negation or an opposite differs: what a report names."""
    return bool(differences(claim.text, dict.fromkeys(claim.sources, "the source")))


def supported_by(spec: str, claim: Claim) -> float:
    """What a model of `--faithfulness` says."""
    return support(open_entailment(spec), claim.text, claim.sources)


def auc(scores: Sequence[float], claims: Sequence[Claim]) -> float:
    """The chance that a supported claim scores above a contradicted one; ties count half."""
    yes, no = _sides(scores, claims)
    return float(np.mean((yes[:, None] > no) + (yes[:, None] == no) / 2))


def recall(scores: Sequence[float], claims: Sequence[Claim]) -> tuple[float, float]:
    """The share of contradicted claims below a threshold, and of supported ones, at most 5%."""
    yes, no = _sides(scores, claims)
    fitting = [limit for limit in np.unique(scores) if np.mean(yes < limit) <= 0.05]
    limit = max(fitting)
    return float(np.mean(no < limit)), float(np.mean(yes < limit))


def _sides(scores: Sequence[float], claims: Sequence[Claim]) -> tuple[np.ndarray, np.ndarray]:
    supported = np.array([claim.supported for claim in claims])
    return np.array(scores)[supported], np.array(scores)[~supported]


async def judged(spec: str, claims: Sequence[Claim]) -> list[float]:
    """1 for each claim that the judge finds supported, else 0."""
    async with open_provider(spec) as provider:
        judge = Judge(provider)
        found = [await judge.supports(claim.text, claim.sources) for claim in claims]
        return [float(each.verdict is True) for each in found]


def report(name: str, claims: Sequence[Claim], score: Callable[[Claim], float]) -> None:
    """Print one row."""
    start = time.process_time()
    print_row(name, [score(claim) for claim in claims], claims, time.process_time() - start)


def print_row(name: str, scores: Sequence[float], claims: Sequence[Claim], spent: float) -> None:
    """AUC, recall at 5% false alarms, CPU time a sentence."""
    found, alarms = recall(scores, claims)
    each = 1000 * spent / len(claims)
    print(
        f"{name:28} {auc(scores, claims):.3f}  {found:.3f} at {alarms:.1%}  {each:7.1f} ms"
        f"  ({len(claims)} claims)",
        flush=True,
    )


def main() -> None:
    """Print a table for each set."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scifact", type=Path)
    parser.add_argument("--model", default="")
    parser.add_argument("--judge", default="")
    parser.add_argument("--judge-claims", type=int, default=100)
    given = parser.parse_args()
    for name, claims in (("SciFact", scifact_claims(given.scifact)), ("notes", notes_claims())):
        supported = sum(claim.supported for claim in claims)
        print(f"{name}: {supported} supported, {len(claims) - supported} contradicted")
        report("token overlap", claims, token_overlap)
        report("words and values", claims, words_and_values)
        sides = ([each for each in claims if each.supported is kind] for kind in (True, False))
        alarms, found = (np.mean([flags(each) for each in side]) for side in sides)
        print(f"{'  differences alone':35}{found:.3f} at {alarms:.1%}")
        if given.model:
            report(given.model, claims, lambda claim: supported_by(given.model, claim))
        if given.judge:
            drawn = random.Random(0).sample(claims, min(given.judge_claims, len(claims)))
            start = time.process_time()
            scores = asyncio.run(judged(given.judge, drawn))
            print_row(given.judge.partition(":")[0], scores, drawn, time.process_time() - start)


if __name__ == "__main__":
    main()
