"""The provider that callers open by its name: cached, with retries, and within a budget.

async with open_provider("ollama:llama3.2", max_cost=1.0) as provider:
    await provider.generate("Is tea hot? Reply with TRUE or FALSE.")
"""

import asyncio
import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, replace
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

import orjson

from assay.data.cache import CacheDatabase, cache_folder
from assay.errors import BudgetExceeded, ProviderError, ProviderFailure, UsageError
from assay.llm.provider_kinds import PROVIDER_FORMS, PROVIDER_VARIABLE, split_provider
from assay.llm.providers.provider import (
    PRICES_VARIABLE,
    Completion,
    LLMProvider,
    Model,
    max_tokens_of,
    price_of,
    setting,
    without_thought,
)
from assay.llm.spending import Spending
from assay.net.outbound import is_loopback
from assay.net.redact import reveal
from assay.net.retry import RetryPolicy

CONCURRENCY = 4
RETRIES = RetryPolicy(attempts=5, timeout=120.0, first_delay=1.0, max_delay=60.0)
# A model in this process is slow, not absent: another attempt would only start over.
_IN_PROCESS = RetryPolicy(attempts=1, timeout=1800.0)
# One on this machine may have to load first, and answers one call at a time.
_LOCAL = replace(RETRIES, timeout=600.0)

_TABLE = (
    "CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, text TEXT, "
    "input_tokens INTEGER, output_tokens INTEGER, stop_reason TEXT) WITHOUT ROWID"
)


class ReplyCache:
    """Replies on disk, by a hash of model, prompt and limit: no prompt is stored."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_folder() / "replies.sqlite3"
        self._database = CacheDatabase(self.path, "cache of replies", _TABLE)

    @staticmethod
    def key(identity: str, prompt: str, max_tokens: int) -> bytes:
        """A hash of all that a reply depends on. The temperature is always 0."""
        parameters = {"model": identity, "max_tokens": max_tokens, "temperature": 0}
        digest = hashlib.sha256(orjson.dumps(parameters, option=orjson.OPT_SORT_KEYS) + b"\n")
        digest.update(prompt.encode("utf-8", "surrogatepass"))
        return digest.digest()

    def find(self, key: bytes) -> Completion | None:
        """The reply for a key, if there is one."""
        query = "SELECT text, input_tokens, output_tokens, stop_reason FROM replies WHERE key = ?"
        row = self._database.use(lambda database: database.execute(query, (key,)).fetchone())
        return row and Completion(row[0], row[1], row[2], row[3], cached=True)

    def keep(self, key: bytes, completion: Completion) -> None:
        """Store a reply under its key."""
        row = (key, *astuple(completion)[:4])
        insertion = "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?)"
        self._database.use(lambda database: database.execute(insertion, row))


class CachedProvider:
    """The `LLMProvider` that `open_provider` returns.

    May be used from one event loop after another, as the tests of a pytest session do, but by one
    at a time. A call is allowed only if its highest possible cost fits `max_cost`, so the budget
    holds even with many concurrent calls, up to the estimate of the prompt's tokens.
    """

    def __init__(
        self,
        model: Model,
        *,
        cache: ReplyCache | None = None,
        max_cost: float | None = None,
        concurrency: int = CONCURRENCY,
        retries: RetryPolicy = RETRIES,
    ) -> None:
        self._model = model
        self._cache = cache
        self._price = price_of(model.name)
        self._max_cost = max_cost
        self._reserved_cost = 0.0
        cost = None if self._price is None else 0.0
        self.spending = Spending(calls=0, cached=0, input_tokens=0, output_tokens=0, cost=cost)
        if max_cost is not None and not (math.isfinite(max_cost) and max_cost >= 0):
            raise UsageError(f"the budget must be a number of US dollars >= 0, got {max_cost!r}")
        if max_cost is not None and self._price is None:
            raise UsageError(
                f"the price of {model.name!r} is unknown, so a budget cannot be enforced; set "
                f'{PRICES_VARIABLE}={{"{model.name.partition(":")[2]}": [3, 15]}} (US dollars per '
                "million input and output tokens)"
            )
        self.retries = retries
        self.concurrency = max(1, concurrency)
        self._slots: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    @property
    def name(self) -> str:
        """`KIND:MODEL`."""
        return self._model.name

    async def generate(self, prompt: str, max_tokens: int = 100) -> str:
        """The text of the reply."""
        return (await self.complete(prompt, max_tokens)).text

    async def __call__(self, prompt: str) -> str:
        """`await evaluation_llm(prompt)`, as tests of answers ask their judge."""
        return await self.generate(prompt)

    async def complete(self, prompt: str, max_tokens: int = 100) -> Completion:
        """The reply, without what a reasoning model thought, with its usage and why it ended."""
        key = ReplyCache.key(self._model.identity, prompt, max_tokens)
        loop = asyncio.get_running_loop()
        if self._slots is None or self._slots[0] is not loop:
            self._slots = (loop, asyncio.Semaphore(self.concurrency))
        async with self._slots[1]:
            reply = await asyncio.to_thread(self._cache.find, key) if self._cache else None
            if reply is None:
                with self._reserved(prompt, max_tokens):
                    reply = await self._ask(prompt, max_tokens)
                    self._count(reply, prompt, max_tokens)
                if self._cache:
                    await asyncio.to_thread(self._cache.keep, key, reply)
            else:
                self._count(reply, prompt, max_tokens)
        return replace(reply, text=without_thought(reply.text))

    async def _ask(self, prompt: str, max_tokens: int) -> Completion:
        try:
            return await self.retries.run(
                lambda: self._model.complete(prompt, max_tokens),
                on_timeout=lambda seconds: ProviderError(
                    ProviderFailure.TIMEOUT, f"{self.name} did not answer within {seconds:g} s"
                ),
            )
        except ProviderError as error:
            if not error.retryable:
                raise
            tried = f"attempts: {getattr(error, 'attempts', 1)}"
            message = f"{error} ({tried}); replies so far are cached: try again later"
            raise ProviderError(error.kind, message, retry_after=error.retry_after) from None

    @contextmanager
    def _reserved(self, prompt: str, max_tokens: int) -> Iterator[None]:
        """Reserve what the call can cost at most. Raises `BudgetExceeded` if that is too much."""
        worst = self._cost(max_tokens_of(prompt), max_tokens)
        spent = (self.spending.cost or 0.0) + self._reserved_cost
        if self._max_cost is not None and spent + worst > self._max_cost:
            raise BudgetExceeded(
                f"stopped before exceeding the budget of ${self._max_cost:g}: "
                f"${spent:.4f} are spent or reserved and the next call could cost ${worst:.4f}; "
                "replies so far are cached, so a run with a higher budget continues from here"
            )
        self._reserved_cost += worst
        try:
            yield
        finally:
            self._reserved_cost -= worst

    def _count(self, reply: Completion, prompt: str, max_tokens: int) -> None:
        given, made = reply.input_tokens, reply.output_tokens
        # A service that reports no usage would be free, and its budget unlimited: count the most.
        if given <= 0:
            given, made = max_tokens_of(prompt), max(made, max_tokens)
        elif made < 0 or (made == 0 and reply.text):
            made = max_tokens
        paid, before = not reply.cached, self.spending
        cost = None if before.cost is None else before.cost + paid * self._cost(given, made)
        self.spending = Spending(
            calls=before.calls + paid,
            cached=before.cached + reply.cached,
            input_tokens=before.input_tokens + paid * given,
            output_tokens=before.output_tokens + paid * made,
            cost=cost,
        )

    def _cost(self, given: int, made: int) -> float:
        return (given * self._price[0] + made * self._price[1]) / 1e6 if self._price else 0.0

    async def close(self) -> None:
        """Close the model's connections, or free its memory."""
        await self._model.close()

    async def __aenter__(self) -> "CachedProvider":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def complete(provider: LLMProvider, prompt: str, max_tokens: int) -> Completion:
    """A reply with the reason why it ended, which only a `CachedProvider` knows."""
    if isinstance(provider, CachedProvider):
        return await provider.complete(prompt, max_tokens)
    return Completion(await provider.generate(prompt, max_tokens))


