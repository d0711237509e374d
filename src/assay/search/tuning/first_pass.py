"""The first look at a query: every signal that needs no learned tree."""

from dataclasses import dataclass

import numpy as np

from assay.search.tuning.arrays import Floats, Sparse, dense, min_max, products
from assay.search.tuning.content import compare_content
from assay.search.tuning.kernel import likeness, profile
from assay.search.tuning.memory import TEXTS, Memory
from assay.search.tuning.reading import Corpus, Questions

Signals = dict[str, Floats]
"""By name, in a fixed order: queries by bundles."""


@dataclass(frozen=True)
class FirstPass:
    questions: Questions
    hybrid: Floats
    """Queries by documents."""
    signals: Signals
    likenesses: Signals
    """Queries by judged queries."""


def first_pass(corpus: Corpus, memory: Memory, questions: Questions) -> FirstPass:
    hybrid, signals = _content_signals(corpus, memory, questions)
    profiles = profile(signals["hybrid_mean"], signals["hybrid_best"], signals["text"])
    likenesses = _likenesses(memory, questions, profiles)
    signals |= _judged_signals(memory, questions, likenesses)
    # Three rankings that the later stages start from. The weights are round numbers, hardly
    # tuned; the trees correct them.
    signals["base"] = (
        min_max(signals["hybrid_mean"])
        + min_max(signals["hybrid_best"])
        + 0.5 * min_max(signals["text"])
        + 0.5 * min_max(signals["near_15_evenly"])
    )
    signals["start"] = signals["base"] + 2 * min_max(signals["ridge"])
    return FirstPass(questions, hybrid, signals, likenesses)


def _likenesses(memory: Memory, questions: Questions, profiles: Sparse) -> Signals:
    found = {
        "meaning": np.asarray(questions.vectors @ memory.vectors.T, np.float32),
        "words": dense(questions.words @ memory.words),
        "grams": dense(questions.grams @ memory.grams),
        "profiles": dense(profiles @ memory.profiles),
    }
    found["share"] = likeness(**found) @ memory.inverse
    return found


def _content_signals(
    corpus: Corpus, memory: Memory, questions: Questions
) -> tuple[Floats, Signals]:
    content = compare_content(corpus, questions)
    scores = vars(content)
    means = products(scores, memory.bundles.members.T)
    best = np.split(memory.bundles.best(np.concatenate(list(scores.values()))), len(scores))
    found: Signals = {}
    for name, highest in zip(scores, best, strict=True):
        found[f"{name}_best"] = highest
        found[f"{name}_mean"] = means[name]
    written = dense(questions.stems @ memory.texts)
    found |= dict(zip(TEXTS, np.split(written, len(TEXTS), axis=1), strict=True))
    for name in ("centres", "asked_centres", "both_centres"):
        found[name] = np.asarray(questions.vectors @ getattr(memory, name).T, np.float32)
    return content.hybrid, found


def _judged_signals(memory: Memory, questions: Questions, likenesses: Signals) -> Signals:
    """Judgments of similar queries, passed on; and what is known of a bundle by itself."""
    weights: Signals = {}
    for sharpness in (8, 15):
        near = np.exp(sharpness * (likenesses["meaning"] - 1))
        weights[f"near_{sharpness}"] = near
        weights[f"near_{sharpness}_evenly"] = near * memory.evenly
    weights["same_words"] = likenesses["words"] ** 2 * memory.evenly
    weights["ridge"] = likenesses["share"]
    weights["ridge_evenly"] = likenesses["share"] * memory.evenly
    found = products(weights, memory.relevant)
    shape = (len(questions), len(memory.bundles))
    for name, values in (
        ("popularity", memory.popularity),
        ("size", memory.bundles.sizes),
        ("focus", memory.focus),
    ):
        found[name] = np.broadcast_to(values, shape)
    return found
