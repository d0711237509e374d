"""The same questions again, in contexts of our choice: three short runs beside the run.

Each keeps its calls in a file of its own in the run folder, so that a broken one is finished and
not begun anew.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from assay.agents.protocol import AgentAnswer, TakesContext
from assay.data.dataset import Dataset, Query
from assay.evaluate.answers.contexts import Context, Contexts
from assay.evaluate.asking import OUTAGES, Call, retry_policy
from assay.evaluate.call_log import CallLog, CallWriter
from assay.evaluate.plan import RunConfig
from assay.evaluate.runner import run_calls
from assay.measure.answers.case import AnswerCase
from assay.net.breaker import CircuitBreaker
from assay.progress import Progress


def asked_again(
    cases: Sequence[AnswerCase], correct: Mapping[str, bool | None], context: Context
) -> list[AnswerCase]:
    """Wrong answers are put again with other documents; whether a model knows the answer by heart
    is asked of right ones as well, since those say nothing about retrieval then.
    """
    askable = [
        case
        for case in cases
        if case.answerable and case.answer is not None and correct.get(case.query_id) is not None
    ]
    if context is Context.NONE:
        return askable
    return [case for case in askable if not correct[case.query_id] and case.needed]


class TargetGone(Exception):
    """The target was lost while questions were put to it again."""


async def ask_again(
    agent: TakesContext,
    cases: Sequence[AnswerCase],
    context: Context,
    folder: Path,
    dataset: Dataset,
    config: RunConfig,
    *,
    stop: asyncio.Event,
    progress: Progress,
) -> dict[str, Call]:
    """The calls that came back, by question; one that failed in this context says nothing."""
    path = folder / f"calls-{context}.jsonl"
    contexts = Contexts(dataset, config.top_k)
    passages = {case.query_id: contexts.passages(case, context) for case in cases}
    queries = [dataset.queries[case.query_id] for case in cases]
    what = f"asking again, context: {context}"

    async def put(query: Query) -> AgentAnswer:
        return await agent.answer_from(query.text, passages[query.id])

    with CallWriter(path) as writer:
        log = CallLog(path)
        done = len(log)
        outage: list[str] = []
        breaker = CircuitBreaker()

        def on_call(call: Call) -> None:
            nonlocal done
            writer.append(call)
            if call.failure in OUTAGES:
                outage.append(call.query_id)
            else:
                outage.clear()
            done += 1
            progress(what, done, len(queries))

        await run_calls(
            put,
            [query for query in queries if query.id not in log],
            concurrency=config.concurrency,
            policy=retry_policy(config.timeout, config.retries),
            breaker=breaker,
            on_call=on_call,
            stop=stop,
        )
        if breaker.lost:  # these say that the target was gone, nothing about its answers
            for query_id in outage:
                writer.withdraw(query_id)
            raise TargetGone
    calls = CallLog(path).read([query.id for query in queries])
    return {call.query_id: call for call in calls if call is not None and call.failure is None}
