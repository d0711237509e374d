from collections.abc import Sequence

import numpy as np
from tests.search.tuning import worlds

from assay.search.tuning.features import Integers
from assay.search.tuning.signals import RankingCandidates
from assay.search.tuning.trees import learn_ranking
from assay.search.tuning.validation import (
    FamiliarityGate,
    HeldOut,
    ValidationFold,
    _held_out_probability,
    choose_settings,
    gain,
)


def test_a_loss_on_unfamiliar_queries_counts_where_it_is_no_chance() -> None:
    right, wrong = np.ones(20, np.float32), np.zeros(20, np.float32)
    odd = right.copy()
    odd[0] = 0
    assert not HeldOut("dev", gain(wrong, right), gain(right, wrong)).harmless
    assert HeldOut("dev", gain(wrong, right), gain(right, odd)).harmless
    assert HeldOut("dev", gain(wrong, right), gain(right[:5], wrong[:5])).harmless


def test_a_query_is_told_familiar_by_the_other_folds_alone() -> None:
    signs, familiar = np.ones((40, 3)), np.repeat([True, False], 20)
    likely = _held_out_probability(signs, familiar, [20, 20])
    assert likely[:20].max() < 0.5 < likely[20:].min()


FAMILIAR, UNFAMILIAR = range(24), range(24, 36)


def test_trees_that_mislead_on_unfamiliar_queries_leave_them_to_the_zero_shot_ranking() -> None:
    gate, held_out = _choose(overlaps=(0.9, 0.3), trees_wrong=UNFAMILIAR)
    assert gate.trusted_from == 1
    assert held_out.unfamiliar.tuned > 0.95


def test_trees_that_lose_on_unfamiliar_queries_by_chance_need_no_second_search() -> None:
    gate, held_out = _choose((0.9, 0.3), trees_wrong=[24, 25], zero_shot_wrong=[26])
    assert gate.trusted_from == 0
    assert held_out.unfamiliar.tuned < held_out.unfamiliar.hybrid


def _choose(
    overlaps: tuple[float, float],
    trees_wrong: Sequence[int] = (),
    zero_shot_wrong: Sequence[int] = (),
) -> tuple[FamiliarityGate, HeldOut]:
    """Of queries that share a topic with a remembered one (`FAMILIAR`) and that do not. Rankings
    are perfect, or from worst to best where they are wrong.
    """
    data = worlds.learnable(train=72, dev=36)
    ideal = worlds.all_knowing(data)
    dev = sorted(data.judged("dev"), key=lambda query: query % worlds.TOPICS >= 8)
    remembered = [query for query in data.judged("train") if query % worlds.TOPICS < 8]

    def ranked(queries: Sequence[int], wrong: Sequence[int]) -> list[Integers]:
        right = zip(queries, ideal(queries), strict=True)
        return [one[::-1] if dev.index(query) in wrong else one for query, one in right]

    def fold(queries: list[int]) -> ValidationFold:
        candidates = [
            _candidates(one, overlaps[dev.index(query) in UNFAMILIAR])
            for query, one in zip(queries, ranked(queries, trees_wrong), strict=True)
        ]
        rows = np.zeros((20, 1), np.float32)
        trees = learn_ranking(rows, rows[:, 0], np.ones(20, np.float32), [20], seed=0)
        return ValidationFold("dev", queries, candidates, trees, remembered)

    folds = [fold(dev[::2]), fold(dev[1::2])]
    return choose_settings(data, folds, lambda queries: ranked(queries, zero_shot_wrong))[1:]


def _candidates(ranking: Integers, overlap: float) -> RankingCandidates:
    return RankingCandidates(
        features=np.zeros((len(ranking), 1), np.float32),
        sizes=np.ones(len(ranking), np.float32),
        documents=ranking,
        owners=np.arange(len(ranking)),
        zero_shot=ranking,
        familiarity=overlap,
    )
