"""Commands that write files, to be broken off at every step.

A scenario works in the current folder. `prepare` runs once and its result is copied for each
point; `command` is what breaks; `again` is what a user does about it; `digest` is what must then be
as if nothing had happened.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.search.samples import WordEmbedder
from tests.search.tuning import worlds

QUERIES = 5

_TARGET = """
def retrieves(query, top_k):
    number = int(query.split()[1])
    return [f"d{number}", "d9"][: 1 if number == 2 else 2]

def answers(query, top_k):
    number = int(query.split()[1])
    said = 7 if number == 2 else number
    return {"doc_ids": [f"d{number}"], "answer": f"It is {said} [d{number}].",
            "citations": [f"d{number}"]}
"""


@dataclass(frozen=True)
class Scenario:
    name: str
    prepare: Callable[[], None]
    command: Callable[[], int]
    again: Callable[[], int]
    digest: Callable[[], Any]


def assay(*arguments: str) -> int:
    from assay.cli.app import main

    sys.argv = ["assay", *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


def write_lines(path: str, rows: Sequence[Any]) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))


def prepare_data() -> None:
    Path("target.py").write_text(_TARGET)
    documents = [{"_id": f"d{n}", "title": "", "text": f"text {n} of many"} for n in range(10)]
    write_lines("tiny/corpus.jsonl", documents)
    asked = [{"_id": f"q{n}", "text": f"query {n}"} for n in range(QUERIES)]
    write_lines("tiny/queries.jsonl", asked)
    write_lines(
        "tiny/answers.jsonl",
        [{"query_id": f"q{n}", "answer": f"It is {n}."} for n in range(QUERIES)],
    )
    rows = "".join(f"q{n}\td{n}\t2\nq{n}\td{n + 1}\t1\n" for n in range(QUERIES))
    Path("tiny/qrels").mkdir()
    Path("tiny/qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    Path("runs").mkdir()


# data ---------------------------------------------------------------------------------------------


def _prepare_import() -> None:
    Path("table.csv").write_text("query,ids\n" + "".join(f"query {n},d{n}\n" for n in range(3)))
    Path("documents.csv").write_text("doc_id,text\n" + "".join(f"d{n},text\n" for n in range(5)))


def _import() -> int:
    return assay("data", "import", "table.csv", "--corpus", "documents.csv", "--out", "made")


def _unless_made(command: Callable[[], int]) -> Callable[[], int]:
    """A folder that is there is whole; the command refuses to write into it."""
    return lambda: 0 if Path("made").exists() else command()


def _made_digest() -> Any:
    return {str(path): path.read_text() for path in Path("made").rglob("*") if path.is_file()}


# index --------------------------------------------------------------------------------------------


def _index() -> int:
    return assay("index", "--dataset", "tiny")


def _prepare_index() -> None:
    """An index of fewer documents, so that the command changes one that is there."""
    prepare_data()
    whole = Path("tiny/corpus.jsonl").read_text()
    Path("tiny/corpus.jsonl").write_text("".join(whole.splitlines(keepends=True)[:7]))
    assert _index() == 0
    Path("tiny/corpus.jsonl").write_text(whole.replace("text 3", "another 3"))


def _index_digest(name: str = "tiny") -> Any:
    from assay.data import load_dataset
    from assay.search.array_store import ArrayStore
    from assay.search.index import open_retriever

    names = [each.name for each in Path("index").iterdir() if each.name.startswith(name)]
    store = ArrayStore(Path("index"), names[0] if names else name)  # named after its embedder, too
    embedder = WordEmbedder()
    with open_retriever(load_dataset(name), embedder=embedder, store=store) as retriever:
        found = {
            mode: [(hit.doc_id, hit.score) for hit in retriever.search("text 3", 20, mode=mode)]
            for mode in ("bm25", "dense", "hybrid")
        }
    return {"embedded": embedder.seen, "found": found}


# ingest -------------------------------------------------------------------------------------------


def _ingest(documents: dict[str, str]) -> int:
    from assay.cli.console import say
    from assay.data import Document
    from assay.errors import AssayError
    from assay.serve.contract_agents.apps import open_knowledge

    chunks = [Document(f"{name}__chunk_0", name, text) for name, text in documents.items()]
    try:
        knowledge = open_knowledge("notes", "bm25")
        knowledge.replace_documents("lab", set(documents), chunks)
    except (AssayError, OSError) as error:
        say(f"error: {error}")
        return 2
    return 0


def _ingest_digest() -> str:
    from assay.data.cache import cache_folder

    return (cache_folder() / "knowledge" / "lab.jsonl").read_text()


def _prepare_ingest() -> None:
    kept = {f"kept-{n}": f"text {n} was before" for n in range(4)}
    assert _ingest({**kept, "changed": "text 1 was before"}) == 0


def _ingest_more() -> int:
    return _ingest({"changed": "text 1 is now", "added": "text 3 is new"})


# tune ---------------------------------------------------------------------------------------------


def _prepare_tune() -> None:
    """Learns once: training takes seconds and writes nothing."""
    from assay.search.tuning import tune

    data = worlds.learnable(train=36, dev=12)
    rows = [{"_id": one.id, "title": one.title, "text": one.text} for one in data.documents]
    write_lines("world/corpus.jsonl", rows)
    write_lines("world/queries.jsonl", [{"_id": one.id, "text": one.text} for one in data.queries])
    Path("world/qrels").mkdir()
    for split, judged in data.judgments.items():
        lines = [f"{q}\t{d}\t{grade}\n" for q, docs in judged.items() for d, grade in docs.items()]
        Path(f"world/qrels/{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    learned: list[Any] = []
    module: Any = tune
    fit = module.fit

    def remembered(*given: Any, **named: Any) -> Any:
        if not learned:
            learned.append(fit(*given, **named))
        return learned[0]

    module.fit = remembered
    assert _tune() == 0
    for path in Path("cache").rglob("*.model"):
        path.unlink()


def _tune() -> int:
    return assay("tune", "--dataset", "world")


def _tune_digest() -> Any:
    (model,) = Path("cache/tuned").glob("[!.]*")
    return model.read_bytes().hex()


# eval ---------------------------------------------------------------------------------------------

_TIMES = ("second", "latency", "time", "at", "started", "process")


def _run_digest() -> Any:
    from assay.run.folder import find_run, list_runs

    runs = list(list_runs(Path("runs")))
    assert [run.state() for run in runs] == ["complete"] * len(runs), "a run is not complete"
    folder = find_run("latest", Path("runs"))
    folder.validate()
    left = [path.name for run in runs for path in run.path.rglob("*.part")]
    assert not left, f"left behind: {left}"
    assert folder.page_file.read_text().rstrip().endswith("</html>"), "half a page"
    return {"runs": len(runs), "report": _without_times(folder.read_json())}


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: each for name, each in value.items() if not _is_time(name)}
        return {name: _without_times(each) for name, each in kept.items()}
    return [_without_times(each) for each in value] if isinstance(value, list) else value


def _is_time(name: str) -> bool:
    """`run` and `baseline_of` are names of folders, which hold the time; spending depends on what
    the cache already had."""
    return name in ("run", "merged_from", "spending") or any(
        part in _TIMES for word in name.split("_") for part in (word, word.rstrip("s"))
    )


def _evaluate(*more: str) -> Callable[[], int]:
    def run() -> int:
        return assay(
            *("eval", "python:target:retrieves", "--dataset", "tiny", "--top-k", "2"),
            *("--concurrency", "1", *more),
        )

    return run


def _resume(otherwise: Callable[[], int]) -> Callable[[], int]:
    """As the message of the failed run says; a run that never began is started again."""

    def run() -> int:
        begun = any(Path("runs").glob("*/run.json"))
        return assay("eval", "--resume", "latest") if begun else otherwise()

    return run


def _prepare_resume() -> None:
    """A run that was killed in its third call."""
    prepare_data()
    assert _evaluate()() == 0
    (folder,) = Path("runs").iterdir()
    for path in folder.iterdir():
        if path.name not in ("run.json", "calls.jsonl"):
            path.unlink()
    calls = (folder / "calls.jsonl").read_bytes()
    third = sum(map(len, calls.splitlines(keepends=True)[:2])) + 20
    (folder / "calls.jsonl").write_bytes(calls[:third])


# merge --------------------------------------------------------------------------------------------


def _prepare_merge() -> None:
    prepare_data()
    for shard in ("1/2", "2/2"):
        assert _evaluate("--shard", shard)() == 0


def _merge() -> int:
    from assay.run.folder import list_runs

    shards = [run.name for run in list_runs(Path("runs")) if not run.read_header().merged_from]
    return assay("merge", *shards)


def _merge_again() -> int:
    from assay.run.folder import list_runs

    merged = any(run.read_header().merged_from for run in list_runs(Path("runs")))
    return 0 if merged else _merge()


def _merge_digest() -> Any:
    """The shards are as they were, and there is one merged run, whole; its summary may be missing
    where the command was killed after all else was written."""
    from assay.run.folder import find_run, list_runs

    runs = list(list_runs(Path("runs")))
    assert [run.state() for run in runs] == ["complete"] * 3, "not three complete runs"
    folder = find_run("latest", Path("runs"))
    folder.validate()
    return {"report": _without_times(folder.read_json())}


# judge --------------------------------------------------------------------------------------------


def _prepare_judge() -> None:
    write_lines(
        "labels.jsonl",
        [
            {"question": f"Which {n}?", "answer": f"{n}", "reference": f"{n % 3}", "label": n < 3}
            for n in range(4)
        ],
    )


def _judge() -> int:
    result = assay("judge", "calibrate", "labels.jsonl", "--judge-set", "votes=1", "--json")
    sys.stdout.flush()
    return result


def _judge_digest() -> Any:
    """What the command prints, from replies that are all in the cache by now."""
    import sqlite3

    with sqlite3.connect("cache/replies.sqlite3") as database:
        (kept,) = database.execute("SELECT count(*) FROM replies").fetchone()
    printed = json.loads(Path("../stdout").read_text())
    return {"replies": kept, "result": _without_times({**printed, "judge": None})}


def _answers() -> int:
    return assay(
        *("eval", "python:target:answers", "--dataset", "tiny", "--top-k", "2", "--answers"),
        *("--concurrency", "1", "--judge", "openai:judge", "--judge-set", "votes=1"),
        *("--num-queries", "3"),
    )


SCENARIOS = {
    each.name: each
    for each in (
        Scenario("eval", prepare_data, _evaluate(), _resume(_evaluate()), _run_digest),
        Scenario(
            "resume", _prepare_resume, _resume(_evaluate()), _resume(_evaluate()), _run_digest
        ),
        Scenario("answers", prepare_data, _answers, _resume(_answers), _run_digest),
        Scenario("merge", _prepare_merge, _merge, _merge_again, _merge_digest),
        Scenario("judge", _prepare_judge, _judge, _judge, _judge_digest),
        Scenario("import", _prepare_import, _import, _unless_made(_import), _made_digest),
        Scenario("index", _prepare_index, _index, _index, _index_digest),
        Scenario("ingest", _prepare_ingest, _ingest_more, _ingest_more, _ingest_digest),
        Scenario("tune", _prepare_tune, _tune, _tune, _tune_digest),
    )
}
