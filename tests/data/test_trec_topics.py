"""TREC topics and their qrels."""

from pathlib import Path

import pytest

from assay.data.trec_corpus import read_trec
from assay.errors import DataError

OLD = """<top>
<num> Number: 301
<title> Tea &amp; water
<desc> Description:
How long does it steep?
</top>

<top>
<num> Number: 302
<title>
Topic: Coffee
beans
<narr> Narrative: none
</top>
"""
XML = """<topics task="x">
<topic number="301"><query>Tea &amp; water</query><question>How?</question></topic>
<topic number='302'>
  <query>Coffee beans</query>
</topic>
</topics>
"""
PLAIN = "301\tTea & water\n302\tCoffee beans\n"


@pytest.fixture
def qrels(tmp_path: Path) -> Path:
    path = tmp_path / "qrels.txt"
    path.write_text("301 0 d1 2\n301 0 d2 0\n302 0 d2 1\n999 0 d1 1\n")
    return path


@pytest.mark.parametrize("text", [OLD, XML, PLAIN], ids=["sgml", "xml", "tsv"])
def test_every_form_of_topics_is_read(tmp_path: Path, qrels: Path, text: str) -> None:
    path = tmp_path / "topics.txt"
    path.write_text(text)
    dataset = read_trec(path, qrels)
    texts = {each.id: each.text for each in dataset.queries.values()}
    assert texts == {"301": "Tea & water", "302": "Coffee beans"}
    assert dataset.judgments_in("test") == {"301": {"d1": 2, "d2": 0}, "302": {"d2": 1}}
    (warning,) = dataset.warnings
    assert "topic is not in topics.txt: 1, topic '999'" in warning


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no topics; pass <top> blocks, or an id, a tab"),
        ("tea\n", "txt:1: is not a topic: write <top> blocks"),
        (OLD + "<top>\n<num> 303\n", "txt:15: this topic is not closed"),
        ("<top>\n<title> tea\n</top>", "txt:1: this topic has no <num>"),
        ("<top>\n<num> 1\n<desc> tea\n</top>", "txt:1: topic '1' has no text"),
        (PLAIN + PLAIN, "txt:3: topic '301' occurs twice"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(
    tmp_path: Path, qrels: Path, text: str, message: str
) -> None:
    path = tmp_path / "topics.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_trec(path, qrels)
