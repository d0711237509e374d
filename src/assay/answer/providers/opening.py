"""From the name of a provider, or from the environment, to a model that can be asked."""

from dataclasses import replace
from importlib import import_module
from urllib.parse import urlsplit

from assay.answer.provider_kinds import PROVIDER_FORMS, PROVIDER_VARIABLE, split_provider
from assay.answer.providers.cached import CONCURRENCY, RETRIES, CachedProvider, ReplyCache
from assay.answer.providers.provider import Model, setting
from assay.errors import UsageError
from assay.net.outbound import is_loopback
from assay.net.retry import RetryPolicy
from assay.net.secret_text import reveal

# A model in this process is slow, not absent: another attempt would only start over.
_IN_PROCESS = RetryPolicy(attempts=1, timeout=1800.0)
# One on this machine may have to load first, and answers one call at a time.
_LOCAL = replace(RETRIES, attempts=2, timeout=600.0)


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

    Nothing is called before the first prompt.

    Args:
        spec: `ollama[:MODEL[@URL]]`, `anthropic[:MODEL]`, `openai:MODEL[@URL]` or `gguf[:FILE]`.
        max_cost: a budget in US dollars.
        concurrency: calls at the same time; by default 4, and 1 for a model on this machine, which
            has one processor to share. Always 1 for a model in this process.
        timeout: seconds for one attempt; by default 120, 600 on this machine, 1800 in this process.
        cache: False asks again for replies that are cached.
        retries: when to ask again, and how long one attempt may take.
    """
    named = reveal(spec or configured_spec() or "ollama")
    model = open_model(named)
    kind, _ = split_provider(named)
    in_process = kind is not None and kind.in_process
    local = in_process or _on_this_machine(model)
    policy = retries or (_IN_PROCESS if in_process else _LOCAL if local else RETRIES)
    return CachedProvider(
        model,
        cache=ReplyCache() if cache else None,
        max_cost=max_cost,
        concurrency=1 if in_process else concurrency or (1 if local else CONCURRENCY),
        retries=policy if timeout is None else replace(policy, timeout=timeout),
    )


def _on_this_machine(model: Model) -> bool:
    """By its address, which is part of its identity; Ollama without one is here."""
    _, at, address = model.identity.rpartition("@")
    host = urlsplit(address).hostname if at else None
    if host is None:
        return model.name.startswith("ollama:")
    return is_loopback(host) or host == "host.docker.internal"


def configured_spec() -> str | None:
    """The provider that `RAG_EVAL_PROVIDER` names, if any."""
    return setting(PROVIDER_VARIABLE)


def open_model(spec: str) -> Model:
    """The model that `spec` names, without cache, retries and budget."""
    kind, rest = split_provider(reveal(spec))
    if kind is None:
        raise UsageError(
            "'extractive' quotes documents and has no model, so it can neither judge nor write; "
            f"choose one of {PROVIDER_FORMS}, or the metrics that need no model"
        )
    module, _, function = kind.opener.partition(":")
    model: Model = getattr(import_module(module), function)(rest)
    return model
