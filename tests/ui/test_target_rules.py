"""What strangers may have evaluated from the pages, and what the user at the machine may."""

from typing import Any

import pytest

from assay.net.outbound import OutboundPolicy
from assay.run.config import RunConfig
from assay.serve.ui.evaluate import config_problems

AT_HOME = OutboundPolicy.for_server("127.0.0.1")
EXPOSED = OutboundPolicy.for_server("0.0.0.0", "purple-agent, tools:8000, example.org")
REST = "rest:http://example.org/?q={query}"


def refused(policy: OutboundPolicy, **settings: Any) -> set[str]:
    """The fields of the form whose checks fail."""
    config = RunConfig(**{"target": "builtin:bm25", **settings})
    return {name for name, problem in config_problems(config, policy) if problem}


@pytest.mark.parametrize(
    "target",
    ["python:a:b", "mcp-stdio:server", "a2a:http://10.0.0.1", "http://localhost:1"],
)
def test_only_on_loopback_everything_may_be_evaluated(target: str) -> None:
    assert refused(AT_HOME, target=target) == set()
    assert refused(EXPOSED, target=target) == {"target"}
    assert refused(EXPOSED, baseline=target) == {"baseline"}
    assert refused(EXPOSED, search=target) == {"search"}


@pytest.mark.parametrize(
    "settings",
    [
        {"target": "a2a:http://purple-agent:9010"},
        {"target": "http:http://tools:8000=RAG_RETRIEVE"},
        {"target": REST, "headers": ("X-Tenant: a",), "mapping": ("ids=hits[].id",)},
        {"dataset": "notes", "compare_to": "main"},
        *({"judge": judge, "answers": True} for judge in ("", "ollama", "gguf", "anthropic")),
        {"judge": "openai:m@http://tools:8000/v1", "answers": True},
    ],
)
def test_strangers_may_use_what_is_built_in_or_named(settings: dict[str, Any]) -> None:
    assert refused(EXPOSED, **settings) <= {"judge"}  # of which no model may be installed here
    assert refused(EXPOSED, **settings) == refused(AT_HOME, **settings)


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("dataset", {"dataset": "/etc"}),
        ("judge", {"judge": "openai:m@http://169.254.169.254/v1", "answers": True}),
        ("judge", {"judge": "gguf:/etc/passwd", "answers": True}),
        ("references", {"references": ("/etc/passwd",), "answers": True}),
        ("criteria", {"criteria": "/etc/passwd", "answers": True, "judge": "ollama:m"}),
        ("faithfulness", {"faithfulness": "onnx:/etc", "answers": True}),
        ("searches", {"searches": "/var/log/steps.jsonl"}),
        ("compare_to", {"compare_to": "../other/run"}),
        ("embedder", {"target": "builtin:hybrid", "embedder": "openai:m@http://127.0.0.1:1/v1"}),
        ("request", {"target": REST, "headers": ("X-A: $ASSAY_ADMIN_TOKEN",)}),
        ("request", {"target": REST, "request": "@/etc/passwd"}),
        ("mapping", {"target": REST, "mapping": ("ids=hits[].id,texts=\t re:(a+)+$",)}),
        ("mapping", {"target": REST, "mapping": ("chunk=re:(a+)+b",)}),
        ("target", {"target": "rest:http://example.org/?q={query}&k=${ASSAY_ADMIN_TOKEN}"}),
        ("target", {"target": "rest:http://other.org/?q={query}"}),
        (
            "judge_set",
            {"judge": "ollama:m", "judge_set": "calibration=/etc/passwd", "answers": True},
        ),
    ],
)
def test_strangers_name_no_file_host_or_code(field: str, settings: dict[str, Any]) -> None:
    assert field in refused(EXPOSED, **settings) - refused(AT_HOME, **settings)
