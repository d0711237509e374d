"""A language model as judge: each answer is judged in both orders, and a verdict wins in each.

    judge = Judge(provider, votes=2)
    (await judge.correctness(question, answer, reference)).verdict  # True, False or None

Whatever a judge is asked (whether an answer is right, a sentence supported, a text polite), its
reply is one of a few words, and the votes about one text are one `Judgment`.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from assay.answers.statements import abstained, claims, clearly_abstained, may_decline, statements
from assay.errors import AssayError, ProviderError, ProviderFailure
from assay.llm.passages import NOT_FOUND
from assay.llm.prompt import delimited, delimiter_code, load_prompt
from assay.llm.providers.provider import LLMProvider, without_thought
from assay.metrics.answer_values import JudgeCall
from assay.net.gather import gather
from assay.net.json import parse_json
from assay.privacy import is_private

TRUTH = ("FALSE", "TRUE")
MAX_FLIPS = 0.2  # the share of answers about which a judge may contradict itself
# Sentences of one answer that the judge is asked about: bounds the calls a long answer costs.
MAX_SENTENCES = 50

_LABELS = ("answer", "verdict", "response", "result")
_WRAPPING = " \t\r\n.!*_`\"'“”‘’()[]"
# Enough for one word in any wrapping; an essay is cut, and would not count anyway.
_TOKENS = 16
_TOKENS_PER_WORD = 6
_TOKENS_OF_REASON = 80
# For a second call, if a reasoning model had not finished thinking.
_TOKENS_TO_THINK = 1024
_MAX_REASON = 400
_QUOTED = 60
# At temperature 0 the same wording would get the same reply, so every second pair of votes has
# another one.
_WORDINGS = ("judge_correctness", "judge_correctness_facts", "judge_correctness_reader")


class UnreliableJudge(Exception):
    """The judge contradicts itself, fails its controls or says nothing: no figure is reported."""


def parse_word(reply: str, allowed: Sequence[str]) -> str | None:
    """parse_word("**Answer:** true.", TRUTH)  # "TRUE"; None if the reply says anything more

    "TRUE or FALSE", "TRUE, except that ..." and an essay that mentions both could mean either.
    """
    bare = without_thought(reply).strip(_WRAPPING)
    label, _, word = bare.replace("=", ":").partition(":")
    word = (word if label.strip().lower() in _LABELS else bare).strip(_WRAPPING).upper()
    return word if word in allowed else None


def parse_words(reply: str, allowed: Sequence[str], number: int) -> list[str] | None:
    """parse_words('["support", "none"]', allowed, 2); one word may stand without its list."""
    bare = without_thought(reply).strip().strip("`").removeprefix("json").strip()
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


@dataclass(frozen=True, slots=True)
class Judgment:
    """The votes about one text: each is one of `levels`, worst first, or None if it was neither.

    With `both_orders`, every second vote was given with the texts swapped. `replies` are the
    judge's own words, None if it refused. `by_rule` if no model had to be asked.
    """

    votes: tuple[str | None, ...]
    levels: tuple[str, ...] = TRUTH
    by_rule: bool = False
    both_orders: bool = True
    replies: tuple[str | None, ...] = ()
    reason: str = ""

    @property
    def orders(self) -> tuple[str | None, ...]:
        """What the majority says in each of the orders; None if there is none."""
        orders = (self.votes[0::2], self.votes[1::2]) if self.both_orders else (self.votes,)
        # An unreadable vote counts against all: else one clear vote among five could decide.
        return tuple(
            next((vote for vote, n in Counter(votes).items() if 2 * n > len(votes)), None)
            for votes in orders
        )

    @property
    def verdict(self) -> bool | None:
        """True if all orders say the best level, False if the worst; else None."""
        # So a judge that prefers a place decides nothing, whatever the number of votes.
        decided = {self.levels[0]: False, self.levels[-1]: True}
        levels = {*self.orders}
        return decided.get(levels.pop() or "") if len(levels) == 1 else None

    @property
    def worst(self) -> str | None:
        """The worse of what the orders say; None if one of them says nothing."""
        decided = [level for level in self.orders if level is not None]
        return min(decided, key=self.levels.index) if len(decided) == len(self.orders) else None

    @property
    def value(self) -> float | None:
        """From 0 for the worst level to 1: a verdict, or the mean of numbers; None if undecided."""
        if len(self.levels) == 2:
            return None if self.verdict is None else float(self.verdict)
        ranks = self._ranks
        decided = bool(ranks) and len(ranks) == len(self.votes)
        return sum(ranks) / len(ranks) / (len(self.levels) - 1) if decided else None

    @property
    def _ranks(self) -> list[int]:
        return [self.levels.index(vote) for vote in self.votes if vote is not None]

    @property
    def flipped(self) -> bool:
        """Whether votes contradict each other; neighbors on a longer scale do not."""
        ranks = self._ranks
        return bool(ranks) and max(ranks) - min(ranks) > (len(self.levels) > 2)

    @property
    def unreadable(self) -> int:
        """How many votes were none of the levels."""
        return self.votes.count(None)


def ruled(level: str, levels: tuple[str, ...] = TRUTH) -> Judgment:
    """A judgment that needed no model."""
    return Judgment((level,), levels, by_rule=True, both_orders=False)


def flip_rate(judgments: Sequence[Judgment]) -> float | None:
    """The share of texts about which the judge contradicts itself; None if none was asked twice."""
    repeated = [each for each in judgments if len(each.votes) > 1]
    return sum(each.flipped for each in repeated) / len(repeated) if repeated else None


def quote_unreadable(judgments: Iterable[Judgment]) -> str:
    """`: it replied 'Yes.'`, the first reply that is no vote; empty if there is none."""
    unread = (
        " ".join(reply.split())
        for each in judgments
        for vote, reply in zip(each.votes, each.replies, strict=False)
        if vote is None and reply is not None
    )
    said = next(unread, None)
    # A reply may repeat the answer.
    return "" if said is None or is_private() else f": it replied {said[:_QUOTED]!r}"


def unreliable(
    judgments: Iterable[Judgment], things: str = "answers", max_flips: float = MAX_FLIPS
) -> str | None:
    """The reason to distrust these judgments, or None: no verdict about most texts, or
    contradictions about more than the share `max_flips` of them.
    """
    asked = [each for each in judgments if not each.by_rule]
    mute = sum(None in each.orders and not each.flipped for each in asked)
    if 2 * mute > len(asked):
        what = f"the judge gave no verdict for {mute} of {len(asked)} {things}"
        return f"{what}{quote_unreadable(asked)}; choose another model"
    flips = flip_rate(asked) or 0.0
    if flips > max_flips:
        repeated = sum(len(each.votes) > 1 for each in asked)
        what = f"{round(flips * repeated)} of {repeated} {things} ({100 * flips:.0f}%)"
        return (
            f"the judge contradicted itself about {what} when texts were swapped; "
            f"at most {100 * max_flips:g}% are accepted"
        )
    return None


class Judge:
    """Asks `provider` about answers, `votes` times about each, one call a vote.

    Every second vote shows the reference first, so an odd number is raised by one. Every vote has
    another prompt, so that a cache never answers one vote with another. A refusal is a vote for
    neither side; other failures of the provider are raised.
    """

    def __init__(
        self,
        provider: LLMProvider,
        votes: int = 2,
        *,
        record: Callable[[JudgeCall], None] | None = None,
    ) -> None:
        self.provider = provider
        self.votes = votes + votes % 2
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
    def prompts(self) -> dict[str, str]:
        """Names and ids of the prompts, for the record of a run."""
        names = (*_WORDINGS[: self.votes // 2], "judge_support")
        return {name: load_prompt(name).id for name in names}

    async def correctness(self, question: str, answer: str, reference: str | None) -> Judgment:
        """Whether the answer says what the reference says; if that is None, whether it declines."""
        # Nobody is asked about a clear refusal, nor about an answer that refuses nothing.
        declined = clearly_abstained(answer)
        if declined or (reference is None and not may_decline(answer)):
            return ruled(TRUTH[declined and reference is None])
        truth = NOT_FOUND if reference is None else reference
        prompts = (correctness_prompt(question, answer, truth, vote) for vote in range(self.votes))
        return await self.ask("correctness", prompts, TRUTH)

    async def faithfulness(self, answer: str, sources: Sequence[str]) -> float | None:
        """The share of the answer's sentences that the judge finds supported; None if most
        replies are not a verdict. Those after the first `MAX_SENTENCES` count as not supported.
        """
        said = [] if abstained(answer) else claims(statements(answer))
        found = await gather(self.supports(each, sources) for each in said[:MAX_SENTENCES])
        if 2 * sum(each.verdict is None for each in found) > len(found):
            return None
        return sum(each.verdict is True for each in found) / len(said) if said else 0.0

    async def supports(self, sentence: str, sources: Sequence[str]) -> Judgment:
        """Whether the sources support one sentence, asked once."""
        code = delimiter_code(sentence, *sources)
        prompt = load_prompt("judge_support").fill(
            code=code,
            documents="\n\n".join(delimited("document", code, source) for source in sources),
            statement=delimited("statement", code, sentence),
        )
        return await self.ask("support", [prompt], TRUTH)

    async def ask(
        self, kind: str, prompts: Iterable[str], levels: tuple[str, ...], *, reason: bool = False
    ) -> Judgment:
        """A vote for each prompt; with `reason`, that is on the lines after the word."""
        replies = await gather(self._vote(kind, each, levels, reason=reason) for each in prompts)
        votes = tuple(vote for vote, _, _ in replies)
        return Judgment(
            votes,
            levels,
            both_orders=len(votes) > 1,
            replies=tuple(reply for _, reply, _ in replies),
            reason=next((why for vote, _, why in replies if vote and why), ""),
        )

    async def choose_each(
        self, prompt: str, allowed: Sequence[str], number: int, kind: str = ""
    ) -> list[str] | None:
        """One of the allowed words for each of `number` things; None for any other reply."""
        reply = await self._reply(prompt, _TOKENS + _TOKENS_PER_WORD * number)
        words = parse_words(reply or "", allowed, number)
        self._keep(kind, prompt, reply, None if words is None else ", ".join(words))
        return words

    async def _vote(
        self, kind: str, prompt: str, allowed: Sequence[str], *, reason: bool = False
    ) -> tuple[str | None, str | None, str]:
        """The allowed word, the reply, and the reason."""
        reply = await self._reply(prompt, _TOKENS + _TOKENS_OF_REASON * reason)
        said, why = reply or "", ""
        if reason:
            said, _, why = without_thought(said).strip().partition("\n")
        word = parse_word(said, allowed)
        self._keep(kind, prompt, reply, word)
        return word, reply, " ".join(why.split())[:_MAX_REASON]

    def _keep(self, kind: str, prompt: str, reply: str | None, verdict: str | None) -> None:
        if self._record is not None:
            self._record(
                JudgeCall(
                    query_id=self._query_id, kind=kind, prompt=prompt, reply=reply, verdict=verdict
                )
            )

    async def _reply(self, prompt: str, max_tokens: int) -> str | None:
        """The reply, with room to finish thinking; None if the model refuses."""
        try:
            reply: object = await self.provider.generate(prompt, max_tokens)
            if isinstance(reply, str) and _is_unfinished(reply.strip().lower()):
                reply = await self.provider.generate(prompt, _TOKENS_TO_THINK)
            if isinstance(reply, str):
                return reply
            what = f"replied with a {type(reply).__name__}, not a string"
        except AssayError as error:
            if isinstance(error, ProviderError) and error.kind is ProviderFailure.REFUSAL:
                return None
            raise
        except Exception as error:  # a model of the caller's may raise anything
            what = f"raised {type(error).__name__}: {error}"
        raise ProviderError(ProviderFailure.SERVER, f"the judge {self.name!r} {what}")


def _is_unfinished(reply: str) -> bool:
    return not reply or (reply.startswith("<think>") and "</think>" not in reply)


def correctness_prompts(votes: int) -> tuple[str, ...]:
    """The ids of the prompts that so many votes are asked with."""
    return tuple(load_prompt(name).id for name in _WORDINGS[: votes // 2])


def correctness_prompt(question: str, answer: str, reference: str, vote: int = 0) -> str:
    """The public evaluator's question, in the order and the words of a vote."""
    code = delimiter_code(question, answer, reference, str(vote))
    blocks = [
        f"Generated Answer:\n{delimited('answer', code, answer)}",
        f"Ground Truth Answer:\n{delimited('answer', code, reference)}",
    ]
    first, second = reversed(blocks) if vote % 2 else blocks
    return load_prompt(_WORDINGS[vote // 2 % len(_WORDINGS)]).fill(
        code=code, question=delimited("question", code, question), first=first, second=second
    )
