"""Every metric equals pytrec_eval, to 1e-9: on any run, at the edges, and on the real judgments."""

import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.data.beir import read_beir
from assay.data.dataset import Judgments
from assay.metrics.metric import (
    AP,
    MRR,
    CappedRecall,
    Hit,
    Judged,
    Metric,
    Precision,
    Recall,
    Rprec,
    bpref,
    nDCG,
)
from assay.metrics.scoring import score, score_rankings

Rankings = Mapping[str, Sequence[str]]

CUTOFFS = (1, 3, 10, 1000)
METRICS: list[Metric] = [
    *(m @ k for m in (nDCG, nDCG(gain="exp"), Recall, CappedRecall) for k in CUTOFFS),
    *(m @ k for m in (Precision, MRR, AP, Hit, Judged) for k in CUTOFFS),
    *(nDCG, nDCG(gain="exp"), Recall, MRR, AP, Rprec, bpref, nDCG(judged_only=True)),
    *(nDCG(judged_only=True) @ k for k in CUTOFFS),
]


def assert_equal(rankings: Rankings, judgments: Judgments) -> None:
    scores = score_rankings(rankings, judgments, METRICS)
    for metric in METRICS:
        ours = dict(zip(scores.query_ids, scores.values[metric].tolist(), strict=True))
        assert ours == pytest.approx(reference(rankings, judgments, metric), rel=0, abs=1e-9), (
            metric
        )


document_ids = st.sampled_from([f"MED-{number}" for number in range(30)])
query_ids = st.sampled_from(["PLAIN-1", "PLAIN-12", "2-3-4", "-5", "q"])
some_judgments = st.dictionaries(
    query_ids, st.dictionaries(document_ids, st.integers(-2, 4), min_size=1)
)
some_rankings = st.dictionaries(query_ids, st.lists(document_ids, max_size=30))


@settings(max_examples=100, deadline=None)
@given(some_rankings, some_judgments)
def test_any_run_scores_as_in_trec_eval(rankings: Rankings, judgments: Judgments) -> None:
    assert_equal(rankings, judgments)


@pytest.mark.parametrize(
    ("rankings", "judgments"),
    [
        # Ids that sort against the ranking, or are like numbers.
        ({"q": ["a", "b", "z"]}, {"q": {"a": 2, "z": 1}}),
        ({"PLAIN-2": ["MED-10", "MED-1"]}, {"PLAIN-2": {"MED-1": 1, "MED-10": 0}}),
        ({"1": ["10", "9", "1"]}, {"1": {"9": 1, "1": 2}}),
        # Queries without a ranking, without relevant documents, without judgments.
        ({"q": ["a"]}, {"q": {"a": 1}, "absent": {"a": 1}}),
        ({"q": []}, {"q": {"a": 1}}),
        ({"q": ["a"], "r": ["a"]}, {"q": {"a": 0}, "r": {"a": 1}}),
        ({"q": ["a"], "other": ["a"]}, {"q": {"a": 1}}),
        # A cut-off longer than the list, and a document twice.
        ({"q": ["x", "a"]}, {"q": {"a": 1, "b": 1, "c": 2}}),
        ({"q": ["a", "a", "b"]}, {"q": {"a": 1, "b": 1}}),
        # Grades that are negative, 0 and high.
        ({"q": ["spam", "a", "junk"]}, {"q": {"spam": -2, "a": 1, "junk": -1}}),
        ({"q": ["zero", "a"]}, {"q": {"zero": 0, "a": 3}}),
        ({"q": ["a", "b"]}, {"q": {"a": 9, "b": 12}}),
    ],
)
def test_edge_cases_score_as_in_trec_eval(rankings: Rankings, judgments: Judgments) -> None:
    assert_equal(rankings, judgments)


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(
        query_ids,
        st.dictionaries(
            document_ids, st.sampled_from([0.0, 0.5, 1.0, 1.0 + 1e-9, -3.5]), min_size=1
        ),
        min_size=1,
    ),
    st.dictionaries(document_ids, st.integers(0, 3), min_size=1),
)
def test_any_score_dictionary_with_ties_scores_as_in_pytrec_eval(
    run: dict[str, dict[str, float]], grades: dict[str, int]
) -> None:
    query = next(iter(run))
    judgments = {query: {**grades, "MED-0": 1}}
    evaluator = pytrec_eval.RelevanceEvaluator(judgments, {"ndcg_cut.10", "map"})
    expected = evaluator.evaluate({query: run[query]})[query]
    scores = score(run, judgments, ["ndcg@10", "map"])
    assert scores["ndcg@10"] == pytest.approx(expected["ndcg_cut_10"], abs=1e-9)
    assert scores["map"] == pytest.approx(expected["map"], abs=1e-9)


@pytest.fixture(scope="module")
def nfcorpus() -> Judgments:
    archive = os.environ.get("NFCORPUS_ARCHIVE")
    if not archive:
        pytest.skip("NFCORPUS_ARCHIVE is not set: the real judgments are in that archive")
    return read_beir(Path(archive)).judgments_in("test")


def _oracle(judged: Mapping[str, int], _pool: list[str]) -> list[str]:
    return sorted(judged, key=lambda each: -judged[each])


