"""How well each level tells contradicted sentences from supported ones, beside what others use.

    python benchmarks/contradiction.py scifact.zip [--corpus [--labels]]

Held out: SciFact's labels are used for testing alone, and with `--corpus` the trees learn from the
abstracts that no labeled claim is about. Balanced pairs have, for each way that a claim can look
(negated or not; and pointing up, down or nowhere), as many supported as contradicted ones, so that
the claim alone shows little. The claim-only row is a model that sees no source: what is not above
it was not read from the sources. `--labels` shows what SciFact's own labels would add: the scores
of both models and the features go into one more linear model, in ten folds by document.
"""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.claims import (
    CONTRADICTED,
    SUPPORTED,
    LabeledClaim,
    notes_claims,
    scifact_claims,
)
from scripts.train_contradiction import (
    Matrix,
    build,
    corpus_claims,
    cross_validated,
    fit_linear,
    table,
    unrelated_claims,
)

from assay.answers.contradiction.model import (
    BUNDLED,
    ContradictionModel,
    load_contradiction_model,
    pair_features,
    parse_model,
)
from assay.answers.contradiction.rules import (
    ContradictionChecker,
    analyzed_sources,
    find_contradiction,
)
from assay.answers.contradiction.sentence import analyze
from assay.data import load_dataset
from assay.data.dataset import Dataset
from assay.text import stems, words

Score = Callable[[LabeledClaim], float]
"""Higher means more likely supported."""


def token_precision(each: LabeledClaim) -> float:
    """The share of the claim's words that the sources have."""
    held = set(words(" ".join(each.sources)))
    said = words(each.claim)
    return sum(word in held for word in said) / max(1, len(said))


def content_coverage(each: LabeledClaim) -> float:
    """The share of the claim's content words that the sources have, as faithfulness counts them."""
    held, said = set(stems(" ".join(each.sources))), set(stems(each.claim))
    return len(said & held) / max(1, len(said))


def rouge_l(each: LabeledClaim) -> float:
    """ROUGE-L's F measure of the claim against the sources."""
    ours, theirs = words(each.claim), words(" ".join(each.sources))
    row = [0] * (len(theirs) + 1)
    for word in ours:
        before = 0
        for place, other in enumerate(theirs, start=1):
            kept = row[place]
            row[place] = before + 1 if word == other else max(row[place], row[place - 1])
            before = kept
    return 2 * row[-1] / max(1, len(ours) + len(theirs))


def by_rules(each: LabeledClaim) -> float:
    """0 where a rule finds a contradiction, else 1."""
    return float(find_contradiction(analyze(each.claim), analyzed_sources(each.sources)) is None)


def by_model(model: ContradictionModel) -> Score:
    """1 less the probability of a contradiction."""
    return lambda each: (
        1 - model.probability(pair_features(analyze(each.claim), analyzed_sources(each.sources)))
    )


def auc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """The chance that a supported claim scores higher than another; ties count half."""
    a, b = np.asarray(positive)[:, None], np.asarray(negative)[None, :]
    return float(((a > b) + 0.5 * (a == b)).mean())


