"""The first look at a query: every signal that needs no learned tree."""

from dataclasses import dataclass

import numpy as np

from assay.search.tuning.arrays import Floats, Sparse, dense, min_max
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
    profiles = profile(memory.bundles, hybrid, signals["text"])
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
    found: Signals = {}
    for name in ("body", "title", "meaning", "hybrid"):
        scores = getattr(content, name)
        found[f"{name}_best"] = memory.bundles.best(scores)
        found[f"{name}_mean"] = memory.bundles.mean(scores)
    written = dense(questions.stems @ memory.texts)
    found |= dict(zip(TEXTS, np.split(written, len(TEXTS), axis=1), strict=True))
    for name in ("centres", "asked_centres", "both_centres"):
        found[name] = np.asarray(questions.vectors @ getattr(memory, name).T, np.float32)
    return content.hybrid, found


def _judged_signals(memory: Memory, questions: Questions, likenesses: Signals) -> Signals:
    """Judgments of similar queries, passed on; and what is known of a bundle by itself."""
    found: Signals = {}

    def pass_on(name: str, weights: Floats) -> None:
        found[name] = np.asarray(weights @ memory.relevant, np.float32)

    for sharpness in (8, 15):
        near = np.exp(sharpness * (likenesses["meaning"] - 1))
        pass_on(f"near_{sharpness}", near)
        pass_on(f"near_{sharpness}_evenly", near * memory.evenly)
    pass_on("same_words", likenesses["words"] ** 2 * memory.evenly)
    pass_on("ridge", likenesses["share"])
    pass_on("ridge_evenly", likenesses["share"] * memory.evenly)
    shape = (len(questions), len(memory.bundles))
    for name, values in (
        ("popularity", memory.popularity),
        ("size", memory.bundles.sizes),
        ("focus", memory.focus),
    ):
        found[name] = np.broadcast_to(values, shape)
    return found
