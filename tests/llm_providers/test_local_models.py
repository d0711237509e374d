"""A real model that runs in this process: weak, but nothing about it is imitated."""

import asyncio
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.llm.providers.opening import CachedProvider, open_provider

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not os.environ.get("ASSAY_GGUF_MODEL") or importlib.util.find_spec("xllamacpp") is None,
        reason="ASSAY_GGUF_MODEL is not set (sh scripts/get-smollm2.sh), or xllamacpp is missing",
    ),
]


@pytest.fixture(scope="module")
def provider() -> Iterator[CachedProvider]:
    opened = open_provider("gguf", cache=False)
    yield opened
    asyncio.run(opened.close())


async def test_it_answers_the_same_and_counts_its_tokens(provider: CachedProvider) -> None:
    question = "Name the capital of France in one word."
    first, again = await asyncio.gather(*(provider.complete(question, 8) for _ in range(2)))
    assert first.text == again.text != ""
    assert 0 < first.output_tokens <= 8 < first.input_tokens
    assert provider.spending.cost == 0.0
    assert provider.name == f"gguf:{Path(os.environ['ASSAY_GGUF_MODEL']).stem}"
