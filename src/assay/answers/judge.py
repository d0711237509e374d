"""A language model as judge: each answer is judged in both orders, and a verdict wins in each."""

import copy
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from assay.answers.statements import (
    abstained,
    claims,
    clearly_abstained,
    may_decline,
    statements,
)
from assay.data.dataset import Fact
from assay.errors import ProviderError, ProviderFailure, UsageError
from assay.llm.passages import NOT_FOUND
from assay.llm.prompt import delimited, delimiter_code, load_prompt
from assay.llm.providers.provider import LLMProvider, Spending
from assay.metrics.graded import Floats
from assay.net.gather import gather
from assay.net.json import parse_json
from assay.privacy import is_private

_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL | re.IGNORECASE)
_LABEL = re.compile(r"\A(?:answer|verdict|response|result)\s*[:=]\s*", re.IGNORECASE)
_FENCE = re.compile(r"\A\s*+```\w*+\s*|```\s*+\Z")
_WRAPPING = " \t\r\n.!*_`\"'“”‘’()[]"


class UnreliableJudge(Exception):
    """The judge contradicts itself, fails its controls or says nothing: no figure is reported."""


class Vote(StrEnum):
    """One reply of a judge, read strictly."""

    TRUE = "true"
    FALSE = "false"
    UNPARSEABLE = "unparseable"
    REFUSED = "refused"


def parse_word(reply: str, allowed: Sequence[str]) -> str | None:
    """The one allowed word that the reply consists of, else None.

    Case, quotes, emphasis, a final full stop and a label ("Answer:") do not matter, nor does the
    thinking that some models put first. Anything more could mean either: "not true", "TRUE or
    FALSE", "TRUE, except that ...", an essay that mentions both.
    """
    bare = _THOUGHT.sub("", reply).strip(_WRAPPING)
    word = _LABEL.sub("", bare).strip(_WRAPPING).upper()
    return word if word in allowed else None


def parse_words(reply: str, allowed: Sequence[str], number: int) -> list[str] | None:
    """The allowed words of a JSON list of exactly `number`; a list of one may be its word alone."""
    bare = _FENCE.sub("", _THOUGHT.sub("", reply)).strip()
    if number == 1 and (word := parse_word(bare, allowed)):
        return [word]
    try:
        found = parse_json(bare)
    except ValueError:
        return None
    if not isinstance(found, list) or len(found) != number:
        return None
    words = [str(each).strip().upper() for each in found]
    return words if all(word in allowed for word in words) else None


def parse_vote(reply: str) -> Vote:
    """TRUE or FALSE alone is a vote; anything else is `UNPARSEABLE`."""
    word = parse_word(reply, ("TRUE", "FALSE"))
    return Vote.UNPARSEABLE if word is None else Vote[word]


@dataclass(frozen=True, slots=True)
class Judgment:
    """The votes about one answer; `by_rule` if no model had to be asked.

    With `both_orders`, every second vote was given with the reference first. `replies` are the
    judge's own words, one for each vote; a verdict by rule has none.
    """

    votes: tuple[Vote, ...]
    by_rule: bool = False
    both_orders: bool = False
    replies: tuple[str, ...] = ()

    @property
    def orders(self) -> tuple[tuple[Vote, ...], ...]:
        """The votes by what was shown first: the answer, then the reference."""
        return (self.votes[0::2], self.votes[1::2]) if self.both_orders else (self.votes,)

    @property
    def verdict(self) -> bool | None:
        """What the majority says in each of the orders; None if there is no such thing.

        So a judge that prefers a place decides nothing, whatever the number of votes. An
        unparseable vote counts against both sides: if it were left out, one clear vote among five
        could decide.
        """
        verdicts = set(self.verdicts)
        return verdicts.pop() if len(verdicts) == 1 else None

    @property
    def verdicts(self) -> tuple[bool | None, ...]:
        """What the majority says in each of the orders; None if there is none."""
        return tuple(map(_majority, self.orders))

    @property
    def flipped(self) -> bool:
        """Whether the judge said both TRUE and FALSE about the same two answers."""
        return {Vote.TRUE, Vote.FALSE} <= set(self.votes)

    @property
    def unparseable(self) -> int:
        """How many votes were neither TRUE nor FALSE."""
        return sum(vote in (Vote.UNPARSEABLE, Vote.REFUSED) for vote in self.votes)

    @property
    def unreadable_replies(self) -> list[str]:
        """What the judge said in place of a verdict."""
        pairs = zip(self.votes, self.replies, strict=False)
        return [reply for vote, reply in pairs if vote is Vote.UNPARSEABLE]


