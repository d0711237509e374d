"""A report computed in a known wrong way is recognised as computed in that way."""

from math import inf, log2, nan
from statistics import fmean
from typing import Any

import pytest

from assay.errors import DataError
from assay.metrics.audit import AuditResult, Flaw, audit_report, read_report

JUDGMENTS: dict[str, dict[str, int]] = {
    f"PLAIN-{number}": {f"MED-{number * 10 + place}": 1 + (place == 0) for place in range(8)}
    for number in range(1, 9)
}


def lists() -> dict[str, list[str]]:
    """Something found in each, nothing perfect, no two alike."""
    return {
        query: ["other", *list(grades)[number % 3 : number % 3 + 3 : 2]][: 2 + number % 2]
        for number, (query, grades) in enumerate(JUDGMENTS.items())
    }


def naive_ndcg(
    ids: list[str],
    grades: dict[str, int],
    *,
    ideal_from_retrieved: bool = False,
    credit_repeats: bool = True,
    exponential: bool = False,
) -> float:
    """Written again, as evaluators in the wild write it, apart from the code under test."""

    def dcg(found: list[int]) -> float:
        gains = [2**grade - 1 if exponential else grade for grade in found[:5]]
        return sum(gain / log2(place + 2) for place, gain in enumerate(gains))

    found = [
        grades.get(each, 0) if credit_repeats or each not in ids[:place] else 0
        for place, each in enumerate(ids)
    ]
    best = dcg(sorted(found if ideal_from_retrieved else grades.values(), reverse=True))
    return dcg(found) / best if best else 0.0


def report(
    rankings: dict[str, list[str]],
    *,
    failed: list[str] | None = None,
    drop_failed: bool = False,
    **how: bool,
) -> dict[str, Any]:
    failed = failed or []
    rows: list[dict[str, Any]] = [
        {
            "query_id": query,
            "retrieved_docs": [] if query in failed else ids,
            "ndcg_at_5": 0.0 if query in failed else naive_ndcg(ids, JUDGMENTS[query], **how),
            "error": "timeout" if query in failed else None,
        }
        for query, ids in rankings.items()
    ]
    counted = [row["ndcg_at_5"] for row in rows if not (drop_failed and row["error"])]
    summary = {"total_queries": len(rows), "mean_ndcg_at_5": fmean(counted)}
    return {"summary": summary, "per_query_results": rows, "config": {"top_k": 5}}


def flaws_of(result: AuditResult) -> set[Flaw] | None:
    (claim,) = result.claims
    return None if claim.flaws is None else set(claim.flaws)


def test_a_right_report_is_found_right_also_inside_the_results_of_a_platform() -> None:
    wrapped = {"participants": {}, "results": [{"detail": 1}, [report(lists())]]}
    assert audit_report(read_report(wrapped), JUDGMENTS).correct
    result = audit_report(read_report(report(lists())), JUDGMENTS)
    assert result.correct
    assert flaws_of(result) == set()
    assert (result.queries, result.failed, result.unjudged) == (8, 0, ())


@pytest.mark.parametrize("exponential", [False, True])
@pytest.mark.parametrize("ideal_from_retrieved", [False, True])
@pytest.mark.parametrize("credit_repeats", [False, True])
@pytest.mark.parametrize("drop_failed", [False, True])
def test_every_combination_of_mistakes_is_told_apart(
    exponential: bool, ideal_from_retrieved: bool, credit_repeats: bool, drop_failed: bool
) -> None:
    made = report(
        {query: [*ids, ids[1], ids[1]] for query, ids in lists().items()},
        failed=["PLAIN-2"],
        exponential=exponential,
        ideal_from_retrieved=ideal_from_retrieved,
        credit_repeats=credit_repeats,
        drop_failed=drop_failed,
    )
    present = {
        Flaw.EXPONENTIAL_GAIN: exponential,
        Flaw.IDEAL_FROM_RETRIEVED: ideal_from_retrieved,
        Flaw.DUPLICATES_CREDITED: credit_repeats,
        Flaw.FAILED_DROPPED: drop_failed,
    }
    result = audit_report(read_report(made), JUDGMENTS)
    assert flaws_of(result) == {flaw for flaw, made_so in present.items() if made_so}
    assert result.failed == 1


def test_failed_queries_without_a_row_are_counted_by_the_total() -> None:
    made = report(lists(), failed=["PLAIN-1", "PLAIN-2"], drop_failed=True)
    made["per_query_results"] = made["per_query_results"][2:]
    result = audit_report(read_report(made), JUDGMENTS)
    assert flaws_of(result) == {Flaw.FAILED_DROPPED}
    assert (result.queries, result.failed) == (8, 2)


