"""Is the answer right, and does it rest on what was found?

Whether it is right takes a judge, `evaluation_llm`: without one that test is skipped, for no
figure without a model stands for it. What needs no model is measured in any case, and labeled:
that there is an answer, and that its words stand in its sources (`faithfulness`).

The gate was chosen on the dev split, where the reference (`builtin:hybrid` with quoted sentences in
place of a model) has a mean of 0.80; declining counts as 0. A case of the five may fall to a half,
since counting words turns down about one in ten well-supported sentences (docs/answers.md).
"""

from typing import Any

import pytest
from tests.rag_evaluation.conftest import AskForAnswer

from assay.answers.answer_metrics import share_relevant
from assay.answers.faithfulness import answer_relevance, faithfulness
from assay.answers.judge import Judge
from assay.answers.statements import abstained
from assay.labels.reference_writing import SELECTED
from assay.llm.providers.opening import CachedProvider
from assay.pytest_plugin import RagCase, RagTestData
from assay.pytest_plugin.fixtures import RecordAnswer

MEAN_FAITHFULNESS = 0.7
FLOOR = 0.5
VOTES = 3

pytestmark = [pytest.mark.rag, pytest.mark.slow, pytest.mark.timeout(1800)]


async def test_answer_correctness(
    rag_case: RagCase,
    evaluation_llm: CachedProvider,
    ask_for_answer: AskForAnswer,
    rag_record: RecordAnswer,
) -> None:
    reference = rag_case.ground_truth
    answer = (await ask_for_answer(rag_case))["generated_answer"]
    judge = Judge(evaluation_llm, VOTES)
    judgment = await judge.correctness(rag_case.query, answer, reference)
    votes = ", ".join(map(str, judgment.votes))
    rag_record(correct=float(judgment.verdict is True), votes=votes, judge=judge.name)
    assert judgment.verdict is True, (
        f"the judge says {votes}\nquestion: {rag_case.query}\n"
        f"answer: {answer}\nreference: {reference}"
    )


async def test_answer_rests_on_its_sources(
    rag_case: RagCase, ask_for_answer: AskForAnswer, rag_record: RecordAnswer
) -> None:
    result = await ask_for_answer(rag_case)
    answer, cited = result["generated_answer"], result.get("citations")
    relevant = [doc_id for doc_id, grade in rag_case.judgments.items() if grade > 0]
    rag_record(
        answered=float(not abstained(answer)),
        faithfulness=faithful(result),
        answer_relevance=answer_relevance(rag_case.query, answer),
        citation_precision=None if cited is None else share_relevant(cited, relevant),
        written_by=result["model_used"],
        judge="none: words counted",
    )
    if rag_case.query_id in SELECTED:
        assert not abstained(answer), f"declined, although documents answer it: {rag_case.query!r}"
        assert faithful(result) >= FLOOR, f"more than half of this is in no source: {answer}"


async def test_mean_faithfulness(
    nfcorpus_test_data: RagTestData, ask_for_answer: AskForAnswer, rag_record: RecordAnswer
) -> None:
    figures = [faithful(await ask_for_answer(case)) for case in nfcorpus_test_data]
    mean = sum(figures) / len(figures)
    rag_record(mean_faithfulness=mean, gate=MEAN_FAITHFULNESS, queries=len(figures))
    assert mean >= MEAN_FAITHFULNESS


def faithful(result: dict[str, Any]) -> float:
    """Against the text that the tool returned with its answer."""
    answer = result["generated_answer"]
    texts = [f"{source['title']} {source['excerpt']}" for source in result["sources"]]
    return 0.0 if abstained(answer) else faithfulness(answer, texts)