def _majority(votes: Sequence[Vote]) -> bool | None:
    for vote, count in Counter(votes).items():
        if 2 * count > len(votes) and vote in (Vote.TRUE, Vote.FALSE):
            return vote is Vote.TRUE
    return None


def correctness_values(judgments: Sequence[Judgment]) -> Floats:
    """1 for TRUE, else 0: where the judge is undecided, the answer does not count as correct."""
    return np.array([float(each.verdict is True) for each in judgments], dtype=np.float64)


def flip_rate(judgments: Sequence[Judgment]) -> float | None:
    """The share of answers about which the judge contradicts itself.

    None if no answer was judged more than once.
    """
    repeated = [each for each in judgments if len(each.votes) > 1]
    return sum(each.flipped for each in repeated) / len(repeated) if repeated else None


def quote_unreadable(replies: Iterable[str], expected: str = "TRUE or FALSE") -> str:
    """`: it replied 'Yes.' where TRUE or FALSE alone was expected`; empty if there is no reply.

    A private run does not quote: the reply may repeat the answer.
    """
    shown = next(iter(replies), None)
    if shown is None or is_private():
        return ""
    said = " ".join(shown.split())
    cut = f"{said[:_QUOTED]}…" if len(said) > _QUOTED else said
    return f": it replied {cut!r} where {expected} alone was expected"


MAX_FLIPS = 0.2
"""The share of answers about which a judge may say both TRUE and FALSE."""
_MIN_BY_CHANCE = 4.0
_QUOTED = 60


def unreliable(judgments: Sequence[Judgment], max_flips: float = MAX_FLIPS) -> str | None:
    """The reason to distrust these judgments, or None.

    A judge is refused that gives no verdict about most answers, that contradicts itself about more
    than `max_flips` of them, or whose votes in the two orders agree no more than those of two coins
    that say TRUE as often as it does.
    """
    asked = [each for each in judgments if not each.by_rule]
    doubt = inconsistency(
        "answers",
        mute=("gave no verdict for", [x.verdict is None and not x.flipped for x in asked]),
        flipped=("said both TRUE and FALSE about", [x.flipped for x in asked if len(x.votes) > 1]),
        quoted=quote_unreadable(reply for each in asked for reply in each.unreadable_replies),
        max_flips=max_flips,
    )
    if doubt is None and _like_coins(asked):
        return (
            f"the judge answers like a coin: its verdicts in the two orders agree about "
            f"{len(asked)} answers no more often than chance would; choose another model"
        )
    return doubt


def inconsistency(
    things: str,
    *,
    mute: tuple[str, Sequence[bool]],
    flipped: tuple[str, Sequence[bool]],
    quoted: str = "",
    max_flips: float = MAX_FLIPS,
) -> str | None:
    """Why a judge is not believed: it is mute about most things, or contradicts itself too often.

    `mute` and `flipped` each have what the judge did, as words, and about which things it did so.
    """
    verb, found = mute
    if 2 * sum(found) > len(found):
        said = f"the judge {verb} {sum(found)} of {len(found)} {things}{quoted}"
        return f"{said}; choose another model"
    verb, found = flipped
    rate = sum(found) / len(found) if found else 0.0
    if rate > max_flips:
        said = f"the judge {verb} {sum(found)} of {len(found)} {things} ({100 * rate:.0f}%)"
        return f"{said} when texts were swapped; at most {100 * max_flips:g}% are accepted"
    return None


