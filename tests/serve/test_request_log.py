import logging
import sys

import pytest

from assay.serve.request_log import keep_payloads_out, set_up_logging


def test_loggers_that_are_made_later_are_silent_or_say_where_and_not_what(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a handler, Python has a last resort of its own.
    for number, handlers in enumerate(([logging.StreamHandler(sys.stderr)], [])):
        monkeypatch.setattr(logging.root, "handlers", handlers)
        keep_payloads_out()
        logging.getLogger(f"a2a.made.later{number}").error("Request body: %s", "secret")
    assert capfd.readouterr().err == ""
    set_up_logging()
    logging.getLogger("mcp.made.later").error("got %s", "secret")
    logging.getLogger("mcp.made.later").info("got %s", "secret")
    said = capfd.readouterr().err
    assert '"message":"at test_request_log:' in said
    assert said.count("\n") == 1
    assert "secret" not in said
