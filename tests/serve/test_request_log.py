import logging
import sys

import pytest

from assay.serve.request_log import keep_payloads_out, set_up_logging


def test_a_logger_that_the_sdk_makes_later_is_silent_too(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [logging.StreamHandler(sys.stderr)])
    keep_payloads_out()
    logging.getLogger("a2a.made.later").error("Request body: %s", "secret")
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(logging.root, "handlers", [])  # where Python has a last resort of its own
    logging.getLogger("a2a.made.still_later").error("Request body: %s", "secret")
    assert capfd.readouterr().err == ""


def test_a_logger_that_another_library_makes_later_says_where_and_not_what(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])
    set_up_logging()
    logging.getLogger("mcp.made.later").error("got %s", "secret")
    logging.getLogger("mcp.made.later").info("got %s", "secret")
    said = capfd.readouterr().err
    assert '"message":"at test_request_log:' in said
    assert said.count("\n") == 1
    assert "secret" not in said
