"""The prompt for a cited answer, for whichever model will read it.

Documents are data: they come from anywhere, and one may say "ignore the question". So each stands
between marks that its own text cannot close, and the instructions come last, after everything that
somebody else wrote.
"""

from collections.abc import Sequence

from assay.answer.passages import Passage
from assay.answer.prompt_files import load_prompt, mark_opening

ABSTAIN = "NOT FOUND"
"""What prompts/answer_question.txt asks for where the documents hold no answer."""

_QUESTION = load_prompt("answer_question")
_SYSTEM = load_prompt("answer_system")
SYSTEM = _SYSTEM.template

_MARK = mark_opening("document", "question", "title")


def question_prompt(question: str, passages: Sequence[Passage]) -> str:
    """The same text for the same input: a client may be asked in two rounds that have to agree."""
    documents = "\n\n".join(_document(place, each) for place, each in enumerate(passages, 1))
    return _QUESTION.fill(documents=documents, question=_quoted(question))


def answer_prompts() -> dict[str, str]:
    """For the record of a run: which wording a model was given."""
    return {prompt.name: prompt.id for prompt in (_SYSTEM, _QUESTION)}


def _document(place: int, passage: Passage) -> str:
    title = f"<title>{_quoted(passage.title)}</title>\n" if passage.title else ""
    return f'<document number="{place}">\n{title}{_quoted(passage.text)}\n</document>'


def _quoted(text: str) -> str:
    """Text that holds none of our own marks; everything else stays as it was written."""
    return _MARK.sub("‹", text)
