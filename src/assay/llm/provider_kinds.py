"""The kinds of language model that a name such as `ollama:llama3.2` can select.

The table is read by whatever opens a model, prices its calls, or decides which addresses and
files a name may reach; it imports no provider.
"""

from dataclasses import dataclass
from importlib.metadata import entry_points

from assay.errors import UsageError
from assay.llm.passages import EXTRACTIVE


@dataclass(frozen=True, slots=True)
class ProviderKind:
    """One way to reach a language model.

    Attributes:
        name: what stands before the colon.
        syntax: how to write it, for messages and help.
        opener: the function that returns the model, as `module:function`; it takes what stands
            after the colon.
        in_process: the rest of the name is a file, and the model runs in this process.
        free: a call costs no money.
    """

    name: str
    syntax: str
    opener: str
    in_process: bool = False
    free: bool = False


PROVIDER_KINDS = {
    kind.name: kind
    for kind in (
        ProviderKind(
            "ollama",
            "ollama[:MODEL[@URL]]",
            "assay.llm.providers.services:open_ollama",
            free=True,
        ),
        ProviderKind(
            "anthropic", "anthropic[:MODEL]", "assay.llm.providers.services:open_anthropic"
        ),
        ProviderKind("openai", "openai:MODEL[@URL]", "assay.llm.providers.services:open_openai"),
        ProviderKind(
            "gguf",
            "gguf[:FILE]",
            "assay.llm.providers.gguf:open_gguf",
            in_process=True,
            free=True,
        ),
    )
}
"""Every kind by its name."""

PROVIDERS_GROUP = "assay.providers"
"""The entry points of other packages: `mine = "package.module:open_mine"` opens `mine:MODEL`."""

PROVIDER_VARIABLE = "RAG_EVAL_PROVIDER"
"""The environment variable that names the model which answers and judges by default."""

PROVIDER_FORMS = ", ".join(kind.syntax for kind in PROVIDER_KINDS.values())
"""The forms of a provider's name, for a message or a help text."""


def _plugin(name: str) -> ProviderKind | None:
    found = entry_points(group=PROVIDERS_GROUP, name=name)
    return next((ProviderKind(name, f"{name}:MODEL", each.value) for each in found), None)


def split_provider(spec: str) -> tuple[ProviderKind | None, str]:
    """The kind that `spec` names, and the rest of the name.

    The kind is None for an empty name and for the answerer that needs no model. Raises
    `UsageError` for an unknown kind.
    """
    name, _, rest = spec.strip().partition(":")
    if name in ("", EXTRACTIVE):
        return None, rest
    kind = PROVIDER_KINDS.get(name) or _plugin(name)
    if kind is None:
        shown = name if "@" in spec else spec  # what precedes an @ may be a password
        raise UsageError(f"unknown provider {shown[:80]!r}; choose one of {PROVIDER_FORMS}")
    return kind, rest
