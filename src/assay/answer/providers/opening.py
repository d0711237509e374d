"""From a word, or from the environment, to a model that can be asked."""

import os
from pathlib import Path

from assay.answer.extractive import EXTRACTIVE
from assay.answer.providers.address import refuse_password
from assay.answer.providers.anthropic import DEFAULT_MODEL as ANTHROPIC_MODEL
from assay.answer.providers.anthropic import KEY_VARIABLE as ANTHROPIC_KEY
from assay.answer.providers.anthropic import AnthropicModel
from assay.answer.providers.careful import CONCURRENCY, CarefulProvider
from assay.answer.providers.gguf import VARIABLE as GGUF_VARIABLE
from assay.answer.providers.gguf import GgufModel
from assay.answer.providers.ollama import DEFAULT_MODEL as OLLAMA_MODEL
from assay.answer.providers.ollama import DEFAULT_URL as OLLAMA_URL
from assay.answer.providers.ollama import OllamaModel
from assay.answer.providers.openai_compatible import DEFAULT_URL as OPENAI_URL
from assay.answer.providers.openai_compatible import KEY_VARIABLE as OPENAI_KEY
from assay.answer.providers.openai_compatible import OpenAICompatibleModel
from assay.answer.providers.patience import Patience
from assay.answer.providers.protocol import Model
from assay.answer.providers.reply_cache import ReplyCache
from assay.errors import ProviderError, ProviderFailure, UsageError

PROVIDER_VARIABLE = "RAG_EVAL_PROVIDER"
_FORMS = "ollama[:MODEL[@URL]], anthropic[:MODEL], openai:MODEL[@URL], gguf[:FILE]"


# A model in this process is slow, not absent: asking again would only make it begin anew.
_FOR_SLOW_COMPUTERS = Patience(attempts=1, timeout=1800.0)


def open_provider(
    spec: str | None = None,
    *,
    max_cost: float | None = None,
    concurrency: int = CONCURRENCY,
    cache: bool = True,
    patience: Patience | None = None,
) -> CarefulProvider:
    """`spec`, else `RAG_EVAL_PROVIDER`, else Ollama. Nothing is asked before the first question.

    `max_cost` is in US dollars. Without `cache` every question is asked anew.
    """
    model = open_model(spec or configured_spec() or "ollama")
    in_process = isinstance(model, GgufModel)
    return CarefulProvider(
        model,
        cache=ReplyCache() if cache else None,
        max_cost=max_cost,
        concurrency=1 if in_process else concurrency,
        patience=patience or (_FOR_SLOW_COMPUTERS if in_process else None),
    )


def configured_spec() -> str | None:
    """What the environment says, where it says anything."""
    return _setting(PROVIDER_VARIABLE)


def open_model(spec: str) -> Model:
    kind, _, rest = spec.strip().partition(":")
    if kind == "ollama":
        return _ollama(rest)
    if kind == "anthropic":
        return _anthropic(rest)
    if kind == "openai":
        return _openai(rest)
    if kind == "gguf":
        file = rest or _setting(GGUF_VARIABLE)
        return GgufModel(Path(file).expanduser() if file else None)
    if kind == EXTRACTIVE:
        raise UsageError(
            "'extractive' quotes documents and has no model behind it, so it can neither judge "
            f"nor write; choose one of {_FORMS}, or the metrics that need no model"
        )
    # What stands around an @ may be a password.
    raise UsageError(f"no provider is called {kind if '@' in spec else spec!r}; there is: {_FORMS}")


def _ollama(rest: str) -> OllamaModel:
    model, _, url = rest.partition("@")
    refuse_password(url)
    url = url or _setting("RAG_EVAL_OLLAMA_BASE_URL", "OLLAMA_HOST") or OLLAMA_URL
    return OllamaModel(url, model or _setting("RAG_EVAL_OLLAMA_MODEL") or OLLAMA_MODEL)


def _anthropic(rest: str) -> AnthropicModel:
    if "@" in rest:
        raise UsageError(
            "'anthropic:MODEL' takes no address; set RAG_EVAL_ANTHROPIC_BASE_URL for another one"
        )
    key = _setting(ANTHROPIC_KEY)
    if key is None:
        raise ProviderError(
            ProviderFailure.SETTING, f"the provider 'anthropic' needs a key: set {ANTHROPIC_KEY}"
        )
    model = rest or _setting("RAG_EVAL_ANTHROPIC_MODEL") or ANTHROPIC_MODEL
    return AnthropicModel(key, model, _setting("RAG_EVAL_ANTHROPIC_BASE_URL"))


def _openai(rest: str) -> OpenAICompatibleModel:
    model, _, url = rest.partition("@")
    refuse_password(url)
    model = model or _setting("RAG_EVAL_OPENAI_MODEL") or ""
    if not model:
        raise UsageError(
            "which model? Give openai:MODEL, or set RAG_EVAL_OPENAI_MODEL to a name that the "
            "endpoint knows"
        )
    url = url or _setting("RAG_EVAL_OPENAI_BASE_URL") or OPENAI_URL
    key = _setting(OPENAI_KEY)
    if key is None and url == OPENAI_URL:
        raise ProviderError(
            ProviderFailure.SETTING,
            f"OpenAI needs a key: set {OPENAI_KEY}; for another endpoint that needs none, set "
            "RAG_EVAL_OPENAI_BASE_URL",
        )
    return OpenAICompatibleModel(url, model, key)


def _setting(*names: str) -> str | None:
    """The first that is set; a key is often pasted with a line break behind it."""
    return next((value for name in names if (value := os.environ.get(name, "").strip())), None)
