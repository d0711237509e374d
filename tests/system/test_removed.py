"""Calls of earlier versions say what to do instead, and shells complete what there is."""

import pytest
from tests.system.conftest import Assay


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        (("data", "rekey", "old", "new"), "replace the old ids in qrels"),
        (("completion", "bash"), "run: eval"),
        (("run-agent", "http://localhost:8000", "X"), "call an agent with curl"),
        (("serve", "hostile"), "it is a fixture of the tests now"),
        (("nextcloud", "sync"), "use a data set of your own"),
        (("nextcloud", "status"), "run: assay nextcloud upload"),
        (("nextcloud", "wait", "nextcloud:URL"), "run: assay nextcloud upload --wait TARGET"),
    ],
)
def test_a_removed_verb_names_its_replacement(
    assay: Assay, call: tuple[str, ...], instead: str
) -> None:
    result = assay(*call)
    assert result.returncode == 2
    assert f"was removed; {instead}" in result.stderr


def test_the_shell_completes_verbs_and_options(assay: Assay) -> None:
    asked = {"_ASSAY_COMPLETE": "bash_complete", "COMP_CWORD": "2"}
    assert assay(COMP_WORDS="assay data ch", **asked).stdout.split() == ["plain,check"]
    assert "plain,--top-k" in assay(COMP_WORDS="assay eval --top", **asked).stdout.split()
