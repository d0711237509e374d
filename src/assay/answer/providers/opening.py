"""From the name of a provider, or from the environment, to a model that can be asked."""

from pathlib import Path

from assay.answer.passages import EXTRACTIVE
from assay.answer.providers.cached import CONCURRENCY, RETRIES, CachedProvider, ReplyCache
from assay.answer.providers.provider import Model, setting
from assay.errors import UsageError
from assay.net.retry import RetryPolicy

PROVIDER_VARIABLE = "RAG_EVAL_PROVIDER"

_FORMS = "ollama[:MODEL[@URL]], anthropic[:MODEL], openai:MODEL[@URL], gguf[:FILE]"
# A model in this process is slow, not absent: another attempt would only start over.
_IN_PROCESS = RetryPolicy(attempts=1, timeout=1800.0)


def open_provider(
    spec: str | None = None,
    *,
    max_cost: float | None = None,
    concurrency: int = CONCURRENCY,
    cache: bool = True,
    retries: RetryPolicy | None = None,
) -> CachedProvider:
    """The provider that `spec` names, else `RAG_EVAL_PROVIDER`, else Ollama.

    Nothing is called before the first prompt.

    Args:
        spec: `ollama[:MODEL[@URL]]`, `anthropic[:MODEL]`, `openai:MODEL[@URL]` or `gguf[:FILE]`.
        max_cost: a budget in US dollars.
        concurrency: calls at the same time; always 1 for a model in this process.
        cache: False asks again for replies that are cached.
        retries: when to ask again, and how long one attempt may take.
    """
    model = open_model(spec or configured_spec() or "ollama")
    in_process = model.name.startswith("gguf:")
    return CachedProvider(
        model,
        cache=ReplyCache() if cache else None,
        max_cost=max_cost,
        concurrency=1 if in_process else concurrency,
        retries=retries or (_IN_PROCESS if in_process else RETRIES),
    )


def configured_spec() -> str | None:
    """The provider that `RAG_EVAL_PROVIDER` names, if any."""
    return setting(PROVIDER_VARIABLE)


def open_model(spec: str) -> Model:
    """The model that `spec` names, without cache, retries and budget."""
    kind, _, rest = spec.strip().partition(":")
    if kind == "ollama":
        from assay.answer.providers.ollama import open_ollama

        return open_ollama(rest)
    if kind == "anthropic":
        from assay.answer.providers.anthropic import open_anthropic

        return open_anthropic(rest)
    if kind == "openai":
        from assay.answer.providers.openai import open_openai

        return open_openai(rest)
    if kind == "gguf":
        from assay.answer.providers.gguf import VARIABLE, GgufModel

        file = rest or setting(VARIABLE)
        return GgufModel(Path(file).expanduser() if file else None)
    if kind == EXTRACTIVE:
        raise UsageError(
            "'extractive' quotes documents and has no model, so it can neither judge nor write; "
            f"choose one of {_FORMS}, or the metrics that need no model"
        )
    # What is around an @ may be a password.
    named = kind if "@" in spec else spec
    raise UsageError(f"unknown provider {named!r}; choose one of {_FORMS}")