def interval(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Half the width of the 95% interval (Hanley and McNeil 1982)."""
    area, n, m = auc(positive, negative), len(positive), len(negative)
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    spread = (area * (1 - area) + (n - 1) * (q1 - area**2) + (m - 1) * (q2 - area**2)) / (n * m)
    return float(1.96 * np.sqrt(spread))


def claim_only(claims: Sequence[LabeledClaim]) -> list[float]:
    """Ten-fold predictions of a model that sees the claim and no source."""
    rows = [analyze(each.claim) for each in claims]
    features = np.array(
        [
            [
                sum(sign > 0 for _, sign in row.signs),
                sum(sign < 0 for _, sign in row.signs),
                len(row.negated),
                len(row.words),
            ]
            for row in rows
        ],
        dtype=np.float64,
    )
    labels = np.array([each.label == CONTRADICTED for each in claims], dtype=np.float64)
    groups = sorted({each.group for each in claims})
    folds = np.array([groups.index(each.group) % 10 for each in claims])
    scores = np.zeros(len(claims))
    for fold in range(10):
        weights, bias = fit_linear(features[folds != fold], labels[folds != fold])
        scores[folds == fold] = -(features[folds == fold] @ weights + bias)
    return scores.tolist()


def balanced(claims: Sequence[LabeledClaim], seed: int, *, directions: bool) -> list[int]:
    """Places of claims, as many of each label among those that look alike: negated or not and,
    with `directions`, pointing up, down or nowhere.
    """
    strata: dict[tuple[bool, int], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, each in enumerate(claims):
        row = analyze(each.claim)
        lean = int(np.sign(sum(sign for _, sign in row.signs))) if directions else 0
        look = bool(row.negated), lean
        strata[look][each.label].append(place)
    rng = np.random.default_rng(seed)
    kept: list[int] = []
    for by_label in strata.values():
        number = min(len(by_label[SUPPORTED]), len(by_label[CONTRADICTED]))
        for label in (SUPPORTED, CONTRADICTED):
            kept += rng.permutation(by_label[label])[:number].tolist()
    return kept


def split(
    scores: Sequence[float], claims: Sequence[LabeledClaim]
) -> tuple[list[float], list[float]]:
    """The scores of supported and of other claims."""
    pairs = list(zip(scores, claims, strict=True))
    return [s for s, c in pairs if c.supported], [s for s, c in pairs if not c.supported]


def report(name: str, scores: Sequence[float], claims: Sequence[LabeledClaim]) -> None:
    """One line: all pairs, then balanced ones over 20 draws."""
    sides = split(scores, claims)
    means = []
    for directions in (False, True):
        draws = []
        for seed in range(20):
            kept = balanced(claims, seed, directions=directions)
            draws.append(auc(*split([scores[i] for i in kept], [claims[i] for i in kept])))
        means.append(float(np.mean(draws)))
    print(f"{name:34} {auc(*sides):.3f} ± {interval(*sides):.3f}   {means[0]:.3f}   {means[1]:.3f}")


def decisions(name: str, checker: ContradictionChecker, claims: Sequence[LabeledClaim]) -> None:
    """Precision and recall of what is reported as contradicted."""
    found = [bool(checker.find(each.claim, each.sources)) for each in claims]
    hits = sum(f and not c.supported for f, c in zip(found, claims, strict=True))
    wrong = sum(not c.supported for c in claims)
    alarms = sum(f and c.supported for f, c in zip(found, claims, strict=True))
    print(
        f"{name:34} precision {hits / max(1, sum(found)):.2f}, recall {hits / wrong:.2f}, "
        f"false alarms {alarms / (len(claims) - wrong):.3f}"
    )


def corpus_model(path: Path, held_out: set[str]) -> ContradictionModel:
    """Trees from the abstracts that no labeled claim is about."""
    whole = load_dataset(path)
    kept = {doc_id: each for doc_id, each in whole.documents.items() if doc_id not in held_out}
    rest = Dataset(whole.name, kept, {}, {})
    return parse_model(build(list(corpus_claims(rest)), "abstracts", trees=True))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scifact", type=Path, help="BEIR's scifact.zip, with labels in queries")
    parser.add_argument("--corpus", action="store_true", help="also train trees on its abstracts")
    parser.add_argument("--labels", action="store_true", help="also learn from other folds' labels")
    options = parser.parse_args()
    claims = scifact_claims(options.scifact)
    notes = notes_claims()
    models = {"small model (bundled, from notes)": load_contradiction_model(BUNDLED)}
    if options.corpus:
        groups = {each.group for each in claims}
        models["trees (from other abstracts)"] = corpus_model(options.scifact, groups)
    scorers: dict[str, Score] = {
        "token precision": token_precision,
        "ROUGE-L": rouge_l,
        "content words": content_coverage,
        "rules": by_rules,
        **{name: by_model(model) for name, model in models.items()},
    }
    contradicted = sum(not each.supported for each in claims)
    print(f"SciFact, {len(claims)} labeled pairs, {contradicted} contradicted: AUC,")
    print("with negation balanced, and with negation and direction balanced")
    for name, score in scorers.items():
        report(name, [score(each) for each in claims], claims)
    report("the claim alone", claim_only(claims), claims)
    if options.corpus and options.labels:
        print_labels(claims, list(models.values()))
    for name, model in models.items():
        decisions(f"reported: rules, {name}"[:34], ContradictionChecker(model), claims)
    decisions("reported: rules", ContradictionChecker(), claims)
    print_notes(notes, scorers)
    unrelated = unrelated_claims(claims)
    supported = [each for each in claims if each.supported]
    print(f"\nSciFact, {len(supported)} supported against {len(unrelated)} unrelated pairs: AUC")
    for name in ("token precision", "ROUGE-L", "content words"):
        sides = [[scorers[name](each) for each in part] for part in (supported, unrelated)]
        print(f"{name:34} {auc(*sides):.3f}")
    print_speed(claims)


def print_labels(claims: Sequence[LabeledClaim], models: Sequence[ContradictionModel]) -> None:
    """What SciFact's labels add to models that saw none, in ten folds by document."""
    _, features, labels = table(claims)
    bases = [[-by_model(model)(each) for each in claims] for model in models]
    columns = np.c_[features, np.array(bases).T]
    groups = sorted({each.group for each in claims})
    places = np.random.default_rng(0).permutation(len(groups))
    fold_of = {group: int(place) % 10 for group, place in zip(groups, places, strict=True)}
    folds = np.array([fold_of[each.group] for each in claims])
    scores = np.zeros(len(claims))
    for fold in range(10):
        weights, bias = fit_linear(columns[folds != fold], labels[folds != fold])
        scores[folds == fold] = columns[folds == fold] @ weights + bias
    report("labels of other folds too", (-scores).tolist(), claims)
    trees = np.array(bases[-1])
    both = (scores - scores.mean()) / scores.std() + (trees - trees.mean()) / trees.std()
    report("labels, and trees once more", (-both).tolist(), claims)


def print_notes(notes: Sequence[LabeledClaim], scorers: dict[str, Score]) -> None:
    """The pairs from `notes`, each kind of change by itself; the bundled model cross-validated."""
    _, features, labels = table(notes)
    chances: Matrix = cross_validated(notes, features, labels, trees=False)
    columns = {name: [score(each) for each in notes] for name, score in scorers.items()}
    columns["small model (bundled, from notes)"] = (1 - chances).tolist()
    kinds = sorted({each.kind for each in notes})
    print(f"\nnotes, {len(notes)} pairs with one change: AUC, all and by kind")
    print(f"{'':34} {'all':>8}" + "".join(f"{kind:>10}" for kind in kinds))
    for name, scores in columns.items():
        parts = [[i for i, each in enumerate(notes) if each.kind == kind] for kind in kinds]
        by_kind = [
            auc(*split([scores[i] for i in part], [notes[i] for i in part])) for part in parts
        ]
        whole = auc(*split(scores, notes))
        print(f"{name:34} {whole:8.3f}" + "".join(f"{each:10.3f}" for each in by_kind))
    decisions("reported: rules", ContradictionChecker(), notes)


def print_speed(claims: Sequence[LabeledClaim]) -> None:
    """Milliseconds for one sentence against a source of about ten, analysis of it included."""
    for name, checker in (
        ("rules", ContradictionChecker()),
        ("rules and small model", ContradictionChecker(load_contradiction_model(BUNDLED))),
    ):
        analyzed_sources.__globals__["_analyzed"].cache_clear()
        started = time.process_time()
        for each in claims:
            checker.find(each.claim, each.sources)
        milliseconds = (time.process_time() - started) / len(claims) * 1000
        print(f"{name}: {milliseconds:.1f} ms a sentence")


if __name__ == "__main__":
    main()
