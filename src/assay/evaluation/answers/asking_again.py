"""Asks the questions of a run again: with chosen contexts, or with planted documents.

The calls of each purpose are in a file of their own in the run folder, so that an interrupted one
is continued and not started over. Chosen contexts show which half of an agent is at fault:
`gold` holds the documents that the reference rests on and nothing else, `none` holds nothing, and
`distractors` holds the gold ones among those that look most like the question and do not help.
"""

import asyncio
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.answers.case import AnswerCase
from assay.answers.diagnosis import NOT_TRIED, Counterfactuals
from assay.answers.judge import Judge
from assay.answers.outcome import correct
from assay.data.dataset import Dataset, Query
from assay.evaluation.answers.judging import judge_answer
from assay.evaluation.calling import retry_policy, run_calls
from assay.llm.passages import Passage
from assay.net.gather import gather_for
from assay.net.retry import CircuitBreaker
from assay.progress import Progress
from assay.run.calls import Call, CallLog, CallWriter, PrivateTexts
from assay.run.config import RunConfig
from assay.search.bm25 import Bm25Index, open_bm25
from assay.targets.chunks import ChunkResolver
from assay.targets.protocol import Agent, AgentAnswer, context_taker


class TargetLost(Exception):
    """The target became unreachable while questions were asked again."""


@dataclass(frozen=True)
class CounterfactualRunner:
    """Asks questions again with the data, the settings and the pace of a run.

    `agent` is open, and None if answers were logged and nobody can be asked. `known` are ids beyond
    those of the data set that a private run may write; `breaker` makes the circuit breaker of one
    round of calls.
    """

    dataset: Dataset
    config: RunConfig
    stop: asyncio.Event
    progress: Progress
    agent: Agent | None = None
    folder: Path = Path()
    known: Collection[str] = ()
    breaker: Callable[[], CircuitBreaker] = CircuitBreaker

    async def answer_from(
        self, file: str, passages: Mapping[str, Sequence[Passage]], what: str
    ) -> dict[str, Call]:
        """Ask questions from `passages` by query id; the calls by query id, failed ones included.

        Those that `file` of the run folder holds are not repeated. Raises `TargetLost` if the
        target became unreachable.
        """
        config, path = self.config, self.folder / file
        taker = context_taker(self.agent) if self.agent else None
        assert taker is not None, "only agents that take a context are asked again"
        resolver = ChunkResolver(config.chunk_separator, self.dataset.documents)
        queries = [self.dataset.queries[query_id] for query_id in passages]
        private = PrivateTexts.of(self.dataset, self.known) if config.private else None

        async def ask(query: Query) -> AgentAnswer:
            return resolver.resolve(await taker.answer_from(query.text, passages[query.id]))

        with CallWriter(path, private) as writer:
            log = CallLog(path)
            todo = [query for query in queries if private or query not in log]
            done = len(queries) - len(todo)
            breaker = self.breaker()

            def on_call(call: Call) -> None:
                nonlocal done
                writer.append(call)
                done += 1
                self.progress(what, done, len(queries))

            gone = await run_calls(
                ask,
                todo,
                concurrency=config.concurrency,
                policy=retry_policy(config.timeout, config.retries),
                breaker=breaker,
                on_call=on_call,
                stop=self.stop,
            )
            if breaker.lost:  # these failed because the target was gone, not because of a question
                for key in gone:
                    writer.withdraw(key)
                raise TargetLost
        calls = CallLog(path, private).read(queries)
        return {call.query_id: call for call in calls if call is not None}


# Which documents an agent has to answer from, and the fields of `Counterfactuals`.
_CONTEXTS = {"gold": "gold", "none": "no_context", "distractors": "distractors"}


async def ask_again(
    cases: Sequence[AnswerCase],
    right: Mapping[str, bool | None],
    judge: Judge | None,
    asker: CounterfactualRunner,
) -> tuple[dict[str, Counterfactuals], bool]:
    """What each context made of the answers, by query id, and whether it changed any of them.

    Questions with a wrong answer are asked in every context; without documents all are.
    """
    known = [case for case in cases if case.answerable and case.answer is not None]
    known = [case for case in known if right.get(case.query_id) is not None]
    wrong = [case for case in known if not right[case.query_id] and case.needed]
    found: dict[str, Counterfactuals] = {}
    differs, size = False, asker.config.top_k
    for context, field in _CONTEXTS.items():
        # What the model knows from memory says nothing about retrieval.
        selected = known if context == "none" else wrong
        index = open_bm25(asker.dataset) if context == "distractors" and selected else None
        passages = {
            case.query_id: [] if context == "none" else _passages(case, size, index)
            for case in selected
        }
        words = f"asking again, context: {context}"
        calls = await asker.answer_from(f"calls-{context}.jsonl", passages, words)
        answers = {name: call.answer for name, call in calls.items() if call.failure is None}
        differs |= any(answers.get(case.query_id, case.answer) != case.answer for case in selected)
        again = [
            replace(case, answer=answers[case.query_id], verdict=None)
            for case in selected
            if case.query_id in answers
        ]
        verdicts = [correct(case) for case in again]
        if judge is not None:
            what = f"judging, context: {context}"
            judgments = await gather_for(
                again, lambda case: judge_answer(judge, case), what, asker.progress
            )
            verdicts = [each.verdict if each else None for each in judgments]
        for case, verdict in zip(again, verdicts, strict=True):
            before = found.get(case.query_id, NOT_TRIED)
            found[case.query_id] = replace(before, **{field: verdict})
    return found, differs


def _passages(case: AnswerCase, size: int, index: Bm25Index | None) -> list[Passage]:
    """The needed documents, and with `index` distractors up to `size`; the same for every run."""
    # If the reference names no documents: the judged ones, best grades first.
    gold = [each for each in case.reference.documents if each in case.documents]
    if not case.reference.documents:
        known = [each for each in case.relevant_ids if each in case.documents]
        gold = sorted(known, key=lambda each: (-case.relevant[each], each))[:size]
    if index is not None:
        helpful, wanted = case.relevant_ids | case.needed, max(size - len(gold), 1)
        found = index.search(case.question, wanted + len(helpful))
        gold = [*gold, *[doc_id for doc_id, _ in found if doc_id not in helpful][:wanted]]
        # Shuffled, or the rank would give the gold ones away; seeded by the id, to be repeatable.
        random.Random(case.query_id).shuffle(gold)
    documents = [case.documents[doc_id] for doc_id in gold]
    return [Passage(each.id, each.title, each.text) for each in documents]
