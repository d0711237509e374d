"""Commands that write data sets and indexes, to be broken off at every step.

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
    """One command, and what is done after it."""

    name: str
    prepare: Callable[[], None]
    command: Callable[[], int]
    again: Callable[[], int]
    digest: Callable[[], Any]


def assay(*arguments: str) -> int:
    """The command line in this process."""
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
    """As the agent RAG_INGEST writes."""
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


DATA_SCENARIOS = (
    Scenario("import", _prepare_import, _import, _unless_made(_import), _made_digest),
    Scenario("index", _prepare_index, _index, _index, _index_digest),
    Scenario("ingest", _prepare_ingest, _ingest_more, _ingest_more, _ingest_digest),
    Scenario("tune", _prepare_tune, _tune, _tune, _tune_digest),
)
