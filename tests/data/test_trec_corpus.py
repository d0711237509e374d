"""Corpora of TREC collections: <DOC> blocks, JSON lines, tables, folders, and what is wrong."""

import gzip
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.data import data_app
from assay.data import load_dataset, trec_corpus
from assay.data.trec_corpus import read_corpus
from assay.errors import DataError

TRECTEXT = """<DOC>
<DOCNO> FT911-1 </DOCNO>
<HEADLINE>Tea &amp; coffee</HEADLINE>
<TEXT>
Green <F P=105>tea</F> is
steeped.
</TEXT>
</DOC>
<DOC><DOCNO>FT911-2</DOCNO><TEXT>Coffee.</TEXT><TEXT>Brewed.</TEXT></DOC>
"""
TRECWEB = """<DOC>
<DOCNO>WT01-B01-1</DOCNO>
<DOCHDR>
http://tea.example/ 10.0.0.1 text/html
</DOCHDR>
<html><head><title>Tea</title><script>var secret = "<p>no</p>";</script></head>
<body class="x"><p>Steeped &lt;3 minutes<!-- never this --></p></body></html>
</DOC>
"""


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def texts(path: Path) -> dict[str, tuple[str, str]]:
    return {key: (each.title, each.text) for key, each in read_corpus(path).items()}


def test_blocks_of_trectext(tmp_path: Path) -> None:
    assert texts(write(tmp_path, "ft911.gz", TRECTEXT)) == {
        "FT911-1": ("Tea & coffee", "Green tea is steeped."),
        "FT911-2": ("", "Coffee. Brewed."),
    }


def test_documents_may_share_a_line(tmp_path: Path) -> None:
    parts = [f"<DOC><DOCNO>{n}</DOCNO><TEXT>text {n}</TEXT></DOC>" for n in range(4)]
    content = parts[0] + parts[1] + "\n" + parts[2].replace("</DOC>", "\n</DOC>") + parts[3] + "\n"
    found = texts(write(tmp_path, "shared.trectext", content))
    assert found == {str(n): ("", f"text {n}") for n in range(4)}


def test_blocks_of_trecweb_without_header_and_scripts(tmp_path: Path) -> None:
    found = texts(write(tmp_path, "B01", TRECWEB))
    assert found == {"WT01-B01-1": ("Tea", "Steeped <3 minutes")}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("docs.jsonl", '{"id": "d1", "contents": "Tea is steeped."}\n'),
        ("docs.jsonl.gz", '{"docid": "d1", "title": "", "body": "Tea is steeped."}\n'),
        ("collection.tsv", "d1\tTea is steeped.\n"),
        ("docs.tsv", "doc_id\ttext\nd1\tTea is steeped.\n"),
        ("docs.csv", "\ufeffid,text\nd1,Tea is steeped.\n"),
        ("docs.json", '[{"_id": "d1", "text": "Tea is steeped."}]'),
    ],
)
def test_tables_of_other_tools(tmp_path: Path, name: str, content: str) -> None:
    assert texts(write(tmp_path, name, content)) == {"d1": ("", "Tea is steeped.")}


def test_a_folder_of_files(tmp_path: Path) -> None:
    write(tmp_path, "c/a/1.gz", TRECTEXT)
    write(tmp_path, "c/b/2", TRECWEB)
    write(tmp_path, "c/.hidden", "nothing")
    assert len(read_corpus(tmp_path / "c")) == 3


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("<DOC>\n<DOCNO>1</DOCNO>\n<TEXT>never closed", ":1: .* not closed by </DOC>"),
        ("<DOC>\n<TEXT>x</TEXT>\n</DOC>", ":1: this document has no <DOCNO>"),
        ("<DOC><DOCNO> </DOCNO></DOC>", "has no <DOCNO>"),
        ("\n<DOC><DOCNO>1</DOCNO></DOC>\n" * 2, ":4: document '1' occurs twice"),
        ("just words", ":1: is not a corpus: expected <DOC> blocks"),
        ("", r"has no documents; pass <DOC> blocks, or a table \(\.csv"),
        ("<html></html>", "has no documents"),
        (b"<DOC><DOCNO>1</DOCNO><TEXT>\xff</TEXT></DOC>", ":1: is not UTF-8"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, content: str | bytes, what: str
) -> None:
    with pytest.raises(DataError, match=what):
        read_corpus(write(tmp_path, "x", content))


def test_the_same_id_in_two_files_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "c/1", TRECTEXT)
    path = write(tmp_path, "c/2", TRECTEXT)
    with pytest.raises(DataError, match="'FT911-1' is already in another file") as refusal:
        read_corpus(tmp_path / "c")
    assert str(path) in str(refusal.value)


def test_a_document_without_an_end_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trec_corpus, "MAX_BLOCK", 1000)
    path = write(
        tmp_path, "bomb.gz", "<DOC>\n<DOCNO>1</DOCNO>\n" + "x" * 50 + "\n" * 2 + "y\n" * 999
    )
    with pytest.raises(DataError, match="not closed"):
        read_corpus(path)


def test_elements_that_are_opened_and_never_closed_are_searched_for_once(tmp_path: Path) -> None:
    markup = "<text>" * 200_000 + "<script>" * 200_000 + "<!--" * 200_000
    path = write(tmp_path, "x", f"<DOC><DOCNO>1</DOCNO>\n{markup}</DOC>")
    assert list(read_corpus(path)) == ["1"]  # once for each element would take hours


def test_a_collection_becomes_a_data_set(tmp_path: Path) -> None:
    topics = write(tmp_path, "topics.txt", "<top>\n<num> 1\n<title> tea\n</top>\n")
    qrels = write(tmp_path, "qrels", "1 0 FT911-1 1\n1 0 FT911-9 0\n")
    corpus = write(tmp_path, "ft911.gz", TRECTEXT)
    out = tmp_path / "out"
    command = ["import", str(topics), "--qrels", str(qrels), "--corpus", str(corpus)]
    result = CliRunner().invoke(data_app, [*command, "--out", str(out)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "does not have: 1, for example 'FT911-9'" in result.stderr
    dataset = load_dataset(out)
    assert dataset.documents["FT911-1"].title == "Tea & coffee"
    assert dataset.judgments["test"] == {"1": {"FT911-1": 1, "FT911-9": 0}}


@pytest.mark.parametrize("word", ["Fußball", "İstanbul İzmir", "ﬁn ŉ ǰ", "ΐ"])
def test_letters_that_are_longer_in_another_case_move_no_end(tmp_path: Path, word: str) -> None:
    block = f"{word}<doc><DocNo>{word}-1</dOcNo><Title>{word}</TITLE><text>{word} x</Text></Doc>"
    found = texts(write(tmp_path, "corpus", f"<DOC><docno>a</docno>{word}</DOC>\n{block}\n"))
    assert found == {"a": ("", word), f"{word}-1": (word, f"{word} x")}


def test_letters_of_other_scripts_are_no_tag(tmp_path: Path) -> None:
    """Folded as Unicode has it, ſ is an s and the Kelvin sign a k."""
    block = "<DOC><DOCNO>a</DOCNO><TEXT>one <ſcript>two</ſcript></TEXT></DOC>"
    assert texts(write(tmp_path, "corpus", block)) == {"a": ("", "one two")}
