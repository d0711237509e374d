"""Every command from outside: exit codes, JSON on stdout and nothing else, and settings."""

import json
from pathlib import Path

import pytest
from tests.loopback import free_port
from tests.system.conftest import Assay
from tests.system.running import run

NOTES = ("--dataset", "notes")
EVAL = ("eval", "builtin:bm25", *NOTES, "--num-queries", "3")
VERBS = (
    *("eval", "score", "audit", "compare", "report", "runs", "export", "merge", "check", "bench"),
    *("doctor", "init", "ground-truth", "search", "index", "tune"),
    *("data", "data list", "data info", "data check", "data import", "data sample"),
    *("data questions", "judge", "judge calibrate", "judge grade", "judge pool"),
    *("serve", "serve green", "serve purple", "serve mcp", "serve ui", "serve agent"),
    *("nextcloud", "nextcloud upload", "nextcloud cleanup"),
)
AGENT = """
def good(query, top_k):
    return ["d1"]

def bad(query, top_k):
    raise RuntimeError("no")
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, tables, rankings, logged answers and labels. Tests only read it."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "agent.py").write_text(AGENT)
    (folder / "questions.csv").write_text("query_id,query,doc_ids\nq1,tea,d1\nq2,soup,d2\n")
    (folder / "broken.csv").write_text("query_id,query,doc_ids\nq1,tea,d1\nq1,soup,d2\n")
    (folder / "run.trec").write_text("q1 Q0 d1 1 2.0 x\nq2 Q0 d1 1 1.0 x\n")
    (folder / "qrels.txt").write_text("q1 0 d1 1\nq2 0 d2 1\n")
    row = {"question": "How long?", "contexts": ["3 minutes."], "answer": "3 minutes."}
    row |= {"reference": "3 minutes", "facts": ["3 minutes"]}
    (folder / "rows.jsonl").write_text(f"{json.dumps(row)}\n")
    for name in ("first", "second"):
        done = run(
            folder, "eval", "python:agent:good", "--dataset", "questions.csv", "--label", name
        )
        assert done.returncode == 0, done.stderr
    for shard in ("1/2", "2/2"):
        done = run(folder, *EVAL, "--shard", shard, "--out", "shards")
        assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_has_help_and_refuses_an_unknown_option(assay: Assay, verb: str) -> None:
    done = assay(*verb.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--help" in done.stdout
    done = assay(*verb.split(), "--no-such-option")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--no-such-option" in done.stderr
    assert "Traceback" not in done.stderr


JSON: list[tuple[str, int, set[str]]] = [
    (
        "eval python:agent:good --dataset questions.csv",
        0,
        {
            *("summary", "metrics", "statistics", "gates", "failures", "violations", "target"),
            *("dataset", "config", "random_seed_used", "per_query_results", "format", "state"),
        },
    ),
    ("eval python:agent:good --dataset questions.csv --gate ndcg@5>=0.9", 1, {"gates"}),
    ("eval python:agent:bad --dataset questions.csv", 3, {"failures"}),
    ("score run.trec --qrels qrels.txt", 0, {"queries", "metrics", "queries_without_ranking"}),
    ("score run.trec --qrels qrels.txt --gate ndcg@10>=0.9", 1, {"gates"}),
    ("score rows.jsonl", 0, {"answers", "file", "skipped"}),
    ("score rows.jsonl --gate correctness>=0.5", 0, {"gates"}),
    ("report first", 0, {"summary", "per_query_results"}),
    ("compare first second", 0, {"metrics", "a", "b"}),
    ("audit first", 0, set()),
    ("merge SHARDS --out others", 0, {"summary", "per_query_results"}),
    ("doctor", 0, set()),
    ("data info notes", 0, {"name"}),
    ("data check questions.csv", 0, set()),
    ("data check broken.csv", 1, set()),
    ("search tomatoes --dataset notes --mode bm25", 0, set()),
]


@pytest.mark.parametrize(("line", "code", "keys"), JSON, ids=[line for line, _, _ in JSON])
def test_json_is_all_of_stdout(place: Path, line: str, code: int, keys: set[str]) -> None:
    shards = " ".join(str(path.parent) for path in place.glob("shards/*/run.json"))
    line = line.replace("SHARDS", shards)
    out = ("--out", "others") if line.startswith("eval") else ()
    done = run(place, *line.split(), *out, "--json")
    assert done.returncode == code, done.stderr
    assert keys <= set(json.loads(done.stdout))
    assert "Traceback" not in done.stderr


def test_runs_are_listed_as_json(place: Path) -> None:
    listed = json.loads(run(place, "runs", "--json").stdout)
    assert {row["label"] for row in listed} == {"first", "second"}  # within one second
    assert {"run", "state", "target", "dataset", "metric", "mean", "low", "high"} <= set(listed[0])
    (only,) = json.loads(run(place, "runs", "--json", "--label", "second").stdout)
    assert only["mean"] == 0.5
    assert json.loads(run(place, "runs", "--json", "--failed").stdout) == []


MISTAKES = (
    "nonsense",
    "eval builtin:bm25 --dataset none",
    "eval builtin:bm25 --dataset notes --gate nonsense",
    "eval builtin:bm25 --dataset notes --num-queries x",
    "eval builtin:bm25 --dataset notes --map ids",
    "eval --resume none",
    "score none.trec --dataset notes",
    "score run.trec",
    "report none",
    "compare first none",
    "export first --format none",
    "merge none",
    "audit none",
    "data sample notes --out questions.csv",
    "search tomatoes --dataset none",
    "serve agent NONE",
    "serve purple --mode none",
    "serve",
    "check",
    "bench none.toml",
    "judge calibrate none.jsonl --judge openai:x",
    "ground-truth none --provider extractive",
    "runs --sort none",
    "nextcloud upload --dataset notes",
    "nextcloud cleanup",
)


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_exit_code_2_in_few_words(place: Path, line: str) -> None:
    done = run(place, *line.split(), timeout=60)
    assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "target", ["rest:{url}/?q={{query}}", "a2a:{url}", "mcp:{url}/mcp", "http:{url}=RAG_RETRIEVE"]
)
def test_a_target_that_is_not_there_is_exit_code_3(place: Path, target: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    options = ("--dataset", "questions.csv", "--retries", "0", "--warm-up", "0", "--out", "others")
    done = run(place, "eval", target.format(url=url), *options)
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("flags", "variables", "file", "top_k"),
    [
        ((), {}, "", 5),
        ((), {}, "top_k = 7\n", 7),
        ((), {"ASSAY_TOP_K": "8"}, "top_k = 7\n", 8),
        (("--top-k", "9"), {"ASSAY_TOP_K": "8"}, "top_k = 7\n", 9),
    ],
)
def test_flag_then_environment_then_file_then_default(
    tmp_path: Path, flags: tuple[str, ...], variables: dict[str, str], file: str, top_k: int
) -> None:
    (tmp_path / "assay.toml").write_text(file)
    done = run(tmp_path, *EVAL, *flags, "--json", timeout=110, **variables)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["config"]["top_k"] == top_k
    assert f"ndcg@{top_k}" in report["metrics"]
