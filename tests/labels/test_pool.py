"""A pool: chosen, written, read, graded by several people at once; and `assay judge pool`."""

import csv
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

import assay
from assay.cli.app import app
from assay.data import Dataset, load_dataset
from assay.errors import DataError, UsageError
from assay.labels import pool as pool_module
from assay.labels.pool import (
    GradedPool,
    PassagePair,
    choose_pairs,
    grade_agreement,
    grader_agreement,
    read_pool,
    write_pool,
)

PAIRS = [PassagePair(f"q{i % 3}", f"query {i % 3}", f"d{i}", f"text {i}", "t") for i in range(12)]
DATA = Dataset.from_dicts(
    {"q1": "green tea", "q2": "moon phases"},
    {"q1": {"d1": 2, "d9": 0}, "q2": {"d3": 1}},
    {"d1": "green tea", "d2": "black tea", "d3": "moon phases", "d9": "stones"},
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_pool(tmp_path / "pool.csv", PAIRS)
    return tmp_path / "pool.csv"


def test_a_grade_is_on_disk_when_it_is_saved(table: Path) -> None:
    pool = GradedPool(table)
    for place, grade in ((0, 3), (0, 1), (1, 0)):
        pool.save("Ann", pool.pairs[place].name, grade)
    assert GradedPool(table).grades() == {"Ann": {pool.pairs[0].name: 1, pool.pairs[1].name: 0}}
    assert pool.next_ungraded("Ann") == pool.next_ungraded("Ann", after=11) == 2
    assert pool.next_ungraded("Bob") == 0


def test_two_who_grade_at_once_lose_nothing(table: Path) -> None:
    """Each has a pool of its own, as two servers over one folder do."""
    pools = {"Ann": GradedPool(table), "Bob": GradedPool(table)}

    def grade(task: tuple[str, int]) -> None:
        grader, place = task
        pools[grader].save(grader, PAIRS[place].name, place % 4)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(grade, [(name, place) for place in range(12) for name in pools]))
    every = {PAIRS[place].name: place % 4 for place in range(12)}
    for pool in (*pools.values(), GradedPool(table)):
        assert pool.grades() == {"Ann": every, "Bob": every}
    assert pools["Bob"].next_ungraded("Ann") is None


def test_half_a_line_of_a_killed_writer_is_cut_before_the_next(table: Path) -> None:
    pool = GradedPool(table)
    pool.save("Ann", pool.pairs[0].name, 3)
    with pool.journal.open("ab") as file:
        file.write(b'{"grader": "Ann", "que')
    assert pool.grades_of("Ann") == {pool.pairs[0].name: 3}
    pool.save("Bob", pool.pairs[1].name, 2)
    both = {"Ann": {pool.pairs[0].name: 3}, "Bob": {pool.pairs[1].name: 2}}
    assert GradedPool(table).grades() == both
    pool.journal.unlink()
    pool.save("Bob", pool.pairs[2].name, 1)
    assert GradedPool(table).grades() == pool.grades() == {"Bob": {pool.pairs[2].name: 1}}


def test_agreement_of_people_and_of_a_model() -> None:
    """Model: 0.75 agree; by chance 0.5 * 0.5 + 0.5 * 0.5; kappa 0.5."""
    names = [("q", str(n)) for n in range(8)]
    ann = {name: n % 4 for n, name in enumerate(names)}
    bob = {name: min(2, n % 4) for n, name in enumerate(names[:4])}
    people = grader_agreement(ann, bob)
    assert people is not None
    assert (people.both, people.same) == (4, 0.75)
    assert people.weighted_kappa == pytest.approx(1 - 0.25 / (3.5 + 2.25 - 2 * 1.5 * 1.25))
    assert grader_agreement(bob, {("q", "none"): 1}) is None
    found = grade_agreement([1, 1, 0, 0], [3, 2, 0, 2])
    assert (found.agreement.mean, found.kappa, found.labelled) == (0.75, 0.5, 4)
    assert found.confusion["0"] == {"0": 1, "1": 0, "2": 1, "3": 0}
    assert found.weighted_kappa is None  # people have two grades, the model four
    assert grade_agreement([3, 0, 1, 2], [3, 0, 1, 2]).weighted_kappa == 1


