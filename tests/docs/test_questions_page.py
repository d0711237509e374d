"""docs/labels.md: its command is understood, and its table has every check."""

import re

from tests.docs.page_commands import section
from typer.testing import CliRunner

from assay.cli.app import app
from assay.labels.questions import Rejection

PAGE = section("labels.md", "Questions from documents")


def test_the_command_runs_up_to_its_documents() -> None:
    (command,) = re.findall(r"^assay (data questions .*)$", PAGE, flags=re.MULTILINE)
    done = CliRunner().invoke(app, command.split())
    assert "no data set 'my-notes/'" in str(done.exception)


def test_every_rejection_is_in_the_table() -> None:
    rows = re.findall(r"^\| (?!rejected|---)(.*?) \|", PAGE, flags=re.MULTILINE)
    # One row has both what is not JSON and what is refused.
    assert len(rows) == len(Rejection) - 1