def _like_coins(asked: Sequence[Judgment]) -> bool:
    """Whether the orders disagree as often as coins with the judge's shares of TRUE would."""
    pairs = [each.verdicts for each in asked if each.both_orders]
    decided = [pair for pair in pairs if None not in pair]
    if not decided:
        return False
    first = sum(pair[0] is True for pair in decided) / len(decided)
    second = sum(pair[1] is True for pair in decided) / len(decided)
    by_chance = first * (1 - second) + (1 - first) * second
    expected = by_chance * len(decided)
    seen = sum(pair[0] is not pair[1] for pair in decided)
    # Within two standard deviations of what chance gives; one slip among verdicts that are nearly
    # all the same proves nothing.
    spread = math.sqrt(expected * (1 - by_chance))
    return expected >= _MIN_BY_CHANCE and seen > expected - 2 * spread


class FactState(StrEnum):
    """What an answer does with one fact."""

    STATED = "STATED"
    CONTRADICTED = "CONTRADICTED"
    ABSENT = "ABSENT"


# Enough for one word in any wrapping; an essay is cut, and would not count anyway.
_TOKENS = 16
_TOKENS_PER_WORD = 6
_TOKENS_OF_REASON = 80
_MAX_REASON = 400
# For a second call, where a reasoning model had not finished thinking.
_TOKENS_TO_THINK = 1024
_THINKING = re.compile(r"\s*(?:<think>(?!.*</think>).*)?", re.DOTALL | re.IGNORECASE)
MAX_SENTENCES = 50
"""Sentences of one answer that the judge is asked about: bounds the calls a long answer costs."""


@dataclass(frozen=True, slots=True)
class FactsJudgment:
    """What the answer does with each of the reference's facts; None if nobody could read it."""

    states: tuple[FactState | None, ...]
    replies: tuple[str, ...] = ()

    @property
    def contradicted(self) -> int:
        """How many facts the answer contradicts."""
        return self.states.count(FactState.CONTRADICTED)

    @property
    def unparseable(self) -> int:
        """For how many facts the reply could not be read."""
        return self.states.count(None)

    @property
    def recall(self) -> float:
        """The share of the facts that are stated."""
        return self.states.count(FactState.STATED) / len(self.states) if self.states else 0.0


@dataclass(frozen=True, slots=True)
class JudgeCall:
    """One call to a judge, as `judge.jsonl` of a run keeps it.

    `reply` is None if the model refused, `verdict` None if the reply could not be read.
    """

    query_id: str
    kind: str
    prompt: str
    reply: str | None
    verdict: str | None


