"""Many answers before one judge."""

from collections.abc import Sequence
from typing import NamedTuple

from assay.answer.together import gathered
from assay.measure.answers.judge import Judge
from assay.measure.answers.verdicts import Judgment, Vote
from assay.progress import Progress, silent


class Pleading(NamedTuple):
    """What a judge hears. `answer` is None where the agent failed, `reference` where there is no
    right answer but to decline.
    """

    question: str
    answer: str | None
    reference: str | None


async def judge_answers(
    judge: Judge, heard: Sequence[Pleading], progress: Progress = silent
) -> list[Judgment]:
    """In order. A failure of the provider ends it; votes that were given are in its cache, so the
    next try goes on from there.
    """
    done = 0

    async def one(case: Pleading) -> Judgment:
        nonlocal done
        judgment = Judgment((Vote.FALSE,), by_rule=True)
        if case.answer is not None:
            judgment = await judge.correctness(case.question, case.answer, case.reference)
        done += 1
        progress("judging", done, len(heard))
        return judgment

    return await gathered(one(case) for case in heard)
