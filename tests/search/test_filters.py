import math
import re
from typing import Any

import pytest

from assay.errors import UsageError
from assay.search.filters import FilterCondition, conditions, holds, parse_filter

ALL_BOUNDS = {"gt": 0.5, "gte": 1.0, "lt": 3.0, "lte": 2.0}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2020, FilterCondition('metadata."year"', values=(2020,))),
        ("x", FilterCondition('metadata."year"', values=("x",))),
        (True, FilterCondition('metadata."year"', values=(True,))),
        ([2019, 2020], FilterCondition('metadata."year"', values=(2019, 2020))),
        (1.5, FilterCondition('metadata."year"', bounds={"gte": 1.5, "lte": 1.5})),
        ({"gte": 1, "lt": 2}, FilterCondition('metadata."year"', bounds={"gte": 1.0, "lt": 2.0})),
        (ALL_BOUNDS, FilterCondition('metadata."year"', bounds=ALL_BOUNDS)),
    ],
)
def test_a_value_a_list_and_a_range_are_understood(value: Any, expected: FilterCondition) -> None:
    assert conditions({"year": value}) == (expected,)


@pytest.mark.parametrize(
    "value", [None, [], [1, "a"], [True, False], {}, {"above": 1}, {"gte": "a"}, {"gte": True}]
)
def test_anything_else_is_refused_with_the_field_and_what_came(value: Any) -> None:
    with pytest.raises(UsageError, match="filter 'year'"):
        conditions({"year": value})


@pytest.mark.parametrize("number", [math.nan, math.inf, 2**63, -(2**63) - 1, 10**400])
def test_a_number_that_no_engine_holds_is_refused(number: float) -> None:
    for value in (number, [1, number], {"gte": number}):
        with pytest.raises(UsageError, match="filter 'year'"):
            conditions({"year": value})


@pytest.mark.parametrize(
    ("filters", "met"),
    [
        ({"year": 2020}, True),
        ({"year": 2021}, False),
        ({"type": ["recipe", "travel"]}, True),
        ({"year": {"gte": 2020, "lt": 2021}}, True),
        ({"year": {"gt": 2020}}, False),
        ({"tags": "red"}, True),
        ({"absent": "x"}, False),
        ({"type": {"gte": 1}}, False),
    ],
)
def test_conditions_hold_without_an_engine_too(filters: dict[str, Any], met: bool) -> None:
    metadata = {"year": 2020, "type": "recipe", "tags": ["red", "blue"]}
    assert all(holds(condition, metadata) for condition in conditions(filters)) is met


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ('{"type": "recipe"}', {"type": "recipe"}),
        ("type=recipe", {"type": "recipe"}),
        ("year >= 2019", {"year": {"gte": 2019}}),
        ("done=true,name=green tea", {"done": True, "name": "green tea"}),
        (
            "date>=2024-01-01, date<2025-01-01",
            {"date": {"gte": "2024-01-01", "lt": "2025-01-01"}},
        ),
    ],
)
def test_a_filter_has_a_short_form(text: str, filters: dict[str, Any]) -> None:
    assert parse_filter(text) == filters
    assert conditions(parse_filter(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("recipe", "'recipe' is not FIELD=VALUE"),
        ("type!=recipe", "'type!=recipe' is not FIELD=VALUE"),
        ("year>=NaN", "with a number each"),
        ("year>=2019,year>=2020", "two conditions on 'year'"),
        ("year=2019,year>=2020", "two conditions on 'year'"),
        ("year=2019,year=2019", "two conditions on 'year'"),
        ("date>=yesterday", "with a date such as '2024-01-31' each; got {'gte': 'yesterday'}"),
        ("date>=2024-01-01,date<3", "with a number each, or with a date"),
        ("date>=2024-02-31", "with a date such as"),
        ('{"year": NaN}', "is not JSON"),
        ('{"year": 1e999}', "is not JSON"),
        ('{"a": ' * 5000 + "1" + "}" * 5000, "is not JSON"),
        ("[" * 100_000, "is not FIELD=VALUE"),
        ("year>=" + "[" * 100_000, "with a number each"),
        ("year=9223372036854775808", "an integer one of 64 bits; got 9223372036854775808"),
        ("year=99999999999999999999", "an integer one of 64 bits; got 1e+20"),
        ('{"year": {"lt": 18446744073709551615}}', "filter 'year': a number must be finite"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        conditions(parse_filter(text))
