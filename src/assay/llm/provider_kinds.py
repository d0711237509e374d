"""The kinds of language model that a name such as `ollama:llama3.2` can select."""

from dataclasses import dataclass

from assay.errors import UsageError
from assay.extras import find_plugin
from assay.llm.passages import EXTRACTIVE

# The entry points of other packages: `mine = "package.module:open_mine"` opens `mine:MODEL`.
PROVIDERS_GROUP = "assay.providers"
# The environment variable that names the model which answers and judges by default.
PROVIDER_VARIABLE = "RAG_EVAL_PROVIDER"


@dataclass(frozen=True, slots=True)
class ProviderKind:
    """One way to reach a language model.

    `opener` is what opens the model (`module:name`); it takes what follows the colon. If
    `in_process`, that is a file, and the model runs here; if `free`, calls cost nothing.
    """

    syntax: str
    opener: str
    in_process: bool = False
    free: bool = False


_SERVICES = "assay.llm.providers.services"
PROVIDER_KINDS = {
    "ollama": ProviderKind("ollama[:MODEL[@URL]]", f"{_SERVICES}:OllamaModel", free=True),
    "anthropic": ProviderKind("anthropic[:MODEL[@URL]]", f"{_SERVICES}:AnthropicModel"),
    "openai": ProviderKind("openai:MODEL[@URL]", f"{_SERVICES}:OpenAIModel"),
    "gguf": ProviderKind(
        "gguf[:FILE]", "assay.llm.providers.gguf:GgufModel", in_process=True, free=True
    ),
}
PROVIDER_FORMS = ", ".join(kind.syntax for kind in PROVIDER_KINDS.values())


def split_provider(spec: str) -> tuple[ProviderKind | None, str]:
    """The kind that `spec` names, and the rest of the name.

    The kind is None for an empty name and for the answerer that needs no model. Raises
    `UsageError` for an unknown kind.
    """
    name, _, rest = spec.strip().partition(":")
    if name in ("", EXTRACTIVE):
        return None, rest
    if name in PROVIDER_KINDS:
        return PROVIDER_KINDS[name], rest
    if plugin := find_plugin(PROVIDERS_GROUP, name):
        return ProviderKind(f"{name}:MODEL", plugin.value), rest
    shown = name if "@" in spec else spec  # what precedes an @ may be a password
    raise UsageError(f"unknown provider {shown[:80]!r}; choose one of {PROVIDER_FORMS}")
