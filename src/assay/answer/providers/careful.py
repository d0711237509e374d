"""A model as callers want it: patient, never asked twice for one reply, within its budget."""

import asyncio
from types import TracebackType

from assay.answer.providers.meter import Meter, Spending, charged
from assay.answer.providers.patience import Patience
from assay.answer.providers.protocol import Completion, LLMProvider, Model, Usage
from assay.answer.providers.reply_cache import ReplyCache, reply_key
from assay.errors import UsageError

CONCURRENCY = 4


class CarefulProvider:
    """The `LLMProvider` that `open_provider` gives. May be used from one event loop after another,
    as the tests of a pytest session do, but by one at a time.
    """

    def __init__(
        self,
        model: Model,
        *,
        cache: ReplyCache | None = None,
        max_cost: float | None = None,
        concurrency: int = CONCURRENCY,
        patience: Patience | None = None,
    ) -> None:
        if concurrency < 1:
            raise UsageError(f"concurrency must be >= 1, got {concurrency!r}")
        self._model = model
        self._cache = cache
        self._meter = Meter(model.name, max_cost)
        self._patience = patience or Patience()
        self._concurrency = concurrency
        self._places: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def spending(self) -> Spending:
        return self._meter.spending

    def __repr__(self) -> str:
        return f"<provider {self.name}>"

    async def generate(self, prompt: str, max_tokens: int = 100) -> str:
        return (await self.complete(prompt, max_tokens)).text

    async def complete(self, prompt: str, max_tokens: int = 100) -> Completion:
        if max_tokens < 1:
            raise UsageError(f"max_tokens must be >= 1, got {max_tokens!r}")
        key = reply_key(self._model.identity, prompt, max_tokens)
        async with self._place():
            known = await asyncio.to_thread(self._cache.find, key) if self._cache else None
            if known is not None:
                self._meter.add_cached()
                return known
            completion = await self._asked(prompt, max_tokens)
            if self._cache:
                await asyncio.to_thread(self._cache.keep, key, completion)
            return completion

    async def _asked(self, prompt: str, max_tokens: int) -> Completion:
        with self._meter.reserved(prompt, max_tokens):
            completion = await self._patience.ask(
                self.name, lambda: self._model.complete(prompt, max_tokens)
            )
            self._meter.add(charged(completion, prompt, max_tokens))
        return completion

    def _place(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._places is None or self._places[0] is not loop:
            self._places = (loop, asyncio.Semaphore(self._concurrency))
        return self._places[1]

    async def close(self) -> None:
        await self._model.close()

    async def __aenter__(self) -> "CarefulProvider":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


async def complete(provider: LLMProvider, prompt: str, max_tokens: int) -> Completion:
    """A reply with the reason why it ended, which only our own provider knows."""
    if isinstance(provider, CarefulProvider):
        return await provider.complete(prompt, max_tokens)
    return Completion(await provider.generate(prompt, max_tokens), Usage())
