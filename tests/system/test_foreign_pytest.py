"""The two tests of the RAG evaluation framework, word for word, in a project of somebody else.

Its one line of setup is `asyncio_mode = auto`. What is missing skips them, with its name; nothing
that is missing lets them pass.
"""

import json
from pathlib import Path

import pytest
from tests import forked
from tests.llm_providers.model_server import ModelServer
from tests.nextcloud.notes_server import PASSWORD, USER, NotesServer
from tests.system.running import environment, serving

RETRIEVAL = '''
async def test_retrieval_recall(nc_client, nfcorpus_test_data):
    """Test that semantic search retrieves documents containing the answer."""
    for test_case in nfcorpus_test_data:
        # Perform semantic search (retrieval only, no generation)
        results = await nc_client.notes.semantic_search(
            query=test_case.query,
            limit=10
        )

        retrieved_doc_ids = {r.document_id for r in results}
        expected_doc_ids = set(test_case.expected_document_ids)

        # Context Recall: Are expected documents in top-k results?
        recall = len(expected_doc_ids & retrieved_doc_ids) / len(expected_doc_ids)
        assert recall >= 0.8, f"Recall {recall} below threshold for query: {test_case.query}"
'''

GENERATION = '''
async def test_answer_correctness(mcp_sampling_client, evaluation_llm, nfcorpus_test_data):
    """Test that RAG system generates factually correct answers."""
    for test_case in nfcorpus_test_data:
        # Execute full RAG pipeline (retrieval + generation)
        result = await mcp_sampling_client.call_tool(
            "nc_semantic_search_answer",
            arguments={"query": test_case.query, "limit": 5}
        )

        rag_answer = result["generated_answer"]

        # LLM-as-judge evaluation
        evaluation_prompt = f"""Compare these two answers and respond with only TRUE or FALSE.

Question: {test_case.query}

Generated Answer: {rag_answer}

Ground Truth Answer: {test_case.ground_truth}

Are these answers semantically equivalent (do they convey the same factual information)?
Respond with only: TRUE or FALSE"""

        evaluation_result = await evaluation_llm(evaluation_prompt)

        assert evaluation_result.strip().upper() == "TRUE", \\
            f"Answer mismatch for query: {test_case.query}\\nGot: {rag_answer}\\nExpected: {test_case.ground_truth}"
'''  # noqa: E501

WORDS = ("calcium", "coffee", "statins", "vitamins", "tapeworms", "alkylphenols")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose assay.toml, with a data set without answers, is above its tests."""
    data = tmp_path / "data"
    (data / "qrels").mkdir(parents=True)
    documents = [
        {"_id": f"d-{word}", "title": word, "text": f"A study of {word}."} for word in WORDS
    ]
    queries = [{"_id": f"q-{word}", "text": f"What about {word}?"} for word in WORDS]
    judged = [f"q-{word}\td-{word}\t1" for word in WORDS]
    (data / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    (data / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    (data / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "\n".join(judged))
    (tmp_path / "assay.toml").write_text('dataset = "data"\n[eval]\ntarget = "builtin:bm25"\n')
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    (tests / "test_retrieval_quality.py").write_text(RETRIEVAL)
    (tests / "test_generation_quality.py").write_text(GENERATION)
    return tests


def pytest_in(project: Path, *options: str, **variables: str) -> tuple[int, str]:
    settings = environment(ASSAY_CACHE=str(project.parent / "cache"), **variables)
    settings.pop("PYTEST_ADDOPTS", None)
    done = forked.run(forked.PYTEST, "-rs", *options, cwd=project, env=settings)
    return done.returncode, done.stdout


def test_without_a_model_and_a_nextcloud_both_are_skipped_with_the_variables(project: Path) -> None:
    code, said = pytest_in(project)
    assert code == 0
    assert "2 skipped" in said
    assert "RAG_EVAL_PROVIDER" in said
    assert "NEXTCLOUD_HOST, NEXTCLOUD_USERNAME, NEXTCLOUD_PASSWORD not set" in said
    assert "NOTHING WAS EVALUATED: 2 cases skipped" in said
    assert f"builtin:bm25 on {project.parent / 'data'}" in said  # of the assay.toml above


def test_without_a_reference_no_judge_is_asked(project: Path) -> None:
    with ModelServer().running() as models:
        provider = f"ollama:tiny@{models.url}"
        _, said = pytest_in(project, "test_generation_quality.py", RAG_EVAL_PROVIDER=provider)
    assert "1 skipped" in said
    assert "no reference answer for 'q-" in said
    assert "--assay-ground-truth" in said
    prompts = [body["messages"][0]["content"] for _, body, _ in models.requests]
    assert not any("Ground Truth Answer" in prompt for prompt in prompts)


OLLAMA = {
    "RAG_EVAL_PROVIDER": "ollama",
    "RAG_EVAL_OLLAMA_BASE_URL": "{url}",
    "RAG_EVAL_OLLAMA_MODEL": "tiny",
}
ANTHROPIC = {
    "RAG_EVAL_PROVIDER": "anthropic",
    "RAG_EVAL_ANTHROPIC_API_KEY": "sk-test",
    "RAG_EVAL_ANTHROPIC_MODEL": "tiny",
    "RAG_EVAL_ANTHROPIC_BASE_URL": "{url}",
}


@pytest.mark.parametrize(
    ("verdict", "code", "variables"),
    [("TRUE", 0, OLLAMA), ("FALSE", 1, OLLAMA), ("TRUE", 0, ANTHROPIC)],
    ids=["true", "false", "anthropic"],
)
def test_with_references_the_judge_decides(
    project: Path, verdict: str, code: int, variables: dict[str, str]
) -> None:
    options = ("test_generation_quality.py", "--assay-dataset=notes")
    with ModelServer().running() as models:
        models.text = verdict
        given = {name: value.format(url=models.url) for name, value in variables.items()}
        found, said = pytest_in(project, *options, **given)
    assert found == code, said
    bodies = [body for _, body, _ in models.requests]
    assert {body["model"] for body in bodies} == {"tiny"}
    prompts = [body["messages"][0]["content"] for body in bodies]
    asked = [prompt for prompt in prompts if "Ground Truth Answer: " in prompt]
    assert asked
    assert not any("Ground Truth Answer: None" in prompt for prompt in asked)


def test_with_a_nextcloud_its_search_is_measured(project: Path, tmp_path: Path) -> None:
    account = {"NEXTCLOUD_USERNAME": USER, "NEXTCLOUD_PASSWORD": PASSWORD}
    mode = ("--dataset", str(tmp_path / "data"), "--mode", "bm25")
    with NotesServer().running() as server, serving("mcp", *mode, folder=tmp_path) as url:
        target = f"nextcloud:{url}"
        account["NEXTCLOUD_HOST"] = server.url
        code, said = pytest_in(
            project, "test_retrieval_quality.py", "--assay-target", target, **account
        )
    assert code == 0, said
    assert "1 passed" in said
    assert len(server.notes) == len(WORDS)
