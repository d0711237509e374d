"""Answers of the built-in agent."""

import pytest

from assay import Dataset, Document
from assay.errors import AgentFailure, FailureKind, ProviderError, ProviderFailure
from assay.targets.builtin import BuiltinAnswers


class Failing:
    """An answerer whose model fails."""

    name = "failing"

    def __init__(self, kind: ProviderFailure) -> None:
        self.kind = kind

    async def answer(self, *_: object) -> None:
        raise ProviderError(self.kind, "the model failed")


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (ProviderFailure.CONNECTION, FailureKind.CONNECTION),
        (ProviderFailure.INVALID_REPLY, FailureKind.AGENT_ERROR),
    ],
)
async def test_a_model_that_cannot_be_reached_is_an_outage(
    failure: ProviderFailure, kind: FailureKind
) -> None:
    """The run stops after a few calls and can be resumed, as for an agent that is down."""
    answers = BuiltinAnswers(Dataset("x", {"d": Document("d", "", "tea")}, {}, {}))
    answers._answerer = Failing(failure)  # type: ignore[assignment]
    with pytest.raises(AgentFailure) as caught:
        await answers.from_documents("tea?", ["d"])
    assert caught.value.kind is kind
