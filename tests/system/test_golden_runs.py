"""Runs whose figures are stored: whatever is rebuilt inside, these stay.

ASSAY_GOLDEN=write stores what the runs give now; look at the difference before you commit it.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.system.running import Corpus, Service, chat_completion, run, serving

GOLDEN = Path(__file__).parent / "golden"
WRITE = os.environ.get("ASSAY_GOLDEN") == "write"
SAMPLE = ("--dataset", "notes", "--num-queries", "12")

TIMES = ("total_time_seconds", "queries_per_second", "latency")
SETTINGS = ("split", "num_queries", "seed", "top_k", "shard_index", "num_shards", "answers")
DATA = ("name", "fingerprint", "split", "documents", "judged_queries", "queries_without_relevant")
ROW = ("ndcg", "recall", "mrr", "ap")
ANSWER_METRICS = (
    "correctness",
    "truthfulness",
    "fact_recall",
    "citation_precision",
    "citation_recall",
    "context_precision",
    "context_recall",
)
COUNTS = ("questions", "answered", "unanswerable", "outcomes")
DIFFERENCE = (
    *("n", "mean_a", "mean_b", "difference", "low", "high", "p_value", "p_adjusted"),
    *("wins", "ties", "losses"),
)

AGENT = '''
import os
from pathlib import Path
from tests.system.running import Corpus

CORPUS = Corpus(Path(os.environ["NOTES"]))
def search(query, top_k):
    return CORPUS.best(query, top_k)

def careless(query, top_k):
    """Repeats an id, invents one, gives one too many, and fails for every fifth letter count."""
    if len(query) % 5 == 0:
        raise RuntimeError("no")
    found = CORPUS.best(query, top_k)
    return [found[0], found[0], "note-999", *found[1:]]

def answer(query, top_k):
    """The reference if the query is of even length and has one, else the start of a document."""
    found = CORPUS.best(query, top_k)
    said = " ".join(CORPUS.texts[found[0]].split()[:40]).replace(".", ",")
    said = CORPUS.references.get(query if len(query) % 2 == 0 else "") or f"It is perhaps {said}"
    return {
        "doc_ids": found,
        "answer": f"{said} [{found[0]}].",
        "citations": found[:1],
        "contexts": [{"doc_id": each, "text": CORPUS.texts[each]} for each in found],
    }
'''
CRITERION = (
    "---\nname: certain\nscale: yes/no\n---\nIs the answer certain of itself (criterion C7)?\n"
)


@dataclass(frozen=True)
class Place:
    """A folder with an agent in it, and the notes as a BEIR folder beside it."""

    folder: Path
    notes: Path
    stack: ExitStack

    @property
    def corpus(self) -> Corpus:
        return Corpus(self.notes)

    def json(self, *arguments: str, code: int = 0) -> Any:
        done = run(self.folder, *arguments, "--json", NOTES=str(self.notes), OPENAI_API_KEY="k")
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def eval(self, *arguments: str, code: int = 0) -> Any:
        return projected(self.json("eval", *arguments, code=code))

    def serve(self, *arguments: str) -> str:
        return self.stack.enter_context(serving(*arguments, folder=self.folder))

    def service(self, reply: Callable[[str, dict[str, Any]], Any]) -> str:
        return self.stack.enter_context(Service(reply).running()).url


def projected(report: Any) -> dict[str, Any]:
    """What a golden holds of a report."""
    summary = {key: n for key, n in report["summary"].items() if not key.startswith(TIMES)}
    k = report["config"]["top_k"]
    result = {
        "state": report["state"],
        "protocol": report["target"]["protocol"],
        "track": report["track"],
        "planned_queries": report["planned_queries"],
        "random_seed_used": report["random_seed_used"],
        "dataset": picked(report["dataset"], DATA),
        "settings": picked(report["config"], SETTINGS),
        "summary": summary,
        "metrics": report["metrics"],
        "statistics": report["statistics"],
        "gates": [picked(gate, ("gate", "value", "passed")) for gate in report["gates"]],
        "failures": report["failures"],
        "violations": {
            kind: picked(count, ("ids", "queries")) for kind, count in report["violations"].items()
        },
        "rows": {
            row["query_id"]: {
                "status": row["status"],
                "docs": row["retrieved_docs"],
                **{name: row.get(f"{name}_at_{k}") for name in ROW},
            }
            for row in report["per_query_results"]
        },
    }
    if report.get("answers"):
        result["answers"] = projected_answers(report["answers"])
        result["answer_rows"] = {
            row["query_id"]: {"correct": row["correct"], "citations": row["citations"]}
            | figures(row)
            for row in report["answer_results"]
        }
    if report.get("comparison"):
        result["comparison"] = projected_comparison(report["comparison"])
    return result


def projected_answers(answers: Any) -> dict[str, Any]:
    return picked(answers, COUNTS) | {
        "metrics": figures(answers["metrics"]),
        "statistics": {
            name: picked(statistic, ("n", "mean", "low", "high", "median", "std"))
            for name, statistic in figures(answers["statistics"]).items()
        },
        "invented_citations": answers["invented_citations"]["ids"],
    }


def projected_comparison(comparison: Any) -> dict[str, Any]:
    differences = figures(comparison["metrics"])
    return {name: picked(each, DIFFERENCE) for name, each in differences.items()}


def figures(of: dict[str, Any]) -> dict[str, Any]:
    """Metrics of rankings and criteria, and those of answers that goldens hold."""
    return {
        name: value
        for name, value in of.items()
        if "@" in name or name.startswith("criterion.") or name in ANSWER_METRICS
    }


def picked(of: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: of.get(name) for name in names}


def rest_target(place: Place) -> Any:
    corpus = place.corpus

    def reply(_: str, body: dict[str, Any]) -> Any:
        found = corpus.best(body["q"], body["size"])
        return {"hits": [{"id": doc_id, "score": 9 - n} for n, doc_id in enumerate(found)]}

    request = '{"q": "{query}", "size": "{top_k}"}'
    url = place.service(reply)
    mapping = ("--map", "ids=hits[].id", "--map", "scores=hits[].score")
    return place.eval(f"rest:{url}/find", "--request", request, *mapping, *SAMPLE)


def chat_target(place: Place) -> Any:
    corpus = place.corpus

    def reply(_: str, body: dict[str, Any]) -> Any:
        found = corpus.best(body["messages"][-1]["content"], 5)
        said = f"It is so: {corpus.texts[found[0]][:80]} [{found[0]}]"
        return chat_completion(said, sources=[{"id": doc_id} for doc_id in found])

    target = f"openai:{place.service(reply)}#scripted"
    return place.eval(target, "--map", "ids=sources[].id", "--answers", *SAMPLE)


def judge(place: Place) -> tuple[str, ...]:
    """The options of a judge that believes who does not say "perhaps"."""

    def reply(_: str, body: dict[str, Any]) -> Any:
        prompt = body["messages"][-1]["content"]
        yes, no = ("YES", "NO") if "criterion C7" in prompt else ("TRUE", "FALSE")
        return chat_completion(no if "perhaps" in prompt else yes)

    url = place.service(reply)
    return ("--answers", "--judge", f"openai:scripted@{url}/v1", "--judge-controls", "0")


def answers_with_judge(place: Place) -> Any:
    return place.eval("python:agent:answer", *judge(place), *SAMPLE)


def criteria(place: Place) -> Any:
    (place.folder / "certain.md").write_text(CRITERION)
    options = ("--criteria", "certain.md", "--gate", "criterion.certain>=0.9")
    return place.eval("python:agent:answer", *judge(place), *SAMPLE, *options, code=1)


def ground_truth_file(place: Place) -> Any:
    """The data set has no answers; half of the queries get one from the file."""
    lines = (place.notes / "answers.jsonl").read_text().splitlines()
    known = [json.loads(line) for line in lines if json.loads(line)["answer"]][::2]
    queries = place.corpus.queries
    (place.folder / "truth.json").write_text(
        json.dumps(
            [
                {
                    "query_id": each["query_id"],
                    "query_text": queries[each["query_id"]],
                    "ground_truth_answer": each["answer"],
                    "expected_document_ids": each["documents"],
                    "highly_relevant_count": len(each["documents"]),
                }
                for each in known
            ]
        )
    )
    bare = place.folder / "bare"
    (bare / "qrels").mkdir(parents=True)
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        (bare / name).write_text((place.notes / name).read_text())
    options = ("--dataset", "bare", "--references", "truth.json", "--num-queries", "20")
    return place.eval("python:agent:answer", *judge(place), *options)


def compare(place: Place) -> Any:
    place.eval("builtin:bm25", "--dataset", "notes", "--label", "a")
    place.eval("python:agent:search", "--dataset", "notes", "--label", "b")
    return projected_comparison(place.json("compare", "a", "b"))


def compare_answers(place: Place) -> Any:
    place.eval("builtin:bm25", "--answers", *SAMPLE, "--label", "a")
    place.eval("python:agent:answer", "--answers", *SAMPLE, "--label", "b")
    return projected_comparison(place.json("compare", "a", "b"))


def score_trec_run(place: Place) -> Any:
    corpus, lines = place.corpus, []
    for line in (place.notes / "queries.jsonl").read_text().splitlines()[:40]:
        query = json.loads(line)
        for rank, doc_id in enumerate(corpus.best(query["text"], 10), 1):
            lines.append(f"{query['_id']} Q0 {doc_id} {rank} {20 - rank} scripted\n")
    (place.folder / "run.trec").write_text("".join(lines))
    names = ("ndcg@10", "recall@100", "ap", "mrr@5", "bpref")
    options = [option for name in names for option in ("--metric", name)]
    scored = place.json("score", "run.trec", "--dataset", "notes", "--per-query", *options)
    rows = {row.pop("query_id"): row for row in scored.pop("per_query")[:40]}
    return {**scored, "rows": rows}


def score_answer_rows(place: Place) -> Any:
    corpus, rows = place.corpus, list[dict[str, Any]]()
    for line in (place.notes / "answers.jsonl").read_text().splitlines()[:12]:
        known = json.loads(line)
        if known["answer"]:
            documents = known["documents"]
            rows.append(
                {
                    "question": f"What of {known['query_id']}?",
                    "contexts": [corpus.texts[each] for each in documents],
                    "answer": known["answer"] if len(rows) % 3 else "It is 17 degrees in Paris.",
                    "reference": known["answer"],
                    "facts": [fact["accept"][0] for fact in known["facts"]],
                }
            )
    (place.folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    scored = place.json("score", "rows.jsonl", "--gate", "correctness>=0.3")
    return {"answers": projected_answers(scored["answers"]), "gates": scored["gates"]}


def sample_with_seed(place: Place) -> Any:
    report = place.eval("builtin:bm25", *SAMPLE, "--seed", "777")
    return picked(report, ("random_seed_used", "settings", "metrics", "rows"))


def baseline(place: Place) -> Any:
    report = place.eval("python:agent:search", *SAMPLE, "--baseline", "builtin:bm25")
    return picked(report, ("state", "metrics", "comparison"))


COMMANDS = {
    "builtin_bm25": "builtin:bm25",
    "builtin_hybrid": "builtin:hybrid",
    "builtin_bm25_top_10": "builtin:bm25 --num-queries 25 --top-k 10",
    "python_target": "python:agent:careless --num-queries 25",
    "answers_without_judge": "builtin:bm25 --answers --num-queries 30",
}
# Our servers: the target, and what is served.
SERVERS = {
    "a2a_target": ("a2a:{url}", "purple"),
    "mcp_target": ("mcp:{url}/mcp#search_nfcorpus", "mcp"),
    "contract_target": ("http:{url}=RAG_RETRIEVE", "agent RAG_RETRIEVE"),
}
CASES: dict[str, Callable[[Place], Any]] = {
    case.__name__: case
    for case in (
        *(rest_target, chat_target, answers_with_judge, criteria, ground_truth_file, compare),
        *(compare_answers, score_trec_run, score_answer_rows, sample_with_seed, baseline),
    )
}


@pytest.mark.parametrize("name", [*COMMANDS, *SERVERS, *CASES])
def test_a_run_gives_what_it_gave(name: str, tmp_path: Path, notes: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    with ExitStack() as stack:
        place = Place(tmp_path, notes, stack)
        if name in CASES:
            value = rounded(CASES[name](place))
        elif name in SERVERS:
            target, served = SERVERS[name]
            url = place.serve(*served.split(), "--dataset", "notes", "--mode", "bm25")
            value = rounded(place.eval(target.format(url=url), *SAMPLE))
        else:
            value = rounded(place.eval(*COMMANDS[name].split(), "--dataset", "notes"))
    path = GOLDEN / f"{name}.json"
    if WRITE:
        path.write_text(readable(value))
    assert list(differences(json.loads(path.read_text()), value)) == []


def rounded(value: Any) -> Any:
    """Floats to nine places, which is what a change of the order of a sum leaves alone."""
    if isinstance(value, float):
        return round(value, 9) + 0.0
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value


def readable(value: dict[str, Any]) -> str:
    """JSON with a line for each entry of the second level: a row, a metric."""
    parts = []
    for key, part in value.items():
        text = json.dumps(part, ensure_ascii=False)
        if isinstance(part, dict) and len(text) > 80:
            lines = (
                f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in part.items()
            )
            text = "{\n" + ",\n".join(lines) + "\n }"
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def differences(golden: Any, now: Any, path: str = "") -> Iterator[str]:
    """Each field that is not what it was, by its path."""
    if isinstance(golden, dict) and isinstance(now, dict):
        for key in {**golden, **now}:
            yield from differences(golden.get(key, ...), now.get(key, ...), f"{path}/{key}")
    elif isinstance(golden, list) and isinstance(now, list) and len(golden) == len(now):
        for number, (old, new) in enumerate(zip(golden, now, strict=True)):
            yield from differences(old, new, f"{path}/{number}")
    elif isinstance(golden, float) and isinstance(now, float):
        if abs(golden - now) > 2e-9:
            yield f"{path}: was {golden}, is {now}"
    elif golden != now:
        yield f"{path}: was {golden!r}, is {now!r}"