def open_provider(
    spec: str | None = None,
    *,
    max_cost: float | None = None,
    concurrency: int | None = None,
    timeout: float | None = None,
    cache: bool = True,
    retries: RetryPolicy | None = None,
) -> CachedProvider:
    """The provider that `spec` names, else `RAG_EVAL_PROVIDER`, else Ollama.

    `max_cost` is a budget in US dollars. `concurrency` is 4 by default, and 1 for a model on this
    machine; `timeout` of one attempt 120 s, 600 on this machine, 1800 in this process. Without
    `cache`, replies that are cached are asked for again.
    """
    named = reveal(spec or configured_spec() or "ollama")
    model = open_model(named)
    kind, _ = split_provider(named)
    in_process = kind is not None and kind.in_process
    _, at, address = model.identity.rpartition("@")
    host = (urlsplit(address).hostname if at else None) or ""
    local = in_process or is_loopback(host) or host == "host.docker.internal"
    policy = retries or (_IN_PROCESS if in_process else _LOCAL if local else RETRIES)
    return CachedProvider(
        model,
        cache=ReplyCache() if cache else None,
        max_cost=max_cost,
        concurrency=1 if in_process else concurrency or (1 if local else CONCURRENCY),
        retries=policy if timeout is None else replace(policy, timeout=timeout),
    )


def configured_spec() -> str | None:
    """The provider that `RAG_EVAL_PROVIDER` names, if any."""
    return setting(PROVIDER_VARIABLE)


def open_model(spec: str) -> Model:
    """The model that `spec` names, without cache, retries and budget."""
    kind, rest = split_provider(reveal(spec))
    if kind is None:
        raise UsageError(
            "'extractive' has no model, so it can neither judge nor write; choose one of "
            f"{PROVIDER_FORMS}"
        )
    module, _, function = kind.opener.partition(":")
    model: Model = getattr(import_module(module), function)(rest)
    return model
