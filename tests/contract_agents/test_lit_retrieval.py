"""LIT_RETRIEVAL: papers with what is known of them, from the index and from PubMed."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.contract_agents.eutils import Eutils
from tests.contract_agents.sample_agents import Agents, make_resources, running_agents
from tests.serve.serving import serving

from assay.data import Document
from assay.serve.contract_agents.pubmed import Paper, PubMed, PubMedError, interleave, pmid_in

QUERY = "blood pressure"
BOTH = ["index", "pubmed"]


@pytest.fixture
def eutils() -> Eutils:
    return Eutils()


@pytest.fixture
async def with_pubmed(eutils: Eutils, tmp_path: Path) -> AsyncIterator[Agents]:
    async with (
        serving(eutils.app) as url,
        running_agents(make_resources(tmp_path / "bases", pubmed=f"{url}/eutils")) as agents,
    ):
        yield agents


async def test_a_paper_has_what_is_known_of_it_and_nothing_else(agents: Agents) -> None:
    outputs = await agents.outputs("LIT_RETRIEVAL", {"query": "vitamin D", "max_results": 1})
    assert outputs.pop("duration_ms") >= 0
    assert outputs == {
        "count": 1,
        "papers": [
            {
                "title": "Vitamin D and blood pressure",
                "abstract": "Vitamin D was given for a year. Blood pressure did not change.",
                "year": 2019,
                "pmid": "25329299",
                "source": "tiny",
                "url": "http://www.ncbi.nlm.nih.gov/pubmed/25329299",
                "doc_id": "MED-1",
            }
        ],
    }


async def test_the_abstract_is_whole_although_a_chunk_was_found(tmp_path: Path) -> None:
    long = Document("L", "Long", "Onions come first. " * 200 + "Saffron comes last.")
    resources = make_resources(tmp_path, documents=[long])
    async with running_agents(resources) as agents:
        outputs = await agents.outputs("LIT_RETRIEVAL", {"query": "saffron"})
    assert outputs["papers"][0]["abstract"] == long.text


async def test_an_ingested_knowledge_base_is_a_database(agents: Agents) -> None:
    document = {
        "docId": "p1",
        "title": "Tea",
        "text": "Tea is steeped.",
        "metadata": {"authors": "Leaf, A.; Pot, B.", "date": "2018-03-01", "doi": "10.1/x"},
    }
    await agents.outputs("RAG_INGEST", {"documents": [document], "knowledgeBase": "lab"})
    outputs = await agents.outputs("LIT_RETRIEVAL", {"query": "tea", "databases": ["lab"]})
    (found,) = outputs["papers"]
    assert (found["year"], found["doi"], found["source"]) == (2018, "10.1/x", "lab")
    assert found["authors"] == ["Leaf, A.", "Pot, B."]


async def test_pubmed_is_asked_only_where_it_is_named(with_pubmed: Agents, eutils: Eutils) -> None:
    await with_pubmed.outputs("LIT_RETRIEVAL", {"query": QUERY})
    assert eutils.asked == []
    outputs = await with_pubmed.outputs(
        "LIT_RETRIEVAL", {"query": QUERY, "databases": ["pubmed"], "max_results": 7}
    )
    assert outputs["papers"][0] == {
        "title": "Effects of Camellia sinensis on blood pressure.",
        "abstract": "METHODS: Adults drank tea. RESULTS: Pressure fell by 3 <mmHg>.",
        "authors": ["Ada Leaf", "The Tea Group"],
        "year": 2020,
        "journal": "Journal of Teas",
        "doi": "10.1000/tea.1",
        "pmid": "111",
        "source": "pubmed",
        "url": "https://pubmed.ncbi.nlm.nih.gov/111/",
    }
    search, fetch = eutils.asked
    assert (search["term"], search["retmax"], search["db"]) == ([QUERY], ["7"], ["pubmed"])
    assert fetch["id"] == ["111,25329299"]


async def test_what_both_have_stands_once(with_pubmed: Agents) -> None:
    outputs = await with_pubmed.outputs("LIT_RETRIEVAL", {"query": QUERY, "databases": BOTH})
    pmids = [paper.get("pmid") for paper in outputs["papers"]]
    assert pmids.count("25329299") == 1
    assert {paper["source"] for paper in outputs["papers"]} == {"tiny", "pubmed"}


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        (QUERY, {"risk_tier": "PHI"}),
        (QUERY, {"risk_tier": "SENSITIVE"}),
        ("blood pressure of jane.roe@example.org", {}),
        ("patient MRN 1234567", {}),
    ],
)
async def test_what_may_be_about_a_patient_does_not_leave_the_house(
    with_pubmed: Agents, eutils: Eutils, query: str, fields: dict[str, str]
) -> None:
    answer = await with_pubmed.run("LIT_RETRIEVAL", {"query": query, "databases": BOTH}, **fields)
    assert eutils.asked == []
    assert answer["status"] == "degraded"
    assert answer["warnings"][0].startswith("PubMed was not queried")
    assert answer["provenance"] == {"databases": ["tiny"]}


async def test_without_pubmed_the_rest_is_still_given(agents: Agents) -> None:
    """Nothing listens where these agents look for PubMed."""
    answer = await agents.run("LIT_RETRIEVAL", {"query": QUERY, "databases": BOTH})
    assert answer["status"] == "degraded"
    assert answer["outputs"]["count"] == 3
    assert "PubMed could not be reached" in answer["warnings"][0]
    alone = await agents.run("LIT_RETRIEVAL", {"query": QUERY, "databases": ["pubmed"]})
    assert alone["error"]["code"] == "TASK_FAILED"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": 429}, "too many requests"),
        ({"status": 500}, "HTTP 500"),
        ({"search_body": ["?"]}, "response to the search has no list of ids"),
        ({"search_body": {"error": "x"}}, "response to the search has no list of ids"),
        ({"records": "<html>"}, "records are not valid XML"),
    ],
)
async def test_each_way_in_which_pubmed_fails_has_its_words(
    eutils: Eutils, change: dict[str, Any], message: str
) -> None:
    for name, value in change.items():
        setattr(eutils, name, value)
    async with serving(eutils.app) as url, aclosing(PubMed(f"{url}/eutils")) as pubmed:
        with pytest.raises(PubMedError, match=message):
            await pubmed.search("jane roe", 5)


async def test_the_address_and_the_key_come_from_the_environment(
    eutils: Eutils, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(eutils.app) as url:
        monkeypatch.setenv("ASSAY_PUBMED_URL", f"{url}/eutils/")
        monkeypatch.setenv("NCBI_API_KEY", "k3y")
        async with aclosing(PubMed()) as pubmed:
            assert [each.pmid for each in await pubmed.search("tea", 5)] == ["111", "25329299"]
    assert eutils.asked[0]["api_key"] == ["k3y"]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"query": "x" * 1001}, "inputs.query is too long"),
        ({"query": "x", "max_results": 201}, "inputs.max_results should be less than"),
        ({"query": "x", "databases": []}, "inputs.databases"),
        ({"query": "x", "databases": "pubmed"}, "inputs.databases should be a list"),
    ],
)
async def test_wrong_inputs_are_named(agents: Agents, inputs: dict[str, Any], message: str) -> None:
    answer = await agents.run("LIT_RETRIEVAL", inputs)
    assert answer["error"]["code"] == "VALIDATION_ERROR"
    assert message in answer["error"]["message"]


async def test_a_database_that_does_not_exist_is_a_failure(agents: Agents) -> None:
    answer = await agents.run("LIT_RETRIEVAL", {"query": "x", "databases": ["scopus"]})
    assert answer["error"]["code"] == "TASK_FAILED"


async def test_a_context_budget_leaves_papers_out(agents: Agents) -> None:
    answer = await agents.run("LIT_RETRIEVAL", {"query": QUERY}, budgets={"max_context_tokens": 30})
    assert answer["status"] == "degraded"
    assert answer["outputs"]["count"] == 1
    assert answer["warnings"] == ["budgets.max_context_tokens: 2 papers were left out"]


@pytest.mark.parametrize(
    ("url", "pmid"),
    [
        ("http://www.ncbi.nlm.nih.gov/pubmed/20435081%20", "20435081"),
        ("https://pubmed.ncbi.nlm.nih.gov/7/", "7"),
        ("https://example.org/pubmed/7", None),
        (None, None),
    ],
)
def test_an_address_of_pubmed_names_its_paper(url: str | None, pmid: str | None) -> None:
    assert pmid_in(url) == pmid


def test_lists_are_taken_in_turns() -> None:
    def named(*ids: str) -> list[Paper]:
        return [Paper(i, "", "s", doc_id=i) for i in ids]

    merged = interleave([named("a", "b", "c"), named("x", "b")], 4)
    assert [each.doc_id for each in merged] == ["a", "x", "b", "c"]
