"""POLICY_REVIEW: readable rules, protected information found by its form, and never quoted."""

from pathlib import Path

import pytest
from tests.contract_agents.sample_agents import Agents

from assay.errors import UsageError
from assay.serve.contract_agents.policy_review import Policy, read_policy


@pytest.fixture(scope="module")
def policy() -> Policy:
    return read_policy()


FOUND = [
    ("write to jane.roe+x@mail.example.co.uk today", "email address"),
    ("SSN 123-45-6789", "social security number"),
    ("social security no. 123 45 6789", "social security number"),
    ("call (555) 123-4567", "phone number"),
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
    "version 1.2.3.4567 of the tool",
    "It was born of need in 1962.",
    "omega-3 1000 mg twice a day for 12-24 weeks",
    "p < 0.001; OR 1.23 (1.10, 1.37); n = 100 200 300",
    "the social security system of 1935",
    "2024-01-31T12:34:56Z",
]


@pytest.mark.parametrize(("text", "kind"), FOUND)
def test_what_has_the_form_of_protected_information_is_found(
    policy: Policy, text: str, kind: str
) -> None:
    assert kind in policy.phi_kinds({"note": {"deep": [text]}})


@pytest.mark.parametrize("text", NOT_FOUND)
def test_what_has_not_is_left_alone(policy: Policy, text: str) -> None:
    assert policy.phi_kinds(text) == []


def test_a_label_may_be_a_key(policy: Policy) -> None:
    assert policy.phi_kinds({"mrn": 12345678}) == ["medical record number"]
    assert policy.phi_kinds({"date_of_birth": "1962-03-14"}) == ["date of birth"]
    assert policy.phi_kinds({"x@example.org": True}) == ["email address"]


DECISIONS = [
    ("DEMO", "NON_SENSITIVE", (), True, "low", ["non-sensitive"]),
    ("LIVE", "NON_SENSITIVE", (), True, "low", ["non-sensitive"]),
    ("live", "sensitive", (), True, "medium", ["sensitive"]),
    ("LIVE", "PHI", (), True, "high", ["phi-live"]),
    ("LIVE", "PHI", ("email address",), True, "high", ["phi-live"]),
    ("DEMO", "PHI", (), False, "high", ["phi-in-demo"]),
    ("LIVE", "NON_SENSITIVE", ("phone number",), False, "high", ["phi-undeclared"]),
    ("LIVE", "SENSITIVE", ("phone number",), False, "high", ["phi-undeclared"]),
    ("LIVE", "PHI", ("social security number",), False, "high", ["ssn-never", "phi-live"]),
    ("TEST", "NON_SENSITIVE", (), False, "high", ["unknown-mode", "non-sensitive"]),
    ("DEMO", "SECRET", (), False, "high", ["unknown-tier"]),
]


@pytest.mark.parametrize(("mode", "tier", "kinds", "allowed", "level", "rules"), DECISIONS)
def test_the_rules_decide(
    policy: Policy,
    mode: str,
    tier: str,
    kinds: tuple[str, ...],
    allowed: bool,
    level: str,
    rules: list[str],
) -> None:
    decision = policy.decide(mode, tier, "clinical", kinds)
    assert (decision.allowed, decision.risk_level) == (allowed, level)
    assert decision.rules == rules


def test_a_domain_that_no_rule_knows_is_not_allowed(policy: Policy) -> None:
    decision = policy.decide("LIVE", "NON_SENSITIVE", "astrology", ())
    assert not decision.allowed
    assert "unknown-domain" in decision.rules


async def test_the_agent_says_what_it_decided_and_why(agents: Agents) -> None:
    answer = await agents.run("POLICY_REVIEW", {"resource_id": "set-1", "domain": "clinical"})
    assert answer["outputs"] == {
        "resource_id": "set-1",
        "domain": "clinical",
        "allowed": True,
        "reasons": ["non-sensitive: Material that is not sensitive."],
        "risk_level": "low",
    }
    assert answer["provenance"] == {"policy_version": "1", "rules": ["non-sensitive"]}


async def test_what_was_found_is_named_by_kind_and_never_quoted(agents: Agents) -> None:
    inputs = {"resourceId": "r1", "notes": ["ask jane.roe@example.org, DOB 03/14/1962"]}
    told = await agents.stream("POLICY_REVIEW", inputs)
    outputs = told[-1]["outputs"]
    assert outputs["allowed"] is False
    assert outputs["reasons"][-1] == "found in the inputs: email address, date of birth"
    assert "jane" not in str(told)
    assert "1962" not in str(told)
    assert [event["step"] for event in told[1:-1]] == ["inputs searched", "decided"]


async def test_the_resource_may_be_named_inside_and_is_denied_without_a_name(
    agents: Agents,
) -> None:
    outputs = await agents.outputs("POLICY_REVIEW", {"resource": {"id": "deep"}})
    assert (outputs["resource_id"], outputs["domain"]) == ("deep", "clinical")
    answer = await agents.run("POLICY_REVIEW", {"resource": {}})
    assert (answer["status"], answer["artifacts"]) == ("ok", [])
    unnamed = answer["outputs"]
    assert (unnamed["resource_id"], unnamed["allowed"]) == ("unnamed", False)
    assert unnamed["reasons"][0].startswith("inputs.resource_id is missing")


RULE = '[[rules]]\nid = "a"\ndecision = "allow"\nrisk_level = "low"\nreason = "All is well."\n'


def test_rules_of_one_s_own_replace_the_built_in_ones(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(f'version = "7"\nphi = []\n{RULE}when = {{ domain = ["zoo"] }}\n')
    policy = read_policy(path)
    assert policy.version == "7"
    assert policy.decide("X", "Y", "Zoo", ()).allowed
    nothing = policy.decide("X", "Y", "clinical", ())
    assert (nothing.allowed, nothing.risk_level) == (False, "high")
    assert nothing.reasons == ["no rule applies to this request, so it is not allowed"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version = ", "are not TOML"),
        ('version = "1"\nphi = []\n', "rules is missing"),
        (f'version = "1"\nphi = []\n{RULE}when = {{ moon = "full" }}\n', "rules.0.when"),
        (f'version = "1"\nphi = [{{ kind = "k", pattern = "(" }}]\n{RULE}', "phi.0.pattern"),
        (f'version = "1"\nphi = []\n{RULE.replace("allow", "maybe")}', "rules.0.decision"),
    ],
)
def test_a_file_that_is_wrong_is_refused_at_the_start(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_policy(path)
    with pytest.raises(UsageError, match="cannot read the policy rules"):
        read_policy(tmp_path / "none.toml")
