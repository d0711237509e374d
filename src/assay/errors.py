"""Every error that Assay raises on purpose: what was wrong, what was got and what to do about it.

The command line prints the message alone; a traceback means a bug in Assay.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Literal


def closest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that a mistyped one resembles most, whatever its case; None if none does."""
    names = {name.lower(): name for name in known}
    near = get_close_matches(word.strip().lower(), names, n=1, cutoff=cutoff)
    return names[near[0]] if near else None


def did_you_mean(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The end of a message about an unknown name: `. Did you mean 'notes'?`; empty if none is near.

    Every message about a verb, option, target, data set, metric, gate or run ends with it.
    """
    found = closest(word, known, cutoff=cutoff)
    return "" if found is None else f". Did you mean {found!r}?"


class AssayError(Exception):
    """A mistake in the input or the environment, with a message for the user who can fix it.

    `code` is the id of its class, such as `usage` or `target-loading`: messages may change.
    """

    exit_code = 2
    code = "assay"

    def __init_subclass__(cls) -> None:
        words = re.findall("[A-Z][a-z]+", cls.__name__.removesuffix("Error"))
        cls.code = "-".join(words).lower()


class UsageError(AssayError):
    """Options, arguments or settings that do not make sense, or a gate that no system can pass."""


class DataError(AssayError):
    """`file` and `line` lead the message, as compilers do, so that editors can jump there."""

    def __init__(self, message: str, *, file: Path | str | None = None, line: int | None = None):
        self.file = file
        self.line = line
        place = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(place + message)


class DownloadError(DataError):
    """`status` is the HTTP status, if there was one; `retryable` if asking again can help."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after


class SearchError(AssayError):
    """An index, an embedder or a model of the retriever that cannot be used."""


class SearchUnavailable(SearchError):
    """The server that holds the index does not respond now; asking again later can help."""


class TuningDeclined(SearchError):
    """Tuning says to use `hybrid` on this data set; tuning it again does not help."""

    def __init__(
        self, message: str, reason: Literal["not better", "too few train queries"]
    ) -> None:
        super().__init__(message, reason)  # both, so that it comes back whole from another process
        self.reason = reason

    def __str__(self) -> str:
        return str(self.args[0])


class RunError(AssayError):
    """A run that cannot be found, read, resumed, merged or compared."""


class SanityWarning(UserWarning):
    """The figures of a run are right and mean something else: its target was loading, for example.

    `evaluate` warns of it. A filter that makes errors of warnings can leave it out by its name.
    """


class ProviderFailure(StrEnum):
    """Why a language model gave no reply."""

    SETTING = "setting"
    REFUSED_KEY = "key refused"
    BAD_REQUEST = "bad request"
    RATE_LIMIT = "rate limit"
    SERVER = "server error"
    CONNECTION = "connection"
    TIMEOUT = "timeout"
    INVALID_REPLY = "invalid reply"
    REFUSAL = "refusal"

    @property
    def is_transient(self) -> bool:
        """Whether asking again can help."""
        lasting = ("setting", "key refused", "bad request", "refusal")
        return self not in lasting


class ProviderError(AssayError):
    """`retry_after` is in seconds, if the service said how long to wait; `refused` are the
    parameters that it names as the reason, also if the message must not repeat its words.
    """

    def __init__(
        self,
        kind: ProviderFailure,
        message: str,
        *,
        retry_after: float | None = None,
        refused: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after = retry_after
        self.refused = refused

    @property
    def retryable(self) -> bool:
        return self.kind.is_transient


class BudgetExceeded(AssayError):
    """The budget is spent. Paid replies are cached, so the same command continues from there."""


class TargetError(AssayError):
    """The agent under test could not be reached or loaded."""

    exit_code = 3


class TargetLoading(TargetError):
    """The agent listens and does not answer yet, or its host says so: 502, 503 or 504."""


class FailureKind(StrEnum):
    """Why a call to the agent under test gave no usable answer."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    PROTOCOL = "protocol"
    INVALID_ANSWER = "invalid answer"
    AGENT_ERROR = "agent error"
    CIRCUIT_OPEN = "not asked: circuit open"


RATE_LIMITED = 429
GATEWAY_ERRORS = (502, 503, 504)  # statuses of a gateway whose agent is not there


class AgentFailure(Exception):
    """One failed call; the message has nothing of what was sent or received.

    `status` is the HTTP status of the agent's response, if there was one. `said` are the agent's
    own words (`assay.net.redact.quote`), which a private run does not keep. `remedy` ends the text
    of the exception; `message` is without it.
    """

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        said: str = "",
        remedy: str = "",
    ) -> None:
        super().__init__(f"{message}; {remedy}" if remedy else message)
        self.message, self.remedy = message, remedy
        self.kind = kind
        self.status = status
        self.retry_after = retry_after
        self.said = said

    @property
    def retryable(self) -> bool:
        """Whether asking again can help: there is no connection, or the agent is overloaded."""
        overloaded = self.status == RATE_LIMITED or self.status in GATEWAY_ERRORS
        return overloaded or self.kind is FailureKind.CONNECTION
