"""Who writes a reference answer: a model, or nobody, and then it is an extract that says so."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from assay.answer.citations import ABSTAINED, without_markers
from assay.answer.extractive import EXTRACTIVE, extract_finding
from assay.answer.passages import Passage
from assay.answer.prompt_files import load_prompt, mark_code, marked
from assay.answer.providers.cached import complete
from assay.answer.providers.provider import LLMProvider
from assay.data.dataset import Document

TOKENS = 500
EXTRACT_NOTE = (
    "An extract: a sentence of each document as it stands, chosen by the words that it shares with "
    "the question and by its place. No model and no person wrote or checked it."
)
MODEL_NOTE = "Written by a language model from the documents; no person checked it."


@dataclass(frozen=True, slots=True)
class Written:
    """`text` is empty where the writer found no answer in the documents."""

    text: str
    cut: bool = False


class ReferenceWriter(Protocol):
    """`origin` is what the record says about the writer, `no_answer` why it wrote nothing."""

    @property
    def origin(self) -> dict[str, str]: ...

    @property
    def no_answer(self) -> str: ...

    async def write(self, question: str, documents: Sequence[Document]) -> Written: ...


class ExtractWriter:
    """Deterministic, so that an answer which may not be passed on can be made anew elsewhere."""

    no_answer = "no sentence of the documents has to do with the words of the question"

    @property
    def origin(self) -> dict[str, str]:
        return {"provider": EXTRACTIVE, "model": "none", "prompt": "none", "note": EXTRACT_NOTE}

    async def write(self, question: str, documents: Sequence[Document]) -> Written:
        return Written(extract(question, documents))


def extract(question: str, documents: Sequence[Document]) -> str:
    """A sentence from each document that has one to give, in their order."""
    passages = (Passage(each.id, each.title, each.text) for each in documents)
    found = (extract_finding(question, passage) for passage in passages)
    return " ".join(dict.fromkeys(filter(None, found)))


class ModelWriter:
    no_answer = "the documents do not hold the answer, by the model's judgment"

    def __init__(self, provider: LLMProvider, max_tokens: int = TOKENS) -> None:
        self._provider = provider
        self._max_tokens = max_tokens

    @property
    def origin(self) -> dict[str, str]:
        provider, _, model = self._provider.name.partition(":")
        prompt = load_prompt("ground_truth_answer").id
        return {"provider": provider, "model": model, "prompt": prompt, "note": MODEL_NOTE}

    async def write(self, question: str, documents: Sequence[Document]) -> Written:
        prompt = reference_prompt(question, documents)
        reply = await complete(self._provider, prompt, self._max_tokens)
        declined = ABSTAINED.fullmatch(reply.text) is not None
        text = "" if declined else without_markers(reply.text).strip()
        return Written(text, cut=reply.stop_reason == "length")


def reference_prompt(question: str, documents: Sequence[Document]) -> str:
    texts = [f"Title: {each.title}\n{each.text}" for each in documents]
    code = mark_code(question, *texts)
    return load_prompt("ground_truth_answer").fill(
        code=code,
        documents="\n\n".join(
            f"Document {place}:\n{marked('document', code, text)}"
            for place, text in enumerate(texts, 1)
        ),
        question=f"Question:\n{marked('question', code, question)}",
    )
