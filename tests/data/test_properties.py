"""For any content: what was written is read back, and damage is a DataError."""

import io
import json
import string
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from assay.data import load_dataset, read_run
from assay.errors import DataError

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
IDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1)
SPACED_IDS = st.lists(IDS, min_size=1, max_size=3).map(" ".join)
WORDS = st.text(string.ascii_letters + string.digits + "-_", min_size=1)


def fill(folder: Path, contents: dict[str, bytes]) -> None:
    (folder / "qrels").mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def packed() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("set/corpus.jsonl", '{"_id": "a", "text": "b"}')
        archive.writestr("set/queries.jsonl", '{"_id": "a", "text": "b"}')
        archive.writestr("set/qrels/test.tsv", "a\ta\t1")
    return stream.getvalue()


PACKED = packed()


@given(
    st.lists(
        st.tuples(st.integers(0, len(PACKED) - 1), st.integers(0, 255)), min_size=1, max_size=6
    ),
    st.integers(0, len(PACKED)),
)
@settings(deadline=None, max_examples=300)
def test_any_damage_to_an_archive_is_survived(changes: list[tuple[int, int]], cut: int) -> None:
    content = bytearray(PACKED)
    for at, value in changes:
        content[at] = value
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "set.zip"
        for damaged in (content, content[:cut]):
            path.write_bytes(damaged)
            with suppress(DataError):
                load_dataset(path)


@given(
    documents=st.dictionaries(SPACED_IDS, st.tuples(TEXT, TEXT), min_size=1),
    queries=st.dictionaries(SPACED_IDS, TEXT, min_size=1),
    data=st.data(),
)
@settings(deadline=None)
def test_what_was_written_is_read_back(
    documents: dict[str, tuple[str, str]], queries: dict[str, str], data: st.DataObject
) -> None:
    pairs = st.tuples(st.sampled_from(sorted(queries)), st.sampled_from(sorted(documents)))
    judged = data.draw(st.dictionaries(pairs, st.integers(-2, 3), min_size=1))
    rows = [f"{query}\t{document}\t{grade}\n" for (query, document), grade in judged.items()]
    corpus = [{"_id": i, "title": t, "text": x} for i, (t, x) in documents.items()]
    asked = [{"_id": i, "text": text} for i, text in queries.items()]
    contents = {
        "corpus.jsonl": "\n".join(json.dumps(each) for each in corpus).encode(),
        "queries.jsonl": "\r\n".join(
            json.dumps(each, ensure_ascii=False) for each in asked
        ).encode(),
        "qrels/test.tsv": ("query-id\tcorpus-id\tscore\n" + "".join(rows)).encode(),
    }
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), contents)
        dataset = load_dataset(folder)
    assert {d.id: (d.title, d.text) for d in dataset.documents.values()} == documents
    assert {q.id: q.text for q in dataset.queries.values()} == queries
    assert list(dataset.queries) == list(queries)
    read = {(q, d): g for q, grades in dataset.judgments["test"].items() for d, g in grades.items()}
    assert read == judged


@given(st.dictionaries(WORDS, st.lists(WORDS, unique=True, min_size=1), min_size=1))
@example({"per_query_results": ["a"]})
@settings(deadline=None)
def test_a_run_comes_back_in_its_order(run: dict[str, list[str]]) -> None:
    lines = [
        f"{query} Q0 {document} {rank} {-rank} tag"
        for query, documents in run.items()
        for rank, document in enumerate(documents)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        path.write_text("\n".join(lines))
        assert read_run(path) == run
        path.write_text(json.dumps(run))
        assert read_run(path) == run
