"""Between the last call and the report: judge what was answered, and ask again where that helps."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from assay.agents.protocol import Agent, TakesContext, context_taker
from assay.answer.providers.careful import CarefulProvider
from assay.answer.providers.opening import open_provider
from assay.answer.providers.protocol import LLMProvider
from assay.data.dataset import Dataset
from assay.errors import BudgetExceeded, ProviderError
from assay.evaluate.answers.contexts import Context
from assay.evaluate.answers.counterfactual import TargetGone, ask_again, asked_again
from assay.evaluate.answers.examination import (
    Examination,
    correct_by_judge,
    unless_stopped,
    verdicts_by_facts,
    verdicts_by_judge,
)
from assay.evaluate.plan import RunConfig
from assay.measure.answers.case import AnswerCase
from assay.measure.answers.correctness import correct_by_facts
from assay.measure.answers.diagnosis import NOT_TRIED
from assay.measure.answers.judge import Judge
from assay.progress import Progress

_NOT_HEEDED = (
    "the agent gave the same answers whatever documents it was given, so that shows nothing: "
    "failures are diagnosed from this run alone"
)
_FIELDS = {Context.GOLD: "gold", Context.NONE: "no_context", Context.DISTRACTORS: "distractors"}


@dataclass(frozen=True)
class Examiner:
    """`provider` is a model of the caller's own, in place of the one that `config.judge` names."""

    config: RunConfig
    dataset: Dataset
    folder: Path
    provider: LLMProvider | None
    stop: asyncio.Event
    progress: Progress

    async def examine(self, cases: Sequence[AnswerCase], agent: Agent) -> Examination:
        """A judge that fails ends its own work and not the run: what needs no model stands."""
        found = Examination({} if self._judged else verdicts_by_facts(cases))
        try:
            async with self._judge() as judge:
                try:
                    await unless_stopped(self._hear(cases, agent, judge, found), self.stop)
                finally:
                    found.judge = None if judge is None else self._facts_of(judge)
        except (ProviderError, BudgetExceeded) as error:
            found.trouble = str(error)
        except TargetGone:
            found.trouble = "the target was lost while questions were put to it again"
            found.target_lost = True
        found.trouble = found.trouble or _unreadable(found)
        if self.stop.is_set() and found.trouble is None:
            found.trouble = "interrupted before all answers were examined"
        return found

    async def _hear(
        self, cases: Sequence[AnswerCase], agent: Agent, judge: Judge | None, found: Examination
    ) -> None:
        if judge is not None:
            documents = self.dataset.documents
            found.verdicts = await verdicts_by_judge(judge, cases, documents, self.progress)
        taker = context_taker(agent) if self.config.counterfactuals else None
        if taker is not None:
            found.others = {}
            correct = {name: each.correct for name, each in found.verdicts.items()}
            heeded = False
            for context in Context:
                asked = asked_again(cases, correct, context)
                heeded |= await self._try(context, asked, taker, judge, found)
            if found.others and not heeded:
                found.others, found.tried, found.note = None, (), _NOT_HEEDED

    async def _try(
        self,
        context: Context,
        cases: Sequence[AnswerCase],
        agent: TakesContext,
        judge: Judge | None,
        found: Examination,
    ) -> bool:
        """Whether any answer differs from the one that was given before."""
        calls = await ask_again(
            agent,
            cases,
            context,
            self.folder,
            self.dataset,
            self.config,
            stop=self.stop,
            progress=self.progress,
        )
        again = [
            replace(case, answer=calls[case.query_id].answer)
            for case in cases
            if case.query_id in calls
        ]
        tried = {} if found.others is None else found.others
        for query_id, right in (await self._correct(again, judge, context)).items():
            before = tried.get(query_id, NOT_TRIED)
            tried[query_id] = replace(before, **{_FIELDS[context]: right})
        found.tried = (*found.tried, str(context))
        return any(
            calls[case.query_id].answer != case.answer for case in cases if case.query_id in calls
        )

    async def _correct(
        self, cases: Sequence[AnswerCase], judge: Judge | None, context: Context
    ) -> Mapping[str, bool | None]:
        if judge is None:
            return {case.query_id: correct_by_facts(case) for case in cases}
        return await correct_by_judge(judge, cases, f"judging, context: {context}", self.progress)

    @property
    def _judged(self) -> bool:
        return self.provider is not None or bool(self.config.judge)

    @asynccontextmanager
    async def _judge(self) -> AsyncIterator[Judge | None]:
        if self.provider is not None:
            yield Judge(self.provider, self.config.judge_votes)
        elif self.config.judge:
            async with open_provider(self.config.judge, max_cost=self.config.max_cost) as provider:
                yield Judge(provider, self.config.judge_votes)
        else:
            yield None

    def _facts_of(self, judge: Judge) -> dict[str, Any]:
        facts: dict[str, Any] = {"provider": judge.name, "votes": self.config.judge_votes}
        provider = judge.provider
        if isinstance(provider, CarefulProvider):
            facts["spending"] = asdict(provider.spending)
        return facts | {"prompts": judge.prompts}


def _unreadable(found: Examination) -> str | None:
    """A judge that mostly says neither TRUE nor FALSE has judged nothing."""
    asked = [
        each for each in found.verdicts.values() if each.judgment and not each.judgment.by_rule
    ]
    undecided = sum(each.undecided for each in asked)
    if 2 * undecided <= len(asked):
        return None
    return (
        f"the judge's replies were no verdict for {undecided} of {len(asked)} questions; choose "
        "another model, or give it room to think: see docs/answers.md"
    )
