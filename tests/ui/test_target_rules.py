"""What strangers may have evaluated and checked, and what the user at the machine may."""

from pathlib import Path

import pytest

from assay.errors import UsageError
from assay.net.outbound import OutboundPolicy
from assay.run.config import RunConfig
from assay.serve.ui.check import TargetRules
from assay.serve.ui.context import Ui
from assay.serve.ui.evaluation_form import check_allowed
from assay.targets.target_kinds import RequestSettings

AT_HOME = TargetRules(OutboundPolicy.for_server("127.0.0.1"))
OPEN = TargetRules(OutboundPolicy.for_server("0.0.0.0", "purple-agent, tools:8000"))


@pytest.mark.parametrize(
    "target",
    ["builtin:bm25", "python:a:b", "mcp-stdio:server", "a2a:http://10.0.0.1", "http://localhost:1"],
)
def test_on_loopback_everything_may_be_evaluated(target: str) -> None:
    AT_HOME.check_target(target)


@pytest.mark.parametrize(
    "target",
    ["builtin:bm25", "a2a:http://purple-agent:9010", "http:http://tools:8000=RAG_RETRIEVE"],
)
def test_beyond_loopback_what_is_built_in_or_named_may(target: str) -> None:
    OPEN.check_target(target)


def test_beyond_loopback_only_known_data_sets_are_read() -> None:
    AT_HOME.check_dataset("/etc")
    OPEN.check_dataset("notes")
    with pytest.raises(UsageError, match="/etc"):
        OPEN.check_dataset("/etc")


@pytest.mark.parametrize(
    "judge",
    ["", "ollama", "ollama:llama3.1:8b", "anthropic", "openai:m@http://tools:8000/v1", "gguf"],
)
def test_beyond_loopback_the_server_s_own_judges_and_named_hosts_may_judge(judge: str) -> None:
    OPEN.check_judge(judge)


@pytest.mark.parametrize(
    "judge",
    ["openai:m@http://169.254.169.254/v1", "ollama:m@http://localhost:1", "gguf:/etc/passwd"],
)
def test_beyond_loopback_no_other_judge_may(judge: str) -> None:
    AT_HOME.check_judge(judge)
    with pytest.raises(UsageError):
        OPEN.check_judge(judge)


@pytest.mark.parametrize("name", ["references", "criteria", "judge_set calibration"])
def test_a_file_may_be_named_on_loopback_only(tmp_path: Path, name: str) -> None:
    """It is a path on this machine: visitors from elsewhere could read any file with it."""
    file = ("/etc/passwd",) if name == "references" else "/etc/passwd"
    given = {name: file, "judge": "ollama:m"}
    if name.startswith("judge_set"):
        given = {"judge": "ollama:m", "judge_set": "calibration=/etc/passwd"}
    config = RunConfig(target="builtin:bm25", answers=True, **given)  # type: ignore[arg-type]
    check_allowed(Ui(tmp_path, policy=AT_HOME.policy), config)
    with pytest.raises(UsageError, match=f"{name} '/etc/passwd' is a file on this server"):
        check_allowed(Ui(tmp_path, policy=OPEN.policy), config)


@pytest.mark.parametrize(
    "chosen",
    [
        {"embedder": "openai:m@http://127.0.0.1:1/v1"},
        {"embedder": "onnx:/etc"},
    ],
)
def test_visitors_choose_no_embedder(tmp_path: Path, chosen: dict[str, str]) -> None:
    """It names a file or a host, and a server's key would be sent there."""
    config = RunConfig(target="builtin:hybrid", **chosen)  # type: ignore[arg-type]
    check_allowed(Ui(tmp_path, policy=AT_HOME.policy), config)
    with pytest.raises(UsageError, match="remote visitors may not choose"):
        check_allowed(Ui(tmp_path, policy=OPEN.policy), config)


def test_visitors_read_no_file_and_no_variable_by_a_request() -> None:
    exposed = TargetRules(OutboundPolicy.for_server("0.0.0.0", "example.org"))
    local = TargetRules(OutboundPolicy.for_server("127.0.0.1"))
    exposed.check_target("rest:http://example.org/?q={query}")
    exposed.check_request(RequestSettings(headers=("X-Tenant: a",)), ["ids=hits[].id", "chunk=#"])
    for settings, mapping in [
        (RequestSettings(headers=("X-A: $ASSAY_ADMIN_TOKEN",)), []),
        (RequestSettings(body="@/etc/passwd"), []),
        (RequestSettings(), ["ids=re:(a+)+$"]),
        (RequestSettings(), ["ids= re:(a+)+$"]),
        (RequestSettings(), ["ids=hits[].id,texts=\t re:(a+)+$"]),
        (RequestSettings(), ["chunk=re:(a+)+b"]),
    ]:
        with pytest.raises(UsageError, match="server"):
            exposed.check_request(settings, mapping)
        local.check_request(settings, mapping)
    with pytest.raises(UsageError, match="read a file"):
        exposed.check_target("rest:http://example.org/?q={query}&k=${ASSAY_ADMIN_TOKEN}")
    with pytest.raises(UsageError, match="not an allowed host"):
        exposed.check_target("rest:http://other.org/?q={query}")
