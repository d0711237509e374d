import re
from typing import Any

import pytest

from assay.errors import UsageError
from assay.search.filters import conditions, meets, parse_filter


@pytest.mark.parametrize(
    "value",
    [None, [], [None], {}, {"above": 1}, {"gte": "a"}, {"gte": True}, {"gte": 1, "lt": "x"}],
)
def test_anything_else_is_refused_with_the_field_and_what_came(value: Any) -> None:
    with pytest.raises(UsageError, match="filter 'year'"):
        conditions({"year": value})


@pytest.mark.parametrize(
    ("filters", "met"),
    [
        ({"year": 2020}, True),
        ({"type": ["recipe", "travel"]}, True),
        ({"year": {"gte": 2020, "lt": 2021}}, True),
        ({"absent": "x"}, False),
        ({"type": {"gte": 1}}, False),
        ({"year": {"gt": 2019.5, "gte": 2020, "lt": 2021, "lte": 2020}}, True),
        ({"done": True}, True),
        ({"done": 1}, False),
        ({"done": {"gte": 0}}, False),
        ({"day": {"gte": "2024-01-31", "lt": "2024-02-01T00:00:00Z"}}, True),
        ({"day": {"gt": "2024-01-31T12:00:00+02:00"}}, False),
    ],
)
def test_conditions_hold(filters: dict[str, Any], met: bool) -> None:
    metadata = {"year": 2020, "type": "recipe", "tags": ["red", "blue"], "done": True}
    metadata["day"] = "2024-01-31"
    assert meets(conditions(filters), metadata) is met


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ('{"type": "recipe"}', {"type": "recipe"}),
        ("type=recipe", {"type": "recipe"}),
        ("year >= 2019", {"year": {"gte": 2019}}),
        ("done=true,name=green tea", {"done": True, "name": "green tea"}),
        ("date>=2024-01-01, date<2025-01-01", {"date": {"gte": "2024-01-01", "lt": "2025-01-01"}}),
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
        ("year>=NaN", "or a range of gt"),
        ("year>=2019,year>=2020", "is not FIELD=VALUE, or a range"),
        ("date>=2024-02-31", "or a range of gt"),
        ('{"year": 1e999}', "is not JSON"),
        ('{"a": ' * 5000 + "1" + "}" * 5000, "is not JSON"),
        ("[" * 100_000, "is not FIELD=VALUE"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        conditions(parse_filter(text))
