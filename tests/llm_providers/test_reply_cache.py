"""Cache, budget and concurrency around a model, with a model that replies as it is told."""

import asyncio
import math
import stat
import threading
from pathlib import Path

import pytest
from tests.llm_providers.conftest import OpenProvider
from tests.llm_providers.model_server import ModelServer

from assay.errors import BudgetExceeded, UsageError
from assay.llm.providers.opening import CachedProvider, ReplyCache
from assay.llm.providers.provider import Completion, max_tokens_of, price_of


class CountingModel:
    def __init__(self, name: str = "openai:gpt-4o", usage: tuple[int, int] = (50, 100)) -> None:
        self.name = self.identity = name
        self.usage = usage
        self.asked: list[str] = []

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        self.asked.append(prompt)
        return Completion(f"reply {len(self.asked)}", *self.usage)

    async def close(self) -> None: ...


# What a call with 100 tokens may cost, and what it does cost, at the price of GPT-4o.
WORST = (max_tokens_of("p") * 2.5 + 100 * 10) / 1e6
PAID = (50 * 2.5 + 100 * 10) / 1e6


def cache(tmp_path: Path) -> ReplyCache:
    return ReplyCache(tmp_path / "replies.sqlite3")


async def test_a_reply_is_asked_for_once_and_remembered_by_the_next_process(tmp_path: Path) -> None:
    model = CountingModel()
    for _ in range(2):
        provider = CachedProvider(model, cache=cache(tmp_path))
        assert await provider.generate("prompt") == "reply 1"
    assert model.asked == ["prompt"]
    assert (provider.spending.calls, provider.spending.cached) == (0, 1)
    assert provider.spending.cost == 0.0


def test_the_cache_keeps_no_prompt_and_is_the_users_own(tmp_path: Path) -> None:
    kept = cache(tmp_path)
    kept.keep(ReplyCache.key("m", "a private prompt", 5), Completion("yes", 1, 2, "length"))
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
    everything = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"private" not in everything
    found = kept.find(ReplyCache.key("m", "a private prompt", 5))
    assert found == Completion("yes", 1, 2, "length", cached=True)


async def test_the_budget_stops_before_it_is_exceeded(tmp_path: Path) -> None:
    model = CountingModel()
    provider = CachedProvider(model, cache=cache(tmp_path), max_cost=2.5 * PAID)
    replies = [await provider.generate(f"prompt {i}", 100) for i in range(2)]
    with pytest.raises(BudgetExceeded, match=r"the next call could cost \$0\.00"):
        await provider.generate("prompt 2", 100)
    assert provider.spending.cost == pytest.approx(2 * PAID)
    assert await provider.generate("prompt 0", 100) == replies[0]  # paid for: still to be had
    assert len(model.asked) == 2


@pytest.mark.parametrize("told", [(0, 0), (-5, -5), (0, 3)])
async def test_tokens_that_nobody_counted_cost_what_was_set_aside(told: tuple[int, int]) -> None:
    """Else an endpoint that sends no usage would be free, and its budget without end."""
    provider = CachedProvider(CountingModel(usage=told), max_cost=2.5 * WORST)
    for _ in range(2):
        await provider.generate("p", 100)
    assert provider.spending.cost == pytest.approx(2 * WORST)
    with pytest.raises(BudgetExceeded):
        await provider.generate("p", 100)


@pytest.mark.parametrize(
    ("name", "budget", "words"),
    [
        *(("openai:gpt-4o", odd, "the budget must be") for odd in (-1.0, math.nan, math.inf)),
        ("openai:own-model", 1.0, r"'openai:own-model' is unknown.*RAG_EVAL_PRICES"),
    ],
)
def test_a_budget_without_a_meaning_is_refused(name: str, budget: float, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        CachedProvider(CountingModel(name), max_cost=budget)
    assert (CachedProvider(CountingModel(name)).spending.cost is None) == ("own" in name)


async def test_calls_under_way_count_against_the_budget() -> None:
    """Else ten calls at once would each find the budget untouched."""
    provider = CachedProvider(CountingModel(), max_cost=3.5 * WORST, concurrency=10)
    results = await asyncio.gather(
        *(provider.generate("p", 100) for _ in range(10)), return_exceptions=True
    )
    assert sum(isinstance(each, BudgetExceeded) for each in results) == 7
    assert (provider.spending.cost or 0) <= 3.5 * WORST


def test_the_longest_name_and_the_users_own_price_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert price_of("openai:gpt-4o-mini-2024-07-18") == (0.15, 0.60)
    assert price_of("openai:gpt-4o-2024-08-06") == (2.5, 10.0)
    monkeypatch.setenv("RAG_EVAL_PRICES", '{"gpt-4o": [1, 2], "llama": [0.1, 0.2]}')
    assert price_of("openai:gpt-4o-mini") == (1, 2)
    assert price_of("ollama:llama3.1:8b") == (0.1, 0.2)


@pytest.mark.parametrize("written", ["{", '{"m": [1]}', '{"m": [1, -2]}', '{"m": ["inf", 1]}'])
def test_prices_that_cannot_be_read_are_told(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_EVAL_PRICES", written)
    with pytest.raises(UsageError, match="RAG_EVAL_PRICES"):
        price_of("openai:m")


async def test_calls_at_once_are_bounded(server: ModelServer, opened: OpenProvider) -> None:
    server.gate = threading.Barrier(3)  # nobody is answered before three are in the house
    provider = opened("openai", concurrency=3)
    await asyncio.gather(*(provider.generate(f"p{i}") for i in range(9)))
    assert server.most_at_once == 3


def test_one_event_loop_after_another(server: ModelServer, opened: OpenProvider) -> None:
    """As a fixture of a pytest session does."""
    for kind in ("ollama", "anthropic", "openai"):
        provider = opened(kind, concurrency=1)

        async def three(provider: CachedProvider = provider) -> list[str]:
            return list(await asyncio.gather(*(provider.generate(f"p{i}") for i in range(3))))

        for _ in range(2):
            assert asyncio.run(three()) == ["TRUE"] * 3
        asyncio.run(provider.close())
