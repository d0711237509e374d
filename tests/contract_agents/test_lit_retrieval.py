"""LIT_RETRIEVAL: papers with what is known of them, from the index and from knowledge bases."""

from tests.contract_agents.sample_agents import Agents

QUERY = "blood pressure"


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


async def test_an_ingested_knowledge_base_is_a_database(agents: Agents) -> None:
    document = {
        "docId": "p1",
        "title": "Tea",
        "text": "Tea is steeped.",
        "metadata": {"authors": "Leaf, A.; Pot, B.", "year": "2018", "doi": "10.1/x"},
    }
    await agents.outputs("RAG_INGEST", {"documents": [document], "knowledgeBase": "lab"})
    outputs = await agents.outputs("LIT_RETRIEVAL", {"query": "tea", "databases": ["lab"]})
    (found,) = outputs["papers"]
    assert (found["year"], found["doi"], found["source"]) == (2018, "10.1/x", "lab")
    assert found["authors"] == ["Leaf, A.", "Pot, B."]


async def test_databases_are_taken_in_turns_and_unknown_ones_are_named(agents: Agents) -> None:
    document = {"docId": "p1", "title": "Tea", "text": "Tea and blood pressure."}
    await agents.outputs("RAG_INGEST", {"documents": [document], "knowledgeBase": "lab"})
    asked = {"query": QUERY, "databases": ["index", "lab", "pubmed"]}
    answer = await agents.run("LIT_RETRIEVAL", asked)
    assert [each["source"] for each in answer["outputs"]["papers"]][:2] == ["tiny", "lab"]
    assert answer["provenance"] == {"databases": ["tiny", "lab"]}
    assert answer["status"] == "degraded"
    assert answer["warnings"][0].startswith("a database was not searched")
