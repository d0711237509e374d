"""The changes that mutation testing makes, and the tests that each of them gets."""

from scripts.mutants import AREAS, ROOT, known_mutants


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
