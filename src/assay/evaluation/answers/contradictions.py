"""Sentences of answers that their sources contradict: found by rules and the small model, and put
before the judge where there is one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from assay.data.dataset import Document
from assay.measure.answers.abstention import abstained
from assay.measure.answers.answer_metrics import AnswerCase
from assay.measure.answers.contradiction.model import open_contradiction_model
from assay.measure.answers.contradiction.rules import Contradiction, ContradictionChecker
from assay.measure.answers.judge import Judge, Vote
from assay.net.gather import gather
from assay.run.answers import AnswerContradiction, ContradictionsReport

Found = dict[str, tuple[Contradiction, ...]]
"""Contradictions by query id; questions without any are left out."""


def open_checker() -> ContradictionChecker:
    """Rules and the small model, as every report uses them."""
    return ContradictionChecker(open_contradiction_model())


def find_contradictions(
    cases: Sequence[AnswerCase], documents: Mapping[str, Document], checker: ContradictionChecker
) -> Found:
    """The contradicted sentences of each answer, against what it cites or was shown."""
    found = {
        case.query_id: tuple(checker.find(case.answer, case.cited_texts(documents)))
        for case in cases
        if case.answer is not None and not abstained(case.answer)
    }
    return {query_id: those for query_id, those in found.items() if those}


async def confirm_contradictions(
    judge: Judge, found: Found, cases: Sequence[AnswerCase], documents: Mapping[str, Document]
) -> Found:
    """Without the sentences that the judge finds supported.

    The judge was asked the same for its faithfulness, so the replies are in its cache.
    """

    async def one(case: AnswerCase) -> tuple[str, tuple[Contradiction, ...]]:
        sources = case.cited_texts(documents)
        those = found[case.query_id]
        votes = await gather(judge.supports(each.sentence, sources) for each in those)
        kept = [each for each, vote in zip(those, votes, strict=True) if vote is not Vote.TRUE]
        return case.query_id, tuple(kept)

    checked = await gather(one(case) for case in cases if case.query_id in found)
    return {query_id: those for query_id, those in checked if those}


def contradictions_report(found: Found, by: str, *, examples: int) -> ContradictionsReport:
    """Counts, and at most so many examples, which quote answers and sources."""
    everything = [(query_id, each) for query_id, those in found.items() for each in those]
    kinds = Counter(each.kind.value for _, each in everything)
    return ContradictionsReport(
        by=by,
        answers=len(found),
        sentences=len(everything),
        kinds=dict(kinds.most_common()),
        examples=[contradiction_row(each, query_id) for query_id, each in everything[:examples]],
    )


def contradiction_row(found: Contradiction, query_id: str | None = None) -> AnswerContradiction:
    """A contradiction as a row or a report keeps it."""
    return AnswerContradiction(
        query_id=query_id,
        kind=found.kind.value,
        sentence=found.sentence,
        evidence=found.evidence,
        said=found.said,
        source=found.source,
    )
