"""One million judged (query, document) pairs: Assay with intervals against bare pytrec_eval.

    .venv/bin/python benchmarks/scoring.py

Both get what they want to be given, made before the clock starts: pytrec_eval a dict of scores for
each query, Assay a list of ids. pytrec_eval's time includes reading the judgments, as Assay's
does. Assay also checks every id against the corpus, looks for duplicates, computes the ceilings
and bootstraps the interval of the mean. The goal is a ratio of at most 2.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable

import pytrec_eval

from assay.metrics.metric import nDCG
from assay.metrics.scoring import score
from assay.metrics.statistics import summarize

METRIC = nDCG @ 10


def main() -> None:
    options = _options()
    rankings, judgments, known = _synthetic(options.queries, options.documents)
    scored = {
        query: {each: float(len(ids) - place) for place, each in enumerate(ids)}
        for query, ids in rankings.items()
    }

    def reference() -> float:
        found = pytrec_eval.RelevanceEvaluator(judgments, {"ndcg_cut.10"}).evaluate(scored)
        return statistics.fmean(row["ndcg_cut_10"] for row in found.values())

    def assay() -> float:
        scores = score(rankings, judgments, [METRIC], known=known, top_k=options.documents)
        return summarize(scores.values[METRIC]).mean

    print(f"{options.queries:,} queries x {options.documents} judged documents, {METRIC}")
    print(f"{'round':>5}  {'pytrec_eval':>11}  {'assay':>9}  ratio")
    ratios = [_round(number, reference, assay) for number in range(1, options.rounds + 1)]
    print(f"median ratio {statistics.median(ratios):.2f} (goal: at most 2.00)")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="time Assay's scoring against pytrec_eval")
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--documents", type=int, default=100, help="judged documents per query")
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def _synthetic(
    queries: int, documents: int
) -> tuple[dict[str, list[str]], dict[str, dict[str, int]], set[str]]:
    rng = random.Random(0)
    corpus = [f"MED-{number}" for number in range(50_000)]
    rankings: dict[str, list[str]] = {}
    judgments: dict[str, dict[str, int]] = {}
    for number in range(queries):
        ids = rng.sample(corpus, documents)
        judgments[f"PLAIN-{number}"] = {each: rng.choice((0, 0, 0, 1, 2)) for each in sorted(ids)}
        rankings[f"PLAIN-{number}"] = ids
    return rankings, judgments, set(corpus)


def _round(number: int, reference: Callable[[], float], assay: Callable[[], float]) -> float:
    theirs, expected = _timed(reference)
    ours, got = _timed(assay)
    if abs(expected - got) > 1e-9:
        raise SystemExit(f"the means differ: pytrec_eval {expected!r}, assay {got!r}")
    print(f"{number:>5}  {theirs:>9.3f} s  {ours:>7.3f} s  {ours / theirs:.2f}")
    return ours / theirs


def _timed(work: Callable[[], float]) -> tuple[float, float]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


if __name__ == "__main__":
    main()
