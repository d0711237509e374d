"""People grade one pool at the same time: nothing is lost, everything can be taken back."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from assay.errors import DataError, UsageError
from assay.labels import human_grades
from assay.labels.human_grades import TABLE_GRADER, GradedPool
from assay.labels.pool import PassagePair, read_pool, write_pool

PAIRS = [PassagePair(f"q{i % 3}", f"query {i % 3}", f"d{i}", f"text {i}", "t") for i in range(12)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_pool(tmp_path / "pool.csv", PAIRS)
    return tmp_path / "pool.csv"


def test_a_grade_is_on_disk_when_it_is_saved(table: Path) -> None:
    pool = GradedPool(table)
    pool.save("Ann", {pool.name(0): 3})
    pool.save("Ann", {pool.name(0): 1, pool.name(1): 0})
    assert GradedPool(table).grades() == {"Ann": {pool.name(0): 1, pool.name(1): 0}}
    assert pool.next_ungraded("Ann") == 2
    assert pool.next_ungraded("Ann", after=11) == 2
    assert pool.next_ungraded("Bob") == 0


def test_two_who_grade_at_once_lose_nothing(table: Path) -> None:
    """Each has a pool of its own, as two servers over one folder do."""
    pools = {"Ann": GradedPool(table), "Bob": GradedPool(table)}

    def grade(task: tuple[str, int]) -> None:
        grader, place = task
        pools[grader].save(grader, {pools[grader].name(place): place % 4})

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(grade, [(name, place) for place in range(12) for name in pools]))
    every = {pools["Ann"].name(place): place % 4 for place in range(12)}
    for pool in (*pools.values(), GradedPool(table)):
        assert pool.grades() == {"Ann": every, "Bob": every}
    assert pools["Bob"].next_ungraded("Ann") is None


def test_everything_can_be_taken_back_step_by_step(table: Path) -> None:
    pool = GradedPool(table)
    first, second = pool.name(0), pool.name(1)
    for name, grade in ((first, 3), (second, 2), (first, 0)):
        pool.save("Ann", {name: grade})
    assert pool.undo("Ann") == first
    assert pool.grades_of("Ann") == {first: 3, second: 2}
    pool = GradedPool(table)  # as after a restart
    assert pool.undo("Ann") == second
    pool.save("Ann", {second: 1})
    assert (pool.undo("Ann"), pool.undo("Ann"), pool.undo("Ann")) == (second, first, None)
    assert GradedPool(table).grades_of("Ann") == {}
    assert pool.undo("Bob") is None


def test_half_a_line_of_a_killed_writer_is_cut_before_the_next(table: Path) -> None:
    pool = GradedPool(table)
    pool.save("Ann", {pool.name(0): 3})
    journal = table.with_name("pool.csv.journal.jsonl")
    with journal.open("ab") as file:
        file.write(b'{"grader": "Ann", "que')
    assert pool.grades_of("Ann") == {pool.name(0): 3}
    pool.save("Bob", {pool.name(1): 2})
    assert GradedPool(table).grades() == {"Ann": {pool.name(0): 3}, "Bob": {pool.name(1): 2}}
    journal.unlink()
    pool.save("Bob", {pool.name(2): 1})
    assert GradedPool(table).grades() == pool.grades() == {"Bob": {pool.name(2): 1}}


def test_a_table_goes_out_and_in_again(table: Path, tmp_path: Path) -> None:
    pool = GradedPool(table)
    pool.save("Ann", {pool.name(0): 3, pool.name(5): 0})
    filled = tmp_path / "ann.csv"
    filled.write_bytes(pool.table("Ann"))
    pairs, labels = read_pool(filled)
    assert pairs == pool.pairs
    assert labels == pool.grades_of("Ann")
    assert GradedPool(filled).grades() == {TABLE_GRADER: labels}


def test_agreement_is_that_of_the_graders(table: Path) -> None:
    pool = GradedPool(table)
    pool.save("Ann", {pool.name(place): place % 4 for place in range(8)})
    pool.save("Bob", {pool.name(place): min(2, place % 4) for place in range(4)})
    ((a, b, found),) = pool.agreement()
    assert (a, b, found.both, found.same) == ("Ann", "Bob", 4, 0.75)
    assert found.weighted_kappa == pytest.approx(1 - 0.25 / (3.5 + 2.25 - 2 * 1.5 * 1.25))


@pytest.mark.parametrize("grader", ["", "x" * 41, "../ann", "a\nb", " ann"])
def test_a_name_that_is_none_is_refused(table: Path, grader: str) -> None:
    pool = GradedPool(table)
    with pytest.raises(UsageError, match="a grader's name has"):
        pool.save(grader, {pool.name(0): 1})


def test_what_is_no_grade_of_this_pool_is_refused(table: Path) -> None:
    pool = GradedPool(table)
    with pytest.raises(UsageError, match="is not in this pool"):
        pool.save("Ann", {("q0", "elsewhere"): 1})
    with pytest.raises(UsageError, match="one of 0, 1, 2, 3, got 4"):
        pool.save("Ann", {pool.name(0): 4})
    table.with_name("pool.csv.journal.jsonl").write_text('{"grade": 9}\n')
    with pytest.raises(DataError, match="is damaged: it has a line without grader"):
        GradedPool(table).grades()


def test_a_journal_is_read_and_written_up_to_a_limit(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(human_grades, "_MAX_JOURNAL", 250)
    pool = GradedPool(table)
    for place in range(2):
        pool.save("Ann", {pool.name(place): 1})
    with pytest.raises(DataError, match="more than 250 bytes"):
        pool.save("Ann", {pool.name(2): 1})
    assert len(GradedPool(table).grades_of("Ann")) == 2
    journal = table.with_name("pool.csv.journal.jsonl")
    journal.write_bytes(2 * journal.read_bytes())
    with pytest.raises(DataError, match="more than 250 bytes"):
        GradedPool(table).grades()
