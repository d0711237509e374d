"""CLAIM_VERIFY: a pass is earned, a quote occurs, and in LIVE mode doubt counts against a claim."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract_agents.sample_agents import Agents

from assay.data import load_dataset
from assay.serve.contract_agents.claim_verify import verify_claim

TEXT = (
    "Vitamin D was given to 120 adults for a year. Blood pressure did not change. "
    "Green tea lowered blood pressure by 3 mmHg, but it did not change weight. "
    "Some patients felt better. Aspirin may reduce the risk of stroke. "
    "Statins lower cholesterol."
)
TRIAL = "There were 64 men and 71 women. Participants took 40 g of soy daily."


def verdict(text: str, claim: str, needed: float = 0.9) -> str:
    found = verify_claim(claim, [("c1", text)], needed)
    assert all(each["quote"] in text for each in found["evidence"])
    return str(found["verdict"])


@pytest.mark.parametrize(
    ("text", "claim", "expected"),
    [
        (TEXT, "Blood pressure did not change.", "pass"),
        (TEXT, "Green tea lowered blood pressure.", "pass"),
        (TEXT, "Aspirin may reduce the risk of stroke.", "pass"),
        (TEXT, "Blood pressure changed.", "fail"),
        (TEXT, "Green tea lowered blood pressure by 9 mmHg.", "fail"),
        (TEXT, "Vitamin D was given to 121 adults.", "fail"),
        (TEXT, "Statins do not lower cholesterol.", "fail"),
        (TEXT, "Green tea raised blood pressure.", "unclear"),
        (TEXT, "Cholesterol lowers statins.", "unclear"),
        (TEXT, "All patients felt better.", "unclear"),
        (TEXT, "Aspirin reduces the risk of stroke.", "unclear"),
        (TEXT, "Ginger cures nausea.", "unclear"),
        ("Tea lowered weight, but pressure did not change.", "Weight did not change.", "unclear"),
        (TRIAL, "Participants took 40 g of soy daily.", "pass"),
        (TRIAL, "Participants took 71 g of soy daily.", "fail"),
        (TRIAL, "71 women took soy daily.", "unclear"),
        ("Tea lowers weight. Tea does not lower weight.", "Tea lowers weight.", "unclear"),
    ],
)
def test_verdicts(text: str, claim: str, expected: str) -> None:
    assert verdict(text, claim) == expected


NOTES = [document.text for document in list(load_dataset("notes").documents.values())[:60]]


@given(st.text(max_size=200), st.sampled_from(NOTES))
def test_whatever_is_claimed_a_quote_stands_in_its_chunk(claim: str, note: str) -> None:
    for asked in (claim, note[:80], f"not {note[:60]}"):
        assert verdict(note, asked, 0.85) in ("pass", "fail", "unclear")


PACK = {"chunks": [{"chunk_id": "c1", "doc_id": "d1", "text": TEXT, "score": 0.5}]}


def asked(*claims: Any, **more: Any) -> dict[str, Any]:
    return {"claims": list(claims), "groundingPack": PACK, **more}


@pytest.mark.parametrize(
    ("mode", "governance", "passes"),
    [
        ("DEMO", None, True),
        ("DEMO", "DEMO", True),
        ("LIVE", None, False),
        ("DEMO", "LIVE", False),
        ("DEMO", "something else", False),
    ],
)
async def test_doubt_passes_in_a_demonstration_alone(
    agents: Agents, mode: str, governance: str | None, passes: bool
) -> None:
    inputs = asked("Statins lower cholesterol.", "Ginger cures nausea.", governanceMode=governance)
    outputs = await agents.outputs("CLAIM_VERIFY", inputs, mode=mode)
    assert [each["verdict"] for each in outputs["claim_verdicts"]] == ["pass", "unclear"]
    assert outputs["overallPass"] is passes


async def test_grounding_that_was_not_read_whole_does_not_pass_live(agents: Agents) -> None:
    inputs, budgets = asked("Blood pressure did not change."), {"max_context_tokens": 25}
    demo = await agents.run("CLAIM_VERIFY", inputs, budgets=budgets)
    live = await agents.run("CLAIM_VERIFY", inputs, budgets=budgets, mode="LIVE")
    assert demo["status"] == live["status"] == "degraded"
    assert (demo["outputs"]["overallPass"], live["outputs"]["overallPass"]) == (True, False)
    whole = await agents.run("CLAIM_VERIFY", inputs, budgets={"max_context_tokens": 500})
    assert whole["status"] == "ok"
