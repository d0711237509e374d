"""CLAIM_VERIFY: a pass is earned, a quote occurs, and in LIVE mode doubt counts against a claim."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract_agents.sample_agents import Agents

from assay.data import load_dataset
from assay.serve.contract_agents import claim_evidence
from assay.serve.contract_agents.claim_evidence import (
    STRICTNESS,
    EvidenceBase,
    Statement,
    read_statement,
)

TEXT = (
    "Vitamin D was given to 120 adults for a year. Blood pressure did not change. "
    "Green tea lowered blood pressure by 3 mmHg, but it did not change weight. "
    "Some patients felt better. Aspirin may reduce the risk of stroke. "
    "Statins lower cholesterol. Coffee raised heart rate before noon."
)

VERDICTS = [
    ("Blood pressure did not change.", "pass"),
    ("Vitamin D was given for a year.", "pass"),
    ("Vitamin D was given to 120 adults.", "pass"),
    ("Green tea lowered blood pressure.", "pass"),
    ("Green tea reduced blood pressure by 3 mmHg.", "pass"),
    ("It did not change weight.", "pass"),
    ("Statins reduce cholesterol", "pass"),
    ("Aspirin may reduce the risk of stroke.", "pass"),
    ("Blood pressure changed.", "fail"),
    ("Green tea raised blood pressure.", "fail"),
    ("Green tea lowered blood pressure by 9 mmHg.", "fail"),
    ("Vitamin D was given to 121 adults.", "fail"),
    ("Statins increase cholesterol.", "fail"),
    ("Statins do not lower cholesterol.", "fail"),
    ("It changed weight", "fail"),
    ("Coffee raised heart rate after noon.", "fail"),
    ("Cholesterol lowers statins.", "unclear"),
    ("All patients felt better.", "unclear"),
    ("Aspirin reduces the risk of stroke.", "unclear"),
    ("Ginger cures nausea.", "unclear"),
    ("It is so.", "unclear"),
    ("Green tea did not change weight.", "unclear"),
    ("Green tea changed weight.", "unclear"),
    ("Vitamin D was given to 120 adults for 2 years.", "unclear"),
]


@pytest.mark.parametrize(("claim", "verdict"), VERDICTS)
def test_verdicts(claim: str, verdict: str) -> None:
    finding = EvidenceBase([("c1", TEXT)]).check(claim, STRICTNESS["normal"])
    assert finding.verdict == verdict, finding
    assert all(evidence.quote in TEXT for evidence in finding.evidence)
    assert bool(finding.evidence) == (verdict != "unclear")


def test_terms_are_looked_up_and_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unsearchable(tuple[str, ...]):
        def __contains__(self, term: object) -> bool:
            raise AssertionError(f"every term of a text was compared with {term!r}")

    def read(text: str) -> Statement:
        found = read_statement(text)
        return replace(found, terms=Unsearchable(found.terms))

    monkeypatch.setattr(claim_evidence, "read_statement", read)
    base = EvidenceBase([("c1", TEXT)])
    for claim, verdict in VERDICTS:
        assert base.check(claim, STRICTNESS["normal"]).verdict == verdict


def test_chunks_that_disagree_leave_a_claim_unclear() -> None:
    base = EvidenceBase([("a", "Tea lowers blood pressure."), ("b", "Tea raises blood pressure.")])
    finding = base.check("Tea lowers blood pressure.", 0.8)
    assert finding.verdict == "unclear"
    assert {each.chunk_id for each in finding.evidence} == {"a", "b"}


def test_a_claim_may_be_borne_out_by_two_sentences_that_follow_each_other() -> None:
    text = "The trial had 80 participants. They took fish oil for six months."
    finding = EvidenceBase([("c", text)]).check("80 participants took fish oil.", 0.8)
    assert finding.verdict == "pass"
    assert finding.evidence[0].quote == text


def test_a_number_of_the_next_sentence_bears_nothing_out() -> None:
    text = "There were 64 men and 71 women. Participants were assigned to take 40 g of soy daily."
    base = EvidenceBase([("c", text)])
    claim = "Participants were assigned to take {} g of soy daily."
    assert base.check(claim.format(40), 0.8).verdict == "pass"
    assert base.check(claim.format(71), 0.8).verdict == "fail"


def test_strictness_is_the_share_of_words_that_must_occur() -> None:
    base = EvidenceBase([("c", "Walking daily improves sleep and mood in adults.")])
    claim = "Walking daily improves sleep and mood greatly in adults."
    verdicts = {name: base.check(claim, share).verdict for name, share in STRICTNESS.items()}
    assert verdicts == {"lenient": "pass", "normal": "pass", "strict": "unclear"}


NOTES = [
    (document.id, document.text) for document in list(load_dataset("notes").documents.values())[:60]
]


@given(st.text(max_size=200), st.sampled_from(NOTES))
def test_whatever_is_claimed_a_quote_stands_in_its_chunk(claim: str, note: tuple[str, str]) -> None:
    base = EvidenceBase([note])
    for asked in (claim, note[1][:80], f"not {note[1][:60]}"):
        for evidence in base.check(asked, 0.7).evidence:
            assert evidence.quote in note[1]


def test_a_changed_number_never_passes() -> None:
    """Every sentence of the notes that has a number of three or four digits."""
    tried = 0
    for note in NOTES:
        base = EvidenceBase([note])
        for sentence in re.findall(r"[A-Z][^.!?\n]*\b\d{3,4}\b[^.!?\n]*[.!?]", note[1]):
            changed = re.sub(r"\b\d{3,4}\b", "98765", sentence)
            assert base.check(changed, 0.7).verdict != "pass", changed
            tried += 1
    assert tried >= 10


PACK = {"chunks": [{"chunk_id": "c1", "doc_id": "d1", "text": TEXT, "score": 0.5}]}


def asked(*claims: Any, **more: Any) -> dict[str, Any]:
    return {"claims": list(claims), "groundingPack": PACK, **more}


async def test_outputs_have_the_shape_that_callers_rely_on(agents: Agents) -> None:
    outputs = await agents.outputs(
        "CLAIM_VERIFY", asked("Blood pressure did not change.", {"claim": "Statins raise it."})
    )
    first, second = outputs["claim_verdicts"]
    assert first == {
        "claim": "Blood pressure did not change.",
        "verdict": "pass",
        "evidence": [{"chunkId": "c1", "quote": "Blood pressure did not change."}],
        "reason": "the grounding supports it",
    }
    assert (second["claim"], second["evidence"]) == ("Statins raise it.", [])
    assert outputs["overallPass"] is True


@pytest.mark.parametrize(
    ("mode", "governance", "passes"),
    [
        ("DEMO", None, True),
        ("DEMO", "DEMO", True),
        ("LIVE", None, False),
        ("DEMO", "LIVE", False),
        ("LIVE", "DEMO", False),
        ("DEMO", "something else", False),
    ],
)
async def test_doubt_counts_against_a_claim_everywhere_but_in_a_demonstration(
    agents: Agents, mode: str, governance: str | None, passes: bool
) -> None:
    inputs = asked("Statins lower cholesterol.", "Ginger cures nausea.", governanceMode=governance)
    outputs = await agents.outputs("CLAIM_VERIFY", inputs, mode=mode)
    assert [each["verdict"] for each in outputs["claim_verdicts"]] == ["pass", "unclear"]
    assert outputs["overallPass"] is passes


async def test_a_claim_that_fails_fails_the_whole_in_any_mode(agents: Agents) -> None:
    outputs = await agents.outputs("CLAIM_VERIFY", asked("Statins increase cholesterol."))
    assert outputs["overallPass"] is False


async def test_without_grounding_nothing_passes_live(agents: Agents) -> None:
    inputs = {"claims": ["Statins lower cholesterol."], "groundingPack": {}}
    outputs = await agents.outputs("CLAIM_VERIFY", inputs, mode="LIVE")
    assert outputs["claim_verdicts"][0]["verdict"] == "unclear"
    assert outputs["overallPass"] is False


async def test_grounding_that_was_not_read_whole_does_not_pass_live(agents: Agents) -> None:
    inputs, budgets = asked("Blood pressure did not change."), {"max_context_tokens": 25}
    demo = await agents.run("CLAIM_VERIFY", inputs, budgets=budgets)
    live = await agents.run("CLAIM_VERIFY", inputs, budgets=budgets, mode="LIVE")
    assert demo["status"] == live["status"] == "degraded"
    assert demo["outputs"]["claim_verdicts"][0]["verdict"] == "pass"
    assert (demo["outputs"]["overallPass"], live["outputs"]["overallPass"]) == (True, False)
    whole = await agents.run("CLAIM_VERIFY", inputs, budgets={"max_context_tokens": 500})
    assert whole["status"] == "ok"


async def test_sources_serve_where_there_are_no_chunks(agents: Agents) -> None:
    pack = {"sources": [{"id": "s1", "doc_id": "d", "text": TEXT}]}
    inputs = {"claims": ["Statins lower cholesterol."], "groundingPack": pack}
    outputs = await agents.outputs("CLAIM_VERIFY", inputs)
    assert outputs["claim_verdicts"][0]["evidence"][0]["chunkId"] == "s1"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"groundingPack": PACK}, "inputs.claims is missing"),
        ({"claims": ["x"]}, "inputs.groundingPack is missing"),
        ({"claims": [7], "groundingPack": PACK}, "inputs.claims.0 should be a string"),
        ({"claims": [{"x": "secret"}], "groundingPack": PACK}, "inputs.claims.0"),
        (asked("x", strictness="secret"), "inputs.strictness should be"),
    ],
)
async def test_wrong_inputs_are_named(agents: Agents, inputs: dict[str, Any], message: str) -> None:
    answer = await agents.run("CLAIM_VERIFY", inputs)
    assert answer["error"]["code"] == "VALIDATION_ERROR"
    assert message in answer["error"]["message"]
    assert "secret" not in str(answer)


async def test_the_stream_tells_each_claim_that_was_checked(agents: Agents) -> None:
    told = await agents.stream("CLAIM_VERIFY", asked("Statins lower cholesterol.", "Tea."))
    steps = [(event["step"], event.get("claims")) for event in told[1:-1]]
    assert steps == [("grounding read", None), ("checked", 1), ("checked", 2)]
