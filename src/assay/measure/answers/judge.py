"""A language model as judge: the same question several times, with the answers' places swapped."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from assay.answer.citations import without_markers
from assay.answer.passages import NOT_FOUND
from assay.answer.prompt_files import load_prompt, mark_code, marked
from assay.answer.providers.failures import FailureKind, ProviderError
from assay.answer.providers.protocol import LLMProvider
from assay.answer.together import gathered
from assay.data.dataset import Fact
from assay.errors import UsageError
from assay.measure.answers.abstention import abstained, may_decline, surely_abstained
from assay.measure.answers.verdicts import Judgment, Vote, parse_vote, parse_word
from assay.text import sentences

_STATES = ("STATED", "CONTRADICTED", "ABSENT")
# Room for the one word in any wrapping; an essay is cut, and would not count anyway.
_TOKENS = 16
# Asked for once more with this much, where a model had not finished thinking.
_TOKENS_TO_THINK = 1024
_THINKING = re.compile(r"\s*(?:<think>(?!.*</think>).*)?", re.DOTALL | re.IGNORECASE)
MOST_SENTENCES = 50
"""As many of an answer are shown to the judge: else one long answer buys thousands of calls."""


@dataclass(frozen=True, slots=True)
class FactsJudgment:
    """How many of the reference's facts the answer states, denies or leaves out."""

    stated: int
    contradicted: int
    absent: int
    unparseable: int

    @property
    def recall(self) -> float:
        total = self.stated + self.contradicted + self.absent + self.unparseable
        return self.stated / total if total else 0.0


class Judge:
    """Each vote is a prompt of its own, by the code in its marks: a cache answers none of them with
    another, and a second run of the same judging is answered by the cache alone.

    Every second vote shows the reference first. A refusal is a vote that counts for nobody; other
    failures of the provider are raised, for votes that were given are in the cache by then.
    """

    def __init__(self, provider: LLMProvider, votes: int = 1, *, max_tokens: int = _TOKENS) -> None:
        if votes < 1:
            raise UsageError(f"a judge needs at least 1 vote, got {votes!r}")
        self.provider = provider
        self._votes = votes
        self._max_tokens = max_tokens

    @property
    def name(self) -> str:
        return self.provider.name

    @property
    def prompts(self) -> dict[str, str]:
        """For the record of a run."""
        names = ("judge_correctness", "judge_fact", "judge_support")
        return {name: load_prompt(name).id for name in names}

    async def correctness(self, question: str, answer: str, reference: str | None) -> Judgment:
        """Whether the two answers say the same.

        Where there is no answer (`reference` None) declining is right, and where there is one
        declining is wrong: nobody is asked about either, unless the wording leaves it open.
        """
        declined = surely_abstained(answer)
        if declined or (reference is None and not may_decline(answer)):
            right = declined and reference is None
            return Judgment((Vote.TRUE if right else Vote.FALSE,), by_rule=True)
        truth = NOT_FOUND if reference is None else reference
        prompts = (correctness_prompt(question, answer, truth, vote) for vote in range(self._votes))
        votes = await gathered([self._vote(prompt) for prompt in prompts])
        return Judgment(tuple(votes))

    async def facts(self, question: str, answer: str, facts: Sequence[Fact]) -> FactsJudgment:
        """The finer form: also tells what is wrong from what is merely left out."""
        prompts = [fact_prompt(question, answer, fact) for fact in facts]
        replies = await gathered(map(self._reply, prompts))
        words = [parse_word(reply or "", _STATES) for reply in replies]
        stated, contradicted, absent = (words.count(each) for each in _STATES)
        return FactsJudgment(stated, contradicted, absent, words.count(None))

    async def faithfulness(self, answer: str, sources: Sequence[str]) -> float:
        """The share of the answer's sentences that the judge finds supported by the sources.

        Sentences after the first `MOST_SENTENCES` are not judged and count as not supported.
        """
        said = [] if abstained(answer) else sentences(without_markers(answer))
        shown = said[:MOST_SENTENCES]
        votes = await gathered(self._vote(support_prompt(each, sources)) for each in shown)
        return votes.count(Vote.TRUE) / len(said) if said else 0.0

    async def _vote(self, prompt: str) -> Vote:
        reply = await self._reply(prompt)
        return Vote.REFUSED if reply is None else parse_vote(reply)

    async def _reply(self, prompt: str) -> str | None:
        try:
            reply = await self.provider.generate(prompt, self._max_tokens)
            if self._max_tokens < _TOKENS_TO_THINK and _THINKING.fullmatch(reply):
                reply = await self.provider.generate(prompt, _TOKENS_TO_THINK)
            return reply
        except ProviderError as error:
            if error.kind is FailureKind.REFUSAL:
                return None
            raise


def correctness_prompt(question: str, answer: str, reference: str, vote: int = 0) -> str:
    """The seed's question, with the reference first in every second vote."""
    code = mark_code(question, answer, reference, str(vote))
    blocks = [
        f"Generated Answer:\n{marked('answer', code, answer)}",
        f"Ground Truth Answer:\n{marked('answer', code, reference)}",
    ]
    first, second = reversed(blocks) if vote % 2 else blocks
    return load_prompt("judge_correctness").fill(
        code=code, question=marked("question", code, question), first=first, second=second
    )


def fact_prompt(question: str, answer: str, fact: Fact) -> str:
    code = mark_code(question, answer, fact.text)
    wordings = "; ".join(fact.accept)
    said = f"{fact.text} (for example: {wordings})" if wordings else fact.text
    return load_prompt("judge_fact").fill(
        code=code,
        question=marked("question", code, question),
        fact=marked("fact", code, said),
        answer=marked("answer", code, answer),
    )


def support_prompt(statement: str, sources: Sequence[str]) -> str:
    code = mark_code(statement, *sources)
    return load_prompt("judge_support").fill(
        code=code,
        documents="\n\n".join(marked("document", code, source) for source in sources),
        statement=marked("statement", code, statement),
    )
