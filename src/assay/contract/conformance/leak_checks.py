"""The checks that no error repeats text of the inputs, in whatever writing."""

import base64
import html
import re
from urllib.parse import unquote_plus

from assay.contract.conformance.exchange import Exchange
from assay.contract.conformance.probes import AgentObservation
from assay.contract.conformance.report import (
    PASS,
    Check,
    CheckFinding,
    RuleLevel,
    fail,
    not_applicable,
)

# A message that cuts its quotation short still quotes: so many characters in a row are no accident.
_WINDOW = 12
_UNICODE_ESCAPE = re.compile(r"\\+u([0-9a-f]{4})", re.IGNORECASE)
_SEPARATORS = re.compile(r"[^0-9a-z]+")


def echo_of(secret: str, response: bytes) -> str | None:
    """In which writing a response repeats `secret` or a long part of it; None where it does not.

    Parameters:
        secret: the text that was sent, which ends in random letters and digits.
        response: headers and body.
    """
    random_part = secret.rpartition("-")[2].rpartition("_")[2]
    text = response.decode(errors="replace")
    if _part_in(random_part, text):
        return "as it was sent"
    if _part_in(random_part.lower(), text.lower()):
        return "in another case"
    decoded = html.unescape(unquote_plus(_UNICODE_ESCAPE.sub(_character, text)))
    if _part_in(random_part.lower(), decoded.lower()):
        return "escaped"
    if _in_hex(random_part, text) or _in_base64(secret, text):
        return "encoded"
    if random_part.lower() in _SEPARATORS.sub("", decoded.lower()):
        return "with other characters in between"
    if random_part[::-1].lower() in text.lower():
        return "backwards"
    return None


def _character(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16))


def _part_in(secret: str, text: str) -> bool:
    last = max(1, len(secret) - _WINDOW + 1)
    return any(secret[start : start + _WINDOW] in text for start in range(last))


def _in_hex(secret: str, text: str) -> bool:
    return secret.encode().hex() in text.lower()


def _in_base64(secret: str, text: str) -> bool:
    """Base64 writes three bytes at a time, so a text looks different at each of three offsets."""
    plain = text.replace("-", "+").replace("_", "/")
    for offset in range(3):
        padded = base64.b64encode(b"\0" * offset + secret.encode()).decode()
        # Characters at the edges also depend on what stands next to the text.
        if padded[4 : len(padded) - 8] in plain:
            return True
    return False


def _no_echo(seen: AgentObservation) -> CheckFinding:
    return _leaks(seen, seen.canary, "text of the inputs")


def _no_key_echo(seen: AgentObservation) -> CheckFinding:
    return _leaks(seen, seen.canary_key, "a key of the inputs, which is chosen by the caller")


def _leaks(seen: AgentObservation, secret: str, what: str) -> CheckFinding:
    errors = seen.errors()
    if not errors:
        return not_applicable("there is no error response")
    found = [
        (each, writing)
        for each in errors
        if (writing := echo_of(secret, each.headers + b"\n" + each.body))
    ]
    if not found:
        return PASS
    writings = ", ".join(dict.fromkeys(writing for _, writing in found))
    return fail(f"{len(found)} error responses repeat {what}: {writings}", found[0][0])


def _first_error(seen: AgentObservation) -> Exchange | None:
    return next(iter(seen.errors()), None)


LEAK_CHECKS = (
    Check(
        "no-echo",
        RuleLevel.MUST,
        "PHI-safe logging rules, line 74",
        "No error response repeats text of the inputs.",
        "Name the field and what is wrong with it, never its value; a framework's own 422 quotes "
        "the input.",
        _no_echo,
        _first_error,
    ),
    Check(
        "no-key-echo",
        RuleLevel.OURS,
        "Errors",
        "No error response repeats keys that the caller chose.",
        "Name only fields that the task declares.",
        _no_key_echo,
        _first_error,
    ),
)