def _random(judged: Mapping[str, int], pool: list[str]) -> list[str]:
    return random.Random(len(judged)).sample(pool, 100)


def _middling(judged: Mapping[str, int], pool: list[str]) -> list[str]:
    """Relevant documents thinly spread among others, as lexical search leaves them."""
    mixed = random.Random(len(judged))
    found = [each for each in judged if mixed.random() < 0.3]
    return list(dict.fromkeys(mixed.sample(found + _random(judged, pool), len(found) + 80)))


SYSTEMS = {s.__name__.strip("_"): s for s in (_oracle, _random, _middling)}


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_real_test_judgments_score_as_in_trec_eval(system: str, nfcorpus: Judgments) -> None:
    rank: Callable[[Mapping[str, int], list[str]], list[str]] = SYSTEMS[system]
    pool = sorted({document for judged in nfcorpus.values() for document in judged})
    rankings = {query: rank(judged, pool) for query, judged in nfcorpus.items()}
    assert len(rankings) == 323
    assert_equal(rankings, nfcorpus)


def test_the_real_ceilings_are_those_of_the_oracle(nfcorpus: Judgments) -> None:
    oracle = {query: _oracle(judged, []) for query, judged in nfcorpus.items()}
    metrics = [Recall @ 5, Recall @ 10, Recall @ 100, Precision @ 5]
    scores = score_rankings({}, nfcorpus, metrics)
    for metric, published in zip(metrics, (0.462, 0.615, 0.965, 0.874), strict=True):
        best = reference(oracle, nfcorpus, metric)
        assert scores.mean_ceiling(metric) == pytest.approx(sum(best.values()) / 323, abs=1e-9)
        assert scores.mean_ceiling(metric) == pytest.approx(published, abs=5e-4)


# The reference: pytrec_eval, fed so that it can express what Assay's rules say. It leaves out
# queries that the run lacks, breaks ties by document id, holds no document twice, and has no MRR@k,
# capped recall, exponential gain or Judged; each is put in its terms. Queries without a relevant
# document are not shown to it: where all grades of one are negative it reads outside its memory.

_MEASURES = {
    "nDCG": ("ndcg", "ndcg_cut"),
    "nDCG(gain=exp)": ("ndcg", "ndcg_cut"),
    "Recall": ("set_recall", "recall"),
    "CappedRecall": ("", "recall"),
    "Precision": ("", "P"),
    "MRR": ("recip_rank", "recip_rank"),
    "AP": ("map", "map_cut"),
    "Rprec": ("Rprec", ""),
    "Hit": ("", "success"),
    "Judged": ("", "P"),
    "bpref": ("bpref", ""),
    "nDCG(judged_only=True)": ("ndcg", "ndcg_cut"),
}


def reference(rankings: Rankings, judgments: Judgments, metric: Metric) -> dict[str, float]:
    """The metric for every query that has a relevant document; 0 where there is no ranking."""
    grades = {query: dict(judged) for query, judged in judgments.items() if _relevant(judged)}
    whole, cut = _MEASURES[metric.name]
    measure = whole if metric.cutoff is None else cut
    if metric.name == nDCG(judged_only=True).name:
        rankings = {q: _judged_only(ids, grades.get(q, {})) for q, ids in rankings.items()}
    if metric.name == "MRR":
        rankings = {query: ids[: metric.cutoff] for query, ids in rankings.items()}
    elif metric.cutoff is not None:
        measure = f"{cut}.{metric.cutoff}"
    evaluator = pytrec_eval.RelevanceEvaluator(_regraded(grades, metric), {measure})
    found = evaluator.evaluate({query: scored(ids) for query, ids in rankings.items()})
    values = {query: row[measure.replace(".", "_")] for query, row in found.items()}
    return {
        query: values.get(query, 0.0) * _scale(judged, metric) for query, judged in grades.items()
    }


def scored(ids: Sequence[str]) -> dict[str, float]:
    """Strictly decreasing scores. A repeat becomes a reserved id: a place that earns nothing."""
    names = [f"repeat {place}" if each in ids[:place] else each for place, each in enumerate(ids)]
    return {name: float(len(names) - place) for place, name in enumerate(names)}


def _regraded(grades: dict[str, dict[str, int]], metric: Metric) -> dict[str, dict[str, int]]:
    if metric.name == "nDCG(gain=exp)":
        return {q: {d: 2 ** max(g, 0) - 1 for d, g in each.items()} for q, each in grades.items()}
    if metric.name == "Judged":
        return {query: dict.fromkeys(each, 1) for query, each in grades.items()}
    return grades


def _judged_only(ids: Sequence[str], judged: Mapping[str, int]) -> list[str]:
    """The list without repeats and without documents that nobody judged."""
    return [each for each in dict.fromkeys(ids) if judged.get(each, -1) >= 0]


def _scale(judged: Mapping[str, int], metric: Metric) -> float:
    if metric.name != "CappedRecall" or metric.cutoff is None:
        return 1.0
    return _relevant(judged) / min(_relevant(judged), metric.cutoff)


def _relevant(judged: Mapping[str, int]) -> int:
    return sum(grade > 0 for grade in judged.values())
