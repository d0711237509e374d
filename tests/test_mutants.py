"""The changes that mutation testing makes, and the tests that each of them gets."""

from scripts.mutants import AREAS, ROOT, LineTests, known_mutants
from scripts.mutations import Mutant, mutants_of

SOURCE = '''\
@dataclass(frozen=True)
class Limits:
    most: int = 7

    def within(self, value):
        """Up to 9."""
        if 0 < value <= self.most:
            return f"{value + 1}"
        return (
            not value
        )
'''


def _mutants() -> list[Mutant]:
    return list(mutants_of("limits.py", SOURCE))


def test_every_comparison_of_a_chain_is_changed_and_no_message_or_flag_of_a_dataclass() -> None:
    assert [(mutant.line, mutant.what) for mutant in _mutants()] == [
        (3, "7 to 8"),
        (7, "0 to 1"),
        (7, "Lt to LtE"),
        (7, "LtE to Lt"),
        (10, "without not"),
    ]
    changed = {mutant.what: mutant.source for mutant in _mutants()}
    assert "if 0 < value < self.most:" in changed["LtE to Lt"]
    assert "if 0 <= value <= self.most:" in changed["Lt to LtE"]


def test_a_mutant_gets_the_tests_of_its_statement_or_of_its_file_the_nearest_first() -> None:
    near, other, import_time = "tests/test_limits.py::a", "tests/test_b.py::b", "tests/test_c.py::c"
    lines = {3: [import_time], 7: [near, other], 9: [other]}
    tests = LineTests({near: 2.0, other: 1.0, import_time: 0.5}, {"limits.py": lines})
    found = {each.what: tests.covering(each.path, each.lines) for each in _mutants()}
    assert found["without not"] == [other]
    assert found["LtE to Lt"] == [near, other]
    assert found["7 to 8"] == [near, import_time, other]


def test_a_mutant_gets_no_more_tests_than_there_is_time_for_and_one_variant_of_each_first() -> None:
    first, second, other = (f"tests/test_limits.py::{name}" for name in ("a[1]", "a[2]", "b"))
    seconds = {first: 8.0, second: 8.1, other: 8.2}
    tests = LineTests(seconds, {"limits.py": {7: [second, first, other]}})
    assert tests.covering("limits.py") == [first, other]


def test_the_code_and_the_test_of_every_known_mutant_exist() -> None:
    """Otherwise `make mutants` breaks off at the first one whose code was changed."""
    gone = []
    for each in known_mutants():
        file, _, name = each.test.partition("::")
        if (ROOT / "src/assay" / each.path).read_text().count(each.old) != 1:
            gone.append(f"{each.path}: {each.old}")
        if name not in (ROOT / file).read_text():
            gone.append(each.test)
    assert gone == []


def test_the_modules_and_tests_of_every_area_exist() -> None:
    paths = [
        path
        for area in AREAS.values()
        for path in (*(f"src/assay/{module}" for module in area.modules), *area.tests)
    ]
    assert [path for path in paths if not (ROOT / path).exists()] == []
