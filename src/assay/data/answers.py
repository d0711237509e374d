"""Reference answers: what a right answer says, and which facts it must contain."""

from collections.abc import Container
from typing import Any

from assay.data.dataset import Fact, ReferenceAnswer
from assay.data.findings import Findings
from assay.data.json_lines import Record, read_by_id, shown
from assay.data.text_file import TextFile


def read_answers(
    file: TextFile, documents: Container[str], queries: Container[str], findings: Findings
) -> dict[str, ReferenceAnswer]:
    """Answers to queries that are not there are left out, as judgments for them are."""
    answers = read_by_id(file, "query_id", _answer, findings)
    for query_id in [query_id for query_id in answers if query_id not in queries]:
        del answers[query_id]
        what = f"{file.name}: answers dropped, since queries.jsonl lacks their query"
        findings.note(what, f"query {query_id!r}")
    for answer in answers.values():
        for document_id in answer.documents:
            if document_id not in documents:
                what = f"{file.name}: answers that name a document that corpus.jsonl lacks"
                findings.note(what, f"{document_id!r} for query {answer.query_id!r}")
    return answers


def _answer(record: Record, query_id: str) -> ReferenceAnswer:
    if "answer" not in record.fields:
        raise record.refusal(
            f"query {query_id!r} has no 'answer'; write null where the documents hold none"
        )
    answer = None if record.fields["answer"] is None else record.text("answer")
    facts = tuple(_fact(record, value) for value in _list(record, record.fields, "facts"))
    return ReferenceAnswer(query_id, answer, facts, _texts(record, record.fields, "documents"))


def _fact(record: Record, value: object) -> Fact:
    """A fact without `accept`, or given as bare text, is stated by its own words."""
    fields = value if isinstance(value, dict) else {"text": value}
    text = fields.get("text")
    if not isinstance(text, str) or not text.strip():
        raise record.refusal(f'a fact must be {{"text": ..., "accept": [...]}}, got {shown(value)}')
    return Fact(text, _texts(record, fields, "accept") or (text,))


def _texts(record: Record, fields: dict[str, Any], key: str) -> tuple[str, ...]:
    values = _list(record, fields, key)
    for value in values:
        if not isinstance(value, str) or not value.strip():
            raise record.refusal(f"{key!r} must hold texts that are not empty, got {shown(value)}")
    return tuple(values)


def _list(record: Record, fields: dict[str, Any], key: str) -> list[Any]:
    values = fields.get(key)
    if values is None:
        return []
    if not isinstance(values, list):
        raise record.refusal(f"{key!r} must be a list, got {shown(values)}")
    return values
