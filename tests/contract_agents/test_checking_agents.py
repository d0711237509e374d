"""CLAIM_VERIFY: a pass is earned, a quote occurs. POLICY_REVIEW: readable rules, nothing quoted."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract_agents.sample_agents import Agents

from assay.data import load_dataset
from assay.serve.contract_agents.checking_agents import phi_kinds, rules_for, verify_claim

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


FOUND = [
    ("write to jane.roe+x@mail.example.co.uk today", "email address"),
    ("SSN 123-45-6789", "social security number"),
    ("social security no. 123 45 6789", "social security number"),
    ("call 555-123-4567 now", "phone number"),
    ("+49 761 203 5432", "phone number"),
    ("Tel: 0761/2035432", "phone number"),
    ("MRN: 00123456", "medical record number"),
    ("patient id A-44321", "medical record number"),
    ("member ID: XYZ123456", "health plan number"),
    ("DOB 03/14/1962", "date of birth"),
    ("date of birth: 1962-03-14", "date of birth"),
    ("born on 14 March 1962", "date of birth"),
    ("born March 14, 1962", "date of birth"),
    ("card 4111 1111 1111 1111", "payment card number"),
    ("from 192.168.17.4", "network address"),
]

NOT_FOUND = [
    "Statins lowered cholesterol by 12.5% in 1,200 adults (95% CI 10-15).",
    "PMID 25329299, doi 10.1000/182, published 2014-10-20",
    "Between 1990-2000 and 2001-2010 there were 3000-4000 cases.",
    "MED-1234 and PLAIN-3321, ISBN 978-3-16-148410-0",
    "It was born of need in 1962.",
    "omega-3 1000 mg twice a day for 12-24 weeks",
    "p < 0.001; OR 1.23 (1.10, 1.37); n = 100 200 300",
]


@pytest.mark.parametrize(("text", "kind"), FOUND)
def test_what_has_the_form_of_protected_information_is_found(text: str, kind: str) -> None:
    assert kind in phi_kinds({"note": {"deep": [text]}})


@pytest.mark.parametrize("text", NOT_FOUND)
def test_what_has_not_is_left_alone(text: str) -> None:
    assert phi_kinds(text) == []


def test_a_label_may_be_a_key() -> None:
    assert phi_kinds({"mrn": 12345678}) == ["medical record number"]
    assert phi_kinds({"date_of_birth": "1962-03-14"}) == ["date of birth"]
    assert phi_kinds({"x@example.org": True}) == ["email address"]


@pytest.mark.parametrize(
    ("mode", "tier", "domain", "kinds", "rules"),
    [
        ("DEMO", "NON_SENSITIVE", "clinical", (), "non-sensitive"),
        ("live", "sensitive", "clinical", (), "sensitive"),
        ("LIVE", "PHI", "clinical", (), "phi-live"),
        ("DEMO", "PHI", "clinical", (), "phi-in-demo"),
        ("LIVE", "NON_SENSITIVE", "clinical", ("phone number",), "phi-undeclared"),
        ("LIVE", "PHI", "clinical", ("social security number",), "ssn-never phi-live"),
        ("TEST", "NON_SENSITIVE", "clinical", (), "unknown-mode non-sensitive"),
        ("DEMO", "SECRET", "clinical", (), "unknown-tier"),
        ("LIVE", "NON_SENSITIVE", "astrology", (), "unknown-domain non-sensitive"),
    ],
)
def test_rules(mode: str, tier: str, domain: str, kinds: tuple[str, ...], rules: str) -> None:
    assert [rule["id"] for rule in rules_for(mode, tier, domain, kinds)] == rules.split()


async def test_what_was_found_is_named_by_kind_and_never_quoted(agents: Agents) -> None:
    inputs = {"resourceId": "r1", "notes": ["ask jane.roe@example.org, DOB 03/14/1962"]}
    told = await agents.stream("POLICY_REVIEW", inputs)
    outputs = told[-1]["outputs"]
    assert outputs["allowed"] is False
    assert told[-1]["provenance"] == {"policy_version": "1", "rules": ["phi-undeclared"]}
    assert outputs["reasons"][-1] == "found in the inputs: email address, date of birth"
    assert "jane" not in str(told)
    assert "1962" not in str(told)
    assert [event["step"] for event in told[1:-1]] == ["inputs searched", "decided"]
