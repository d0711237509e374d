"""What the fixtures give to a project that has nothing but Assay and pytest."""

import sys
from pathlib import Path

import pytest
from tests.llm_providers.model_server import ModelServer
from tests.pytest_plugin.conftest import INI, Run

pytest_plugins = ["pytester"]

SERVER = f"{Path(sys.executable).with_name('assay')} serve mcp --stdio --dataset notes --mode bm25"


def test_a_bare_project_retrieves_and_answers(run: Run) -> None:
    result = run(
        """
        import asyncio

        def test_search(rag_case, rag_agent):
            found = asyncio.run(rag_agent.ask(rag_case.query, 10)).doc_ids
            assert set(rag_case.expected_document_ids) & set(found)

        def test_answer(rag_case, mcp_sampling_client):
            assert mcp_sampling_client.sampling is None
            arguments = {"query": rag_case.query, "limit": 5}
            call = mcp_sampling_client.call_tool("nc_semantic_search_answer", arguments)
            result = asyncio.run(call)
            assert result["model_used"] in ("extractive", "none")
            assert len(result["sources"]) == 5

        def test_cases(nfcorpus_test_data):
            assert len(nfcorpus_test_data) == 5
            assert all(case.ground_truth for case in nfcorpus_test_data)
            assert len(nfcorpus_test_data.dataset.documents) > 200
        """
    )
    result.assert_outcomes(passed=11)


def test_an_agent_that_fails_in_opening_is_closed(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        broken="""
        from pathlib import Path

        class Agent:
            async def open(self):
                raise OSError("nobody listens")

            async def close(self):
                Path("closed").touch()

            async def ask(self, query, top_k):
                return []

        agent = Agent()
        """
    )
    test = "def test_search(rag_agent):\n    assert rag_agent"
    run(test, "--assay-target=python:broken:agent").assert_outcomes(errors=1)
    assert (pytester.path / "closed").exists()


def test_fixtures_are_awaited_from_every_loop(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeini(
        "[pytest]\nfilterwarnings = error\nasyncio_mode = auto\n"
        "asyncio_default_fixture_loop_scope = function\n"
    )
    pytester.makepyfile(
        """
        import asyncio

        async def test_first(mcp_sampling_client, rag_agent):
            assert "search_nfcorpus" in await mcp_sampling_client.list_tools()
            assert len((await rag_agent.ask("mortgage", 2)).doc_ids) == 2

        async def test_second(mcp_sampling_client, rag_agent):
            assert "search_nfcorpus" in await mcp_sampling_client.list_tools()
            asks = [rag_agent.ask("mortgage", 3) for _ in range(5)]
            assert len({found.doc_ids for found in await asyncio.gather(*asks)}) == 1
        """
    )
    chosen = ("--assay-dataset=notes", "--assay-target=builtin:bm25")
    pytester.runpytest_subprocess(*chosen).assert_outcomes(passed=2)


@pytest.mark.parametrize(
    "target", ["builtin:bm25", f"mcp-stdio:{SERVER}"], ids=["in-process", "stdio"]
)
def test_the_sampling_client_and_the_judge_use_the_provider(run: Run, target: str) -> None:
    with ModelServer().running() as models:
        models.text = "It is fixed until 2034 [1]."
        result = run(
            """
            import asyncio

            def test_answer(mcp_sampling_client):
                assert mcp_sampling_client.sampling == "ollama:tiny"
                arguments = {"query": "mortgage fixed rate until"}
                call = mcp_sampling_client.call_tool("nc_semantic_search_answer", arguments)
                result = asyncio.run(call)
                assert result["generated_answer"] == "It is fixed until 2034 [1]."
                assert result["model_used"] == "ollama:tiny"
                assert result["search_method"] == "bm25+sampling"

            def test_judge(evaluation_llm):
                assert evaluation_llm.name == "ollama:tiny"
                assert asyncio.run(evaluation_llm("TRUE or FALSE?")).startswith("It is")
                assert asyncio.run(evaluation_llm.generate("Again?", max_tokens=5))
            """,
            f"--assay-provider=ollama:tiny@{models.url}",
            f"--assay-target={target}",
        )
    result.assert_outcomes(passed=2)
    prompts = [body["messages"][0]["content"] for _, body, _ in models.requests]
    assert "mortgage fixed rate until" in prompts[0]
    assert prompts[1:] == ["TRUE or FALSE?", "Again?"]


NFCORPUS = ("--assay-dataset=nfcorpus", "--assay-target=python:a:b")


@pytest.mark.parametrize(
    ("fixture", "options", "words"),
    [
        ("evaluation_llm", (), "RAG_EVAL_PROVIDER"),
        ("note_mapping", (), "NEXTCLOUD_HOST, NEXTCLOUD_USERNAME, NEXTCLOUD_PASSWORD not set"),
        ("ground_truth_data", (), "--assay-ground-truth"),
        ("evaluation_llm", ("--assay-provider=extractive",), "'extractive' has no model"),
        ("mcp_sampling_client", NFCORPUS, "'python:a:b' is not an MCP server"),
        ("rag_case", NFCORPUS, "NFCORPUS_ARCHIVE"),
    ],
)
def test_what_is_not_there_is_skipped_and_named(
    run: Run, fixture: str, options: tuple[str, ...], words: str
) -> None:
    result = run(f"def test_it({fixture}): pass", *options)
    assert result.parseoutcomes().keys() == {"skipped"}
    assert words in result.stdout.str()


@pytest.mark.parametrize(
    ("fixture", "option", "words"),
    [
        ("rag_agent", "--assay-target=nonsense", "unknown target 'nonsense'"),
        ("mcp_sampling_client", "--assay-target=mcp-stdio:false", "no MCP session could be"),
        ("mcp_sampling_client", "--assay-target=builtin:x", "there is no target 'builtin:x'"),
        ("evaluation_llm", "--assay-provider=oracle", "unknown provider 'oracle'"),
        ("ground_truth_data", "--assay-ground-truth=absent.json", "absent.json: "),
        ("rag_case", "--assay-dataset=absent", "no data set 'absent'"),
    ],
)
def test_a_mistake_gets_a_message(run: Run, fixture: str, option: str, words: str) -> None:
    result = run(f"def test_it({fixture}): pass", option)
    assert result.ret != 0
    assert words in result.stdout.str()
    assert "pytest_plugin/" not in result.stdout.str(), "a traceback through our own code"


HEAVY = ("numpy", "mcp", "httpx", "pydantic", "orjson", "starlette", "Stemmer", "rich")


def test_a_project_that_happens_to_have_assay_notices_nothing(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(
        f"""
        import sys

        def test_it(pytestconfig):
            assert pytestconfig.pluginmanager.has_plugin("agent-assay")
            assert not [name for name in {HEAVY!r} if name in sys.modules]
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:asyncio", "-p", "no:schemathesis")
    result.assert_outcomes(passed=1)
    assert "evaluation of retrieval" not in result.stdout.str()
    assert not list(pytester.path.rglob("rag-report.json"))
