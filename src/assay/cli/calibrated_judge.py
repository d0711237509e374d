"""Ask a judge about rows of a file, apart from those whose verdict is recorded."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from assay.cli.console import progress_bar
from assay.net.json import JsonObject

if TYPE_CHECKING:
    from assay.answers.judge import Judge
    from assay.llm.providers.opening import CachedProvider
    from assay.llm.providers.provider import Spending
    from assay.progress import Progress

_Row = TypeVar("_Row")
_Said = TypeVar("_Said")


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """The options that decide which model is asked, and how."""

    spec: str | None
    max_cost: float | None
    timeout: float | None
    concurrency: int | None

    def open(self) -> "CachedProvider":
        """The model; nothing is called before the first prompt."""
        from assay.llm.providers.opening import open_provider

        return open_provider(
            self.spec, max_cost=self.max_cost, timeout=self.timeout, concurrency=self.concurrency
        )


@dataclass(frozen=True, slots=True)
class CalibratedJudge:
    """Who gave the verdicts; with nothing else where it was the rules, or all were recorded."""

    provider: str
    votes: int = 0
    prompts: Mapping[str, str] = field(default_factory=dict)
    spending: "Spending | None" = None

    def to_json(self, *, with_prompts: bool = False) -> JsonObject:
        """What `--json` says of the judge."""
        found: JsonObject = {"provider": self.provider}
        if self.spending is not None:
            found["votes"] = self.votes
            if with_prompts:
                found["prompts"] = self.prompts
            found["spending"] = self.spending.model_dump()
        return found


def ask_judge(
    rows: Sequence[_Row],
    recorded: Sequence[_Said | None],
    options: JudgeOptions,
    ask: Callable[["Judge", _Row], Awaitable[_Said]],
    what: str,
    votes: int,
) -> tuple[list[_Said], CalibratedJudge]:
    """A verdict for each row: the recorded one, else what `ask` returns; and who was asked.

    No model is opened if nothing is left to ask.

    Parameters:
        rows: what is judged.
        recorded: the verdict of each row, None where it has none.
        options: how the model is opened.
        ask: asks the judge about one row.
        what: the name of the work in the progress bar.
        votes: how many the judge has.
    """
    from assay.answers.judge import Judge
    from assay.net.gather import gather_for

    left = [row for row, known in zip(rows, recorded, strict=True) if known is None]
    if not left:
        return [known for known in recorded if known is not None], CalibratedJudge("recorded")

    async def run(progress: "Progress") -> tuple[list[_Said], CalibratedJudge]:
        async with options.open() as provider:
            judge = Judge(provider, votes)
            found = await gather_for(left, lambda row: ask(judge, row), what, progress)
            return found, CalibratedJudge(judge.name, judge.votes, judge.prompts, provider.spending)

    with progress_bar() as progress:
        found, asked = asyncio.run(run(progress))
    fresh = iter(found)
    return [next(fresh) if known is None else known for known in recorded], asked
