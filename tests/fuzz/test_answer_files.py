"""Files about answers that people edit: a value, or one of our errors with the file's name."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.fuzz.mutation import almost

from assay.answers.calibration import read_calibrations, read_labels
from assay.answers.judge import parse_words
from assay.answers.nuggets import SUPPORT
from assay.answers.references import read_references, reference_to_json
from assay.data.dataset import Document, Query
from assay.errors import DataError
from assay.labels.pool import read_pool
from assay.labels.reference_writing import ModelExtractor

NUGGETS = (
    b'{"query_id": "q1", "query": "w", "nuggets": [{"id": "q1.1", "text": "Tea is hot", '
    b'"importance": "vital", "by": "model", "documents": ["d"], "hash": "00"}], "provenance": {}}\n'
    b'{"qid": 7, "nuggets": [{"text": "a", "importance": "okay"}, {"text": "b", "importance": '
    b'"VITAL"}]}\n'
)
TABLE = b"query_id,query,nugget_id,importance,nugget,by,documents\nq1,w,q1.1,okay,'=Tea,human,d\n"
LABELS = b'{"question": "w", "answer": "a", "nugget": "Tea is hot", "label": "partial"}\n'
CALIBRATIONS = (
    b'{"kind": "correctness", "judge": "m", "votes": 2, "prompts": ["p"], "labelled": 3, '
    b'"agreement": 0.5, "kappa": null, "questions": {"ab": 3}, "created": "", "assay": ""}\n'
)
POOL = b"query_id,query,doc_id,passage,label\nq1,tea,d1,green,1\nq1,tea,d2,black,\n"


def read(content: bytes, name: str, reader: Callable[[Path], object]) -> object:
    """What the reader makes of the content; None where it refuses."""
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        said = name
        try:
            return reader(path)
        except DataError as error:
            said = str(error)
        assert name in said
        return None


@given(content=almost(NUGGETS))
def test_nuggets_are_read_and_written_alike(content: bytes) -> None:
    found = read(content, "n.jsonl", read_references)
    if isinstance(found, list):
        lines = "\n".join(json.dumps(reference_to_json(each)) for each in found)
        assert read(lines.encode("utf-8", "surrogatepass"), "n.jsonl", read_references) in (
            None,
            found,
        )


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("l.jsonl", lambda path: read_labels(path, SUPPORT, "nugget")),
        ("c.jsonl", read_calibrations),
    ],
)
@given(content=almost(LABELS, CALIBRATIONS))
def test_labels_and_calibrations(
    name: str, reader: Callable[[Path], object], content: bytes
) -> None:
    read(content, name, reader)


@given(content=almost(POOL))
def test_pools(content: bytes) -> None:
    read(content, "p.csv", read_pool)


@given(reply=st.text(max_size=80), number=st.integers(1, 3))
@example(reply="[" * 200, number=1)
@example(reply='[{"support": 1}]', number=1)
def test_labels_of_a_judge(reply: str, number: int) -> None:
    found = parse_words(reply, ("SUPPORT", "NONE"), number)
    assert found is None or len(found) == number


class _Says:
    name = "test:says"

    def __init__(self, reply: str) -> None:
        self.reply = reply

    async def generate(self, prompt: str, max_tokens: int = 100) -> str:
        return self.reply


REPLY = b'{"facts": [{"text": "Tea is hot", "document": 1, "quote": "Tea is hot"}]}'


@given(reply=almost(REPLY))
@example(reply=b'{"facts": [{"text": "Tea", "document": true, "quote": "Tea"}]}')
@example(reply=b'{"facts": [{"text": "Tea", "document": 1e400, "quote": "Tea"}]}')
def test_replies_of_a_model_that_draws(reply: bytes) -> None:
    document = Document("d", "", "Tea is hot. It cools.")
    says = _Says(reply.decode("utf-8", "replace"))
    drawn = asyncio.run(ModelExtractor(says).write(Query("q", "Is tea hot?"), [document]))
    assert drawn.facts == []  # its labels are no labels
