"""What runs are called in a comparison: by what differs between them."""

from typing import Any

from assay.run.models import RunHeader
from assay.run.title import comparison_title, described_settings, distinguish


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


def test_different_targets_need_no_more() -> None:
    names = distinguish([header("builtin:bm25"), header("purple:hybrid")])
    assert names == ["builtin:bm25", "purple:hybrid"]
    assert comparison_title(names) == "purple:hybrid against builtin:bm25"


def test_labels_and_branches_come_first() -> None:
    names = distinguish(
        [header(label="old", git=git("main")), header(label="new", git=git("feature/x", "b" * 40))]
    )
    assert names == ["builtin:bm25 (old, main)", "builtin:bm25 (new, feature/x)"]


def test_what_is_the_same_is_not_said() -> None:
    names = distinguish([header(label="a", git=git("main")), header(label="b", git=git("main"))])
    assert names == ["builtin:bm25 (a)", "builtin:bm25 (b)"]


def test_settings_are_named_by_their_options() -> None:
    names = distinguish([header(), header(config={"bm25": ["b=0.4"], "top_k": 10})])
    assert names[1] == "builtin:bm25 (--top-k 10, --bm25 b=0.4)"
    assert names[0].startswith("builtin:bm25 (--top-k 5")


def test_what_changes_no_score_is_not_said() -> None:
    first = header(config={"allow_first_run": True, "compare_to": "main"}, label="a")
    assert distinguish([first, header(label="b")]) == ["builtin:bm25 (a)", "builtin:bm25 (b)"]


def test_settings_of_different_targets_are_left_out() -> None:
    rest = header("rest:http://x", {"mapping": ["ids=hits[].id"]})
    assert distinguish([header(), rest]) == ["builtin:bm25", "rest:http://x"]


def test_what_a_run_cost_is_a_figure_and_no_name() -> None:
    runs = [header(label=label, tags={"cost_usd": label}) for label in ("1", "2")]
    assert distinguish(runs) == ["builtin:bm25 (1)", "builtin:bm25 (2)"]


def test_what_may_change_a_score_is_described_and_nothing_else() -> None:
    one = header(config={"bm25": ["k1=0.9"], "concurrency": 3}, retriever={"mode": "bm25"})
    found = described_settings(one)
    assert found["bm25"] == "--bm25 k1=0.9"
    assert found["retriever mode"] == "mode bm25"
    assert found["assay"] == "assay 0.2.0"
    assert not {"concurrency", "label", "top_k"} & set(found)


def test_tags_and_the_retriever_tell_runs_apart() -> None:
    a = header(tags={"chunks": "256"}, retriever={"fusion": "rrf"})
    b = header(tags={"chunks": "512"}, retriever={"fusion": "zscore"})
    assert distinguish([a, b]) == [
        "builtin:bm25 (chunks=256, fusion rrf)",
        "builtin:bm25 (chunks=512, fusion zscore)",
    ]


def test_the_commit_then_the_time_where_nothing_else_differs() -> None:
    a, b = header(git=git("main", "a" * 40)), header(git=git("main", "b" * 40, dirty=True))
    assert distinguish([a, b]) == [
        "builtin:bm25 (aaaaaaaa)",
        "builtin:bm25 (bbbbbbbb with changes)",
    ]
    later = header(started="2026-11-15T09:00:00+00:00")
    assert distinguish([header(), later])[1] == "builtin:bm25 (2026-11-15 09:00)"
    same_minute = header(started="2026-11-15T08:30:07+00:00")
    assert distinguish([header(), same_minute])[1] == "builtin:bm25 (2026-11-15 08:30:07)"


def test_of_three_runs_only_those_that_need_it_get_a_time() -> None:
    later = header(started="2026-11-15T09:00:00+00:00")
    names = distinguish([header("purple:hybrid"), header(), later])
    assert names[0] == "purple:hybrid"
    assert len(set(names)) == 3


def test_long_labels_are_shortened() -> None:
    names = distinguish([header(label="x" * 200), header(label="y")])
    assert len(names[0]) < 100
