"""How the Notes API can fail, and whether asking again helps.

AssayError
└── NotesError          the Notes API could not be reached, or refused
"""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from assay.errors import AssayError

# Locked by another request, too many of them, and the several ways to be away for a moment.
_CAN_PASS = (408, 423, 429, 500, 502, 503, 504)
# The request may have been carried out before it failed.
_MAYBE_DONE = (500, 502, 504)
_REDIRECTS = (301, 302, 303, 307, 308)


class NotesError(AssayError):
    """`maybe_done`: whether the request had its effect is not known. `retry_after` in seconds."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        maybe_done: bool = False,
        unreachable: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.maybe_done = maybe_done
        self.exit_code = 3 if unreachable else 2

    def told(self, message: str) -> "NotesError":
        """The same failure in the words of somebody who knows more about it."""
        return NotesError(
            message,
            status=self.status,
            retry_after=self.retry_after,
            maybe_done=self.maybe_done,
            unreachable=self.exit_code == 3,
        )


def from_transport(error: httpx.TransportError, host: str, *, retryable: bool) -> NotesError:
    never_sent = isinstance(
        error,
        httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout | httpx.UnsupportedProtocol,
    )
    if isinstance(error, httpx.ConnectError):
        what = f"cannot be reached ({str(error)[:120] or 'no connection'})"
    elif isinstance(error, httpx.TimeoutException):
        what = "did not answer in time"
    else:
        what = f"broke off the connection ({type(error).__name__})"
    return NotesError(
        f"{host} {what}",
        retryable=retryable,
        maybe_done=not never_sent,
        unreachable=True,
    )


def from_status(response: httpx.Response, host: str, username: str) -> NotesError:
    """Without the server's own words, which may repeat a note."""
    status = response.status_code
    message = f"{host} answered HTTP {status}{_remedy(response, username)}"
    return NotesError(
        message,
        status=status,
        retryable=status in _CAN_PASS,
        retry_after=seconds(response.headers.get("Retry-After")),
        maybe_done=status in _MAYBE_DONE,
    )


def _remedy(response: httpx.Response, username: str) -> str:
    status = response.status_code
    if status == 401:
        return (
            f": user {username!r} or the password was rejected; check NEXTCLOUD_USERNAME and "
            "NEXTCLOUD_PASSWORD (with two-factor authentication it must be an app password)"
        )
    if status == 403:
        return ": the note is read-only, or this user may not use the Notes app"
    if status == 404:
        return ": no Notes app there; check the address, and that the app is installed and enabled"
    if status in _REDIRECTS:
        return f": it moved to {response.headers.get('Location', '')[:200]!r}; use that address"
    if status == 507:
        return ": the user's storage is full"
    if status == 503 and response.headers.get("X-Nextcloud-Maintenance-Mode") == "1":
        return ": it is in maintenance mode"
    return ""


def seconds(retry_after: str | None) -> float | None:
    """From a Retry-After header, which holds seconds or a date."""
    if not retry_after:
        return None
    try:
        if retry_after.strip().isdecimal():
            return float(retry_after)
        when = parsedate_to_datetime(retry_after)
    except (ValueError, TypeError):
        return None
    now = datetime.now(UTC) if when.tzinfo else datetime.now()
    return max(0.0, (when - now).total_seconds())
