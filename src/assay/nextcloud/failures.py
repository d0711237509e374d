"""How requests to the Notes API fail, and whether another attempt can help.

AssayError
└── NotesError          the Notes API could not be reached, or refused
"""

import httpx

from assay.errors import AssayError
from assay.net.client import EncodingRefused, ResponseTooLarge
from assay.net.retry import parse_retry_after

# Locked by another request, rate limits, and temporary failures.
_RETRYABLE = (408, 423, 429, 500, 502, 503, 504)
# The request may have been carried out before it failed: a note is a file first and has its text
# afterwards, and either step can find it locked.
_MAYBE_DONE = (408, 423, 500, 502, 503, 504)
_MAINTENANCE = "X-Nextcloud-Maintenance-Mode"
_REDIRECTS = (301, 302, 303, 307, 308)


class NotesError(AssayError):
    """One failed request to the Notes API.

    Attributes:
        status: The HTTP status, or None if there was no response.
        retryable: Whether another attempt can help.
        retry_after: Seconds to wait before it, where the server said so.
        maybe_done: Whether the request may have had its effect all the same.
        attempts: How often the request was sent.
    """

    attempts = 1

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

    def with_message(self, message: str) -> "NotesError":
        """The same failure with a message of a caller that knows more about it."""
        return NotesError(
            message,
            status=self.status,
            retry_after=self.retry_after,
            maybe_done=self.maybe_done,
            unreachable=self.exit_code == 3,
        )


def from_transport(error: httpx.RequestError, host: str, *, retryable: bool) -> NotesError:
    """The failure for a request that got no response, or none that can be read."""
    if isinstance(error, ResponseTooLarge | EncodingRefused):
        return NotesError(f"{host} sent a response that cannot be read: {error}", maybe_done=True)
    never_sent = isinstance(
        error,
        httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout | httpx.UnsupportedProtocol,
    )
    if isinstance(error, httpx.ConnectError):
        what = f"cannot be reached ({str(error)[:120] or 'no connection'})"
    elif isinstance(error, httpx.TimeoutException):
        what = "did not respond in time"
    else:
        what = f"closed the connection ({type(error).__name__})"
    return NotesError(
        f"{host} {what}",
        retryable=retryable,
        maybe_done=not never_sent,
        unreachable=True,
    )


def from_status(response: httpx.Response, host: str, username: str) -> NotesError:
    """The failure for a status; the response body is left out, because it may repeat a note."""
    status = response.status_code
    message = f"{host} responded with HTTP {status}{_remedy(response, username)}"
    return NotesError(
        message,
        status=status,
        retryable=status in _RETRYABLE,
        retry_after=parse_retry_after(response.headers.get("Retry-After")),
        maybe_done=status in _MAYBE_DONE and _MAINTENANCE not in response.headers,
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
        return ": no Notes app found; check the URL, and that the app is installed and enabled"
    if status in _REDIRECTS:
        return f": it moved to {response.headers.get('Location', '')[:200]!r}; use that address"
    if status == 507:
        return ": the user's storage is full"
    if status == 503 and response.headers.get(_MAINTENANCE) == "1":
        return ": it is in maintenance mode"
    return ""
