"""Language models: whichever one is configured, asked in one way."""

from assay.answer.providers.answering import ModelAnswerer, open_answerer
from assay.answer.providers.careful import CarefulProvider
from assay.answer.providers.failures import BudgetExceeded, FailureKind, ProviderError
from assay.answer.providers.opening import open_provider
from assay.answer.providers.protocol import Completion, LLMProvider, Model, Usage

__all__ = [
    "BudgetExceeded",
    "CarefulProvider",
    "Completion",
    "FailureKind",
    "LLMProvider",
    "Model",
    "ModelAnswerer",
    "ProviderError",
    "Usage",
    "open_answerer",
    "open_provider",
]