def small_judgments(queries: int) -> dict[str, dict[str, int]]:
    return {f"q{number}": {"a": 1} for number in range(queries)}


@pytest.mark.parametrize(("ids", "claim"), [(["x", "a"], 1 / log2(3)), (["a"], 1.0)])
def test_one_failed_query_dropped_among_thousands_is_noticed(ids: list[str], claim: float) -> None:
    rows: list[dict[str, Any]] = [
        {"query_id": query, "retrieved_docs": ids} for query in small_judgments(3_000)
    ]
    rows[0] |= {"retrieved_docs": [], "status": "failed"}
    made = {"summary": {"mean_ndcg_at_5": claim}, "per_query_results": rows}
    result = audit_report(read_report(made), small_judgments(3_000))
    assert result.claims[0].claimed - result.claims[0].recomputed < 5e-4
    assert flaws_of(result) == {Flaw.FAILED_DROPPED}


def test_where_two_ways_give_the_rounded_mean_the_single_queries_decide() -> None:
    """One query of 201 has a second document: the means are 0.8328 and 0.8348, both 0.83."""
    judgments = {**small_judgments(200), "partly": {"a": 1, "b": 1}}
    rows: list[dict[str, Any]] = [
        {"query_id": query, "retrieved_docs": ["x", "a"], "ndcg_at_5": 0.63}
        if number < 90
        else {"query_id": query, "retrieved_docs": ["a"], "ndcg_at_5": 1.0}
        for number, query in enumerate(judgments)
    ]
    made = {"summary": {"mean_ndcg_at_5": 0.83}, "per_query_results": rows}
    assert flaws_of(audit_report(read_report(made), judgments)) == {Flaw.IDEAL_FROM_RETRIEVED}


def test_a_right_mean_over_wrong_rows_is_not_right() -> None:
    made = report(lists())
    made["per_query_results"][0]["ndcg_at_5"] += 0.1
    made["per_query_results"][1]["ndcg_at_5"] -= 0.1
    result = audit_report(read_report(made), JUDGMENTS)
    assert flaws_of(result) == set()
    assert [each.query_id for each in result.claims[0].disagreements] == ["PLAIN-1", "PLAIN-2"]
    assert not result.correct


def test_queries_that_nobody_judged_are_named_and_left_out() -> None:
    made = report(lists())
    stranger = {"query_id": "stranger", "retrieved_docs": ["x"]}
    made["per_query_results"].append(stranger)
    made["summary"]["total_queries"] += 1
    result = audit_report(read_report(made), JUDGMENTS)
    assert result.unjudged == ("stranger",)
    assert result.correct


ROW = [{"query_id": "q"}]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({}, "not an evaluation report"),
        ({"per_query_results": []}, "not an evaluation report"),
        ({"per_query_results": [{"retrieved_docs": []}]}, "entry 1 needs a query_id"),
        ({"per_query_results": [{"query_id": "q", "retrieved_docs": "MED-1"}]}, "entry 1 .* list"),
        ({"per_query_results": ROW, "summary": {"mean_x": 1}}, "has no figure"),
        ({"per_query_results": ROW * 2}, "query 'q' has two rows"),
        ({"per_query_results": ROW, "summary": {"mean_ndcg_at_5": 1}}, "'q'.*right data set"),
    ],
)
def test_what_cannot_be_audited_is_refused(made: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        audit_report(read_report(made), JUDGMENTS)


def test_a_count_of_queries_beyond_reason_takes_no_memory() -> None:
    made = report(lists())
    made["summary"]["total_queries"] = 1e13
    result = audit_report(read_report(made), JUDGMENTS)
    assert result.queries == 10**13
    assert result.claims[0].recomputed < 1e-9


@pytest.mark.parametrize("value", [inf, -inf, nan, 10**400, 1e308])
def test_what_no_computation_can_hold_is_no_figure(value: float) -> None:
    rows = [
        {"query_id": "a", "retrieved_docs": ["x"], "ndcg_at_5": value},
        {"query_id": "b", "retrieved_docs": ["y"], "ndcg_at_5": 0.5},
    ]
    summary = {"total_queries": value, "mean_ndcg_at_5": 0.5, "std_ndcg_at_5": value}
    report = {"per_query_results": rows, "summary": summary, "config": {"top_k": value}}
    found = read_report(report)
    assert (found.missing, found.top_k) == (0, None)
    assert [row.claimed for row in found.rows] == [{}, {"ndcg_at_5": 0.5}]