class Judge:
    """Asks `provider` about answers, `votes` times about each, one call a vote.

    judge = Judge(provider, votes=2)
    (await judge.correctness(question, answer, reference)).verdict  # True, False or None

    Every second vote shows the reference first, so an odd number is raised by one; every second
    pair asks in other words. Every vote has another prompt, by the code in its marks: a cache
    never answers one vote with another, and the same judging a second time is answered from the
    cache. A refusal is a vote for neither side; other failures of the provider are raised.
    """

    def __init__(
        self,
        provider: LLMProvider,
        votes: int = 2,
        *,
        max_tokens: int = _TOKENS,
        record: Callable[[JudgeCall], None] | None = None,
    ) -> None:
        if votes < 1:
            raise UsageError(f"a judge needs at least 1 vote, got {votes!r}")
        self.provider = provider
        self.votes = votes + votes % 2
        self._max_tokens = max_tokens
        self._record = record
        self._query_id = ""

    def about(self, query_id: str) -> "Judge":
        """The same judge, whose calls are recorded under this query."""
        bound = copy.copy(self)
        bound._query_id = query_id
        return bound

    @property
    def name(self) -> str:
        """The provider's name, `KIND:MODEL`."""
        return self.provider.name

    @property
    def spending(self) -> Spending | None:
        """What was asked and what it cost; None for a model of the caller's."""
        return getattr(self.provider, "spending", None)

    @property
    def prompts(self) -> dict[str, str]:
        """Names and ids of the prompts, for the record of a run."""
        names = (*_WORDINGS[: self.votes // 2], "judge_fact", "judge_support")
        return {name: load_prompt(name).id for name in names}

    async def correctness(self, question: str, answer: str, reference: str | None) -> Judgment:
        """Whether the answer says what the reference says.

        If there is no answer (`reference` None) declining is correct, and if there is one
        declining is wrong: the model is asked about neither, unless the wording is ambiguous.
        """
        declined = clearly_abstained(answer)
        if declined or (reference is None and not may_decline(answer)):
            right = declined and reference is None
            return Judgment((Vote.TRUE if right else Vote.FALSE,), by_rule=True)
        truth = NOT_FOUND if reference is None else reference
        prompts = (correctness_prompt(question, answer, truth, vote) for vote in range(self.votes))
        return await self._judgment("correctness", prompts, both_orders=True)

    async def facts(self, question: str, answer: str, facts: Sequence[Fact]) -> FactsJudgment:
        """Fact by fact: also separates what is contradicted from what is left out."""
        found = await gather(
            self._choose("fact", fact_prompt(question, answer, fact), tuple(FactState))
            for fact in facts
        )
        states = (None if word is None else FactState(word) for word, _ in found)
        return FactsJudgment(tuple(states), tuple(reply or "" for _, reply in found))

    async def faithfulness(self, answer: str, sources: Sequence[str]) -> float | None:
        """The share of the answer's sentences that the judge finds supported; None if most
        replies are not a verdict. Those after the first `MAX_SENTENCES` count as not supported.
        """
        said = [] if abstained(answer) else claims(statements(answer))
        shown = said[:MAX_SENTENCES]
        votes = await gather(self.supports(each, sources) for each in shown)
        if 2 * sum(vote not in (Vote.TRUE, Vote.FALSE) for vote in votes) > len(votes):
            return None
        return votes.count(Vote.TRUE) / len(said) if said else 0.0

    async def supports(self, sentence: str, sources: Sequence[str], vote: int = 0) -> Vote:
        """Whether the sources support one sentence; `faithfulness` asks the same once."""
        return (await self.support_judgment(sentence, sources, vote)).votes[0]

    async def support_judgment(
        self, sentence: str, sources: Sequence[str], vote: int = 0
    ) -> Judgment:
        """The same with the reply."""
        return await self._judgment("support", [support_prompt(sentence, sources, vote)])

    async def choose(self, prompt: str, allowed: Sequence[str], kind: str = "") -> str | None:
        """The one of the allowed words that the reply consists of, read as strictly as a vote."""
        return (await self._choose(kind, prompt, allowed))[0]

    async def choose_each(
        self, prompt: str, allowed: Sequence[str], number: int, kind: str = ""
    ) -> list[str] | None:
        """One of the allowed words for each of `number` things; None for any other reply."""
        reply = await self._reply(prompt, self._max_tokens + _TOKENS_PER_WORD * number)
        words = parse_words(reply or "", allowed, number)
        self._keep(kind, prompt, reply, None if words is None else ", ".join(words))
        return words

    async def rate(self, prompt: str, allowed: Sequence[str], kind: str) -> tuple[str | None, str]:
        """The allowed word on the first line of the reply, and the reason on the lines after it."""
        reply = await self._reply(prompt, self._max_tokens + _TOKENS_OF_REASON)
        first, _, rest = _THOUGHT.sub("", reply or "").strip().partition("\n")
        word = parse_word(first, allowed)
        self._keep(kind, prompt, reply, word)
        return word, " ".join(rest.split())[:_MAX_REASON]

    async def _judgment(
        self, kind: str, prompts: Iterable[str], *, both_orders: bool = False
    ) -> Judgment:
        found = await gather(self._choose(kind, each, ("TRUE", "FALSE")) for each in prompts)
        votes = tuple(
            Vote.REFUSED if reply is None else Vote.UNPARSEABLE if word is None else Vote[word]
            for word, reply in found
        )
        replies = tuple(reply or "" for _, reply in found)
        return Judgment(votes, both_orders=both_orders, replies=replies)

    async def _choose(
        self, kind: str, prompt: str, allowed: Sequence[str]
    ) -> tuple[str | None, str | None]:
        """The allowed word that was replied, and the reply itself; None if the model refused."""
        reply = await self._reply(prompt)
        word = parse_word(reply or "", allowed)
        self._keep(kind, prompt, reply, word)
        return word, reply

    def _keep(self, kind: str, prompt: str, reply: str | None, verdict: str | None) -> None:
        if self._record is not None:
            self._record(JudgeCall(self._query_id, kind, prompt, reply, verdict))

    async def _reply(self, prompt: str, max_tokens: int | None = None) -> str | None:
        most = max_tokens or self._max_tokens
        reply = await self._generate(prompt, most)
        if reply is not None and most < _TOKENS_TO_THINK and _THINKING.fullmatch(reply):
            return await self._generate(prompt, _TOKENS_TO_THINK)
        return reply

    async def _generate(self, prompt: str, max_tokens: int) -> str | None:
        """The reply; None if the model refuses."""
        try:
            return await self.provider.generate(prompt, max_tokens)
        except ProviderError as error:
            if error.kind is ProviderFailure.REFUSAL:
                return None
            raise


_WORDINGS = ("judge_correctness", "judge_correctness_facts", "judge_correctness_reader")
"""The same question in three wordings: at temperature 0 the same one would get the same reply."""


def correctness_prompts(votes: int) -> tuple[str, ...]:
    """The ids of the prompts that so many votes are asked with."""
    return tuple(load_prompt(name).id for name in _WORDINGS[: votes // 2])


def correctness_prompt(question: str, answer: str, reference: str, vote: int = 0) -> str:
    """The public evaluator's question; the reference first in every second vote, and other words
    in every second pair.
    """
    code = delimiter_code(question, answer, reference, str(vote))
    blocks = [
        f"Generated Answer:\n{delimited('answer', code, answer)}",
        f"Ground Truth Answer:\n{delimited('answer', code, reference)}",
    ]
    first, second = reversed(blocks) if vote % 2 else blocks
    return load_prompt(_WORDINGS[vote // 2 % len(_WORDINGS)]).fill(
        code=code, question=delimited("question", code, question), first=first, second=second
    )


def fact_prompt(question: str, answer: str, fact: Fact) -> str:
    """Asks whether the answer states, contradicts or leaves out one fact."""
    code = delimiter_code(question, answer, fact.text)
    wordings = "; ".join(fact.accept)
    said = f"{fact.text} (for example: {wordings})" if wordings else fact.text
    return load_prompt("judge_fact").fill(
        code=code,
        question=delimited("question", code, question),
        fact=delimited("fact", code, said),
        answer=delimited("answer", code, answer),
    )


_SUPPORT = ("judge_support", "judge_support_first")


def support_prompt(statement: str, sources: Sequence[str], vote: int = 0) -> str:
    """Asks whether the sources support one statement, which is first in every second vote."""
    code = delimiter_code(statement, *sources, *([str(vote)] if vote else []))
    return load_prompt(_SUPPORT[vote % 2]).fill(
        code=code,
        documents="\n\n".join(delimited("document", code, source) for source in sources),
        statement=delimited("statement", code, statement),
    )
