"""Where a model service is: checked before anybody is asked, and told without a password."""

from urllib.parse import SplitResult, urlsplit

import httpx

from assay.errors import UsageError


def parse_address(url: str, setting: str, example: str) -> SplitResult:
    """`setting` is the variable that the address may have come from, for the message."""
    try:
        parts = urlsplit(url)
        _ = parts.port
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        raise _refused(url, setting, example) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _refused(url, setting, example)
    return parts


def without_password(url: str) -> str:
    """As it may be shown: what stands before an `@` may be a password, slashes and all."""
    scheme, mark, rest = url.rpartition("://")
    return scheme + mark + rest.rpartition("@")[2]


def refuse_password(url: str) -> None:
    """For an address that is named with its model: on a command line others see it."""
    if "@" in url:
        raise UsageError(
            "an address that is named with its model must not hold a user name or password: others "
            "can see a command line; set the address by RAG_EVAL_OLLAMA_BASE_URL or "
            "RAG_EVAL_OPENAI_BASE_URL"
        )


def _refused(url: str, setting: str, example: str) -> UsageError:
    got = "one with an '@', which is not shown" if "@" in url else repr(url)
    return UsageError(
        f"the address of a model ({setting}) must be an http(s) address such as {example}, "
        f"got {got}"
    )
