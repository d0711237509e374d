"""`for_each` and `gather_for`: a bounded number of calls at once, and none after a failure."""

import asyncio

import pytest

from assay.net.gather import for_each, gather_for


async def test_the_first_failure_ends_it_all_and_comes_as_it_was() -> None:
    begun: list[int] = []

    async def work(number: int) -> None:
        begun.append(number)
        if number == 2:
            raise ValueError("two")
        await asyncio.Event().wait()

    with pytest.raises(ValueError, match="two"):
        await for_each(range(30), work, 3)
    assert begun == [0, 1, 2]


async def test_results_come_in_order_and_a_bounded_number_is_asked_for_at_once() -> None:
    inside = most = 0
    counted: list[tuple[str, int, int | None]] = []

    async def work(number: int) -> int:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1
        return number * number

    def progress(what: str, done: int, total: int | None) -> None:
        counted.append((what, done, total))

    squares = await gather_for(range(200), work, "squares", progress)
    assert squares == [number * number for number in range(200)]
    assert 1 < most <= 64
    assert counted == [("squares", done, 200) for done in range(1, 201)]
