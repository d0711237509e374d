"""How asking a language model can fail, told without the key and without the prompt."""

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from assay.errors import ProviderError, ProviderFailure

_LONGEST = 200
# What keys look like, whoever made them: services quote a wrong key back, in part or whole.
_KEY = re.compile(r"\b(?:sk|pk|key|api)[-_][\w*.\-]{6,}|\bBearer\s+\S+", re.IGNORECASE)


def from_status(
    who: str,
    status: int,
    words: str,
    *,
    retry_after: str | None = None,
    remedy: str = "",
    unknown: str = "",
) -> ProviderError:
    """An HTTP error of a service, with its own words and what to do.

    `remedy` is for a key that was refused, `unknown` for a model that the service does not have.
    """
    kind = _kind(status)
    hint = remedy if kind is ProviderFailure.REFUSED_KEY else unknown if status == 404 else ""
    parts = [f"{who} answered HTTP {status}", *filter(None, [quoted(words)])]
    message = ": ".join(parts) + (f"; {hint}" if hint else "")
    return ProviderError(kind, message, retry_after=_seconds(retry_after))


def quoted(words: str, *secrets: str | None) -> str:
    """A service's own words: short, on one line, and without anything that looks like a key."""
    for secret in secrets:
        if secret:
            words = words.replace(secret, "***")
    return _KEY.sub("***", " ".join(words.split()))[:_LONGEST]


def _kind(status: int) -> ProviderFailure:
    if status in (401, 403):
        return ProviderFailure.REFUSED_KEY
    if status == 429:
        return ProviderFailure.RATE_LIMIT
    # 408 and 409 are transient at the services that send them; 529 is Anthropic's "overloaded".
    return (
        ProviderFailure.SERVER
        if status >= 500 or status in (408, 409)
        else ProviderFailure.BAD_REQUEST
    )


def _seconds(retry_after: str | None) -> float | None:
    """From a number or, as proxies before a service send it, from a date."""
    try:
        seconds = float(retry_after or "")
    except ValueError:
        return _seconds_until(retry_after or "")
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _seconds_until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    # A date that names no zone is meant as UTC, as all dates of HTTP are.
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())