@pytest.mark.parametrize(
    ("grader", "pair", "grade", "message"),
    [
        ("x" * 41, ("q0", "d0"), 1, "a grader's name has"),
        ("Ann", ("q0", "elsewhere"), 1, "is not in this pool"),
        ("Ann", ("q0", "d0"), 4, "one of 0, 1, 2, 3, got 4"),
    ],
)
def test_what_cannot_be_a_grade_of_this_pool_is_refused(
    table: Path, grader: str, pair: tuple[str, str], grade: int, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        GradedPool(table).save(grader, pair, grade)


def test_a_journal_grows_up_to_a_limit(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_MAX_JOURNAL", 250)
    pool = GradedPool(table)
    for place in range(2):
        pool.save("Ann", pool.pairs[place].name, 1)
    with pytest.raises(DataError, match="more than 250 bytes"):
        pool.save("Ann", pool.pairs[2].name, 1)
    assert len(GradedPool(table).grades_of("Ann")) == 2
    pool.journal.write_bytes(2 * pool.journal.read_bytes())
    with pytest.raises(DataError, match="more than 250 bytes"):
        GradedPool(table).grades()


def test_unjudged_documents_are_chosen_and_some_judged_ones() -> None:
    rankings = [{"q1": ["d2", "d1", "d9"], "q2": ["d3", "nowhere"]}]
    pool = choose_pairs(rankings, DATA, DATA.judgments_in("test"), depth=2, check=2)
    assert [(each.query_id, each.doc_id) for each in pool.pairs][:1] == [("q1", "d2")]
    assert len(pool.labels) == 2
    assert len(set(pool.labels.values())) == 2  # of different grades
    none = choose_pairs(rankings, DATA, DATA.judgments_in("test"), depth=2, check=0)
    assert len(none.pairs) == 1


def test_a_pool_is_read_with_its_labels_and_formulas_are_text(tmp_path: Path) -> None:
    path = tmp_path / "pool.csv"
    path.write_text("query_id,query,doc_id,passage,label\nq1,tea,d1,green,1\nq1,tea,d2,black,\n")
    pairs, labels = read_pool(path)
    assert [each.passage for each in pairs] == ["green", "black"]
    assert labels == {("q1", "d1"): 1}
    write_pool(path, [PassagePair("q", "how", "d", "=cmd()")])
    assert ",'=cmd()," in path.read_text()
    assert read_pool(path).pairs[0].passage == "=cmd()"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("q1,tea,d1,,", "has no passage"),
        ("q1,,d1,green,", "has no query"),
        ("q1,tea,d1,green,high", "a grade must be an integer"),
        ("q1,tea,d1,green,\nq1,tea,d1,black,", "another text or query for 'q1' before"),
        ("", "has no passages to grade"),
    ],
)
def test_a_wrong_pool_is_refused_with_its_line(tmp_path: Path, rows: str, message: str) -> None:
    path = tmp_path / "pool.csv"
    path.write_text(f"query_id,query,doc_id,passage,label\n{rows}\n")
    with pytest.raises(DataError, match=rf"pool\.csv.*{message}"):
        read_pool(path)


def test_runs_become_a_pool_and_a_graded_pool_judgments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for k1 in (0.4, 2.5):
        assay.evaluate("builtin:bm25", "notes", num_queries=5, bm25={"k1": k1}, out="runs")
    runs = sorted(str(path) for path in Path("runs").iterdir())
    command = ["judge", "pool", *runs, "--top-k", "5", "--json", "--out"]
    done = CliRunner().invoke(app, [*command, "pool.csv"])
    assert done.exit_code == 0, done.output
    known = load_dataset("notes").judgments["test"]
    with Path("pool.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert json.loads(done.stdout)["pairs"] == len(rows)
    assert all(row["doc_id"] not in known.get(row["query_id"], {}) for row in rows)
    returned = {
        (row.query_id, doc_id)
        for path in runs
        for row in assay.load_run(path).rows()
        for doc_id in row.retrieved_docs[:5]
    }
    assert {(row["query_id"], row["doc_id"]) for row in rows} <= returned
    pool = GradedPool(Path("pool.csv"))
    for place, pair in enumerate(pool.pairs):
        pool.save("Ann", pair.name, place % 3)
    Path("ann.csv").write_bytes(pool.table("Ann"))  # a graded table is a data set
    graded = load_dataset("ann.csv").judgments["test"]
    assert graded[pool.pairs[1].query_id][pool.pairs[1].doc_id] == 1
    for name in ("pool.txt", "pool.csv"):  # no table, and one that may have grades
        refusal = CliRunner().invoke(app, [*command, name]).exception
        assert "a pool is written to a new .csv file" in str(refusal)
