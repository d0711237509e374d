"""What runs are called in a comparison: by what differs between them."""

from typing import Any

import pytest

from assay.run.listing import described_settings, distinguish
from assay.run.models import RunHeader


def header(
    target: str = "builtin:bm25", config: dict[str, Any] | None = None, **changes: Any
) -> RunHeader:
    values: dict[str, Any] = {
        "started": "2026-11-15T08:30:00+00:00",
        "process": 1,
        "config": {"target": target, **(config or {})},
        "target": {"name": target, "protocol": "builtin", "details": ""},
        "track": "zero-shot",
        "dataset": {"name": "notes", "fingerprint": "f"},
        "versions": {"agent-assay": "0.2.0"},
    }
    return RunHeader.model_validate({**values, **changes})


def git(branch: str, commit: str = "a" * 40, dirty: bool = False) -> dict[str, Any]:
    return {"branch": branch, "commit": commit, "dirty": dirty}


@pytest.mark.parametrize(
    ("headers", "names"),
    [
        (
            [header(label="old", git=git("main")), header(label="new", git=git("x", "b" * 40))],
            ["builtin:bm25 (old, main)", "builtin:bm25 (new, x)"],
        ),
        (
            [header(), header(config={"bm25": ["b=0.4"], "top_k": 10})],
            ["builtin:bm25 (--top-k 5)", "builtin:bm25 (--top-k 10, --bm25 b=0.4)"],
        ),
        (  # what changes no score, and what the agent cost
            [
                header(
                    config={"compare_to": "main", "fail_on_regression": True},
                    label="a",
                    tags={"cost_usd": "1"},
                ),
                header(label="b", tags={"cost_usd": "2"}),
            ],
            ["builtin:bm25 (a)", "builtin:bm25 (b)"],
        ),
        (
            [
                header(tags={"chunks": "256"}, retriever={"fusion": "rrf"}),
                header(tags={"chunks": "512"}, retriever={"fusion": "zscore"}),
            ],
            ["builtin:bm25 (chunks=256, fusion rrf)", "builtin:bm25 (chunks=512, fusion zscore)"],
        ),
        (
            [header(git=git("main", "a" * 40)), header(git=git("main", "b" * 40, dirty=True))],
            ["builtin:bm25 (aaaaaaaa)", "builtin:bm25 (bbbbbbbb with changes)"],
        ),
        (  # only those that need it get a time
            [header("purple:hybrid"), header(), header(started="2026-11-15T09:00:00+00:00")],
            [
                "purple:hybrid",
                "builtin:bm25 (2026-11-15 08:30:00)",
                "builtin:bm25 (2026-11-15 09:00:00)",
            ],
        ),
    ],
)
def test_runs_are_called_by_what_differs_between_them(
    headers: list[RunHeader], names: list[str]
) -> None:
    assert distinguish(headers) == names


def test_what_may_change_a_score_is_described_and_nothing_else() -> None:
    one = header(config={"bm25": ["k1=0.9"], "concurrency": 3}, retriever={"mode": "bm25"})
    found = described_settings(one)
    assert found["bm25"] == "--bm25 k1=0.9"
    assert found["retriever mode"] == "mode bm25"
    assert found["assay"] == "assay 0.2.0"
    assert not {"concurrency", "label", "top_k"} & set(found)
