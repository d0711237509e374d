"""Answers that were logged elsewhere: question, contexts, answer, and what was expected."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any, NamedTuple, NoReturn

from assay.data.dataset import Fact
from assay.data.table import cell_list, first_value, parsed_cell
from assay.data.text_file import Record, short_repr, spelling
from assay.errors import DataError
from assay.net.json import JsonObject

# What a row may hold, and the column names that are known for it, first match first. `actualOutput`
# is `actual_output`. A column of `_NESTED` that holds an object stands for its keys.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "query", "user_input", "input", "query_text"),
    "answer": ("answer", "response", "actual_output", "output"),
    "contexts": (
        "contexts",
        "retrieved_contexts",
        "retrieval_context",
        "context",
        "documents",
        "source_documents",
    ),
    "reference": (
        "reference",
        "ground_truth",
        "ground_truths",
        "expected_output",
        "reference_answer",
        "ground_truth_answer",
    ),
    "citations": ("citations",),
    "relevant": ("relevant", "reference_contexts"),
    "facts": ("facts",),
    "answerable": ("answerable",),
    "id": ("id", "query_id"),
}

# Langfuse, LangSmith and promptfoo have the columns in these.
_NESTED = ("input", "inputs", "output", "outputs", "vars", "response")
_TEXTS = ("text", "content", "page_content", "pageContent", "document.content")
# Of 1 and 0 in a column with gaps, data frames make 1.0 and 0.0.
_YES, _NO = ("true", "1", "1.0", "yes"), ("false", "0", "0.0", "no")
_IDS = ("id", "doc_id", "chunk_id", "document.id")


class LoggedContext(NamedTuple):
    """A text that the model was given; `id` or `text` is empty if the log has none."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class LoggedAnswer:
    """One row of a log; `id` is the row's number if it has none.

    `answer` is None if the application failed, `answerable` and `citations` if the log does not
    say; citations are ids of contexts or their places from 1. `relevant` are ids or texts of the
    contexts that should have been retrieved, `facts` what a right answer must state.
    """

    id: str
    question: str
    answer: str | None
    contexts: tuple[LoggedContext, ...] = ()
    reference: str = ""
    answerable: bool | None = None
    citations: tuple[str, ...] | None = None
    relevant: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()


def looks_logged(fields: JsonObject) -> bool:
    """Whether an object is a row of answers, and not a ranking by query id."""
    fields = _flatten(fields)
    answers = [fields[name] for name in COLUMNS["answer"] if name in fields]
    asked = any(isinstance(fields.get(name), str) for name in COLUMNS["question"])
    return bool(answers) and asked and (answers[0] is None or isinstance(answers[0], str))


def _flatten(fields: JsonObject) -> JsonObject:
    """The columns of a row, with those of objects in it."""
    flat = {spelling(name): value for name, value in fields.items()}
    for name in _NESTED:
        value = parsed_cell(flat.get(name))
        if isinstance(value, Mapping):
            del flat[name]
            for key, inside in value.items():
                flat.setdefault(spelling(key), inside)
    return flat


def read_logged(
    rows: Iterable[Record | DataError], columns: Mapping[str, str] | None = None
) -> Iterator[LoggedAnswer | DataError]:
    """Each row as a logged answer, or as the error that names its line."""
    for row in rows:
        try:
            yield row if isinstance(row, DataError) else _Row(row, columns or {}).read()
        except DataError as error:
            yield error


class _Row:
    """The columns of a row by key; `names` says which column holds each, in this row."""

    def __init__(self, record: Record, given: Mapping[str, str]) -> None:
        self.record = record
        self.names = dict(given)
        self.values = {key: _look_up(record, name) for key, name in given.items()}
        flat = _flatten(record.fields)
        for key, aliases in COLUMNS.items():
            name = next((name for name in aliases if name in flat), None)
            if key not in given and name is not None:
                self.names[key], self.values[key] = name, flat[name]
            if isinstance(value := self.values.get(key), float) and isnan(value):
                self.values[key] = None  # a data frame's gap

    def read(self) -> LoggedAnswer:
        for key in ("question", "answer"):
            if key not in self.names:
                known, have = ", ".join(COLUMNS[key]), ", ".join(column_paths(self.record.fields))
                self.record.fail(
                    f"has no column for the {key} ({known}), only {have[:300]}; pass --columns "
                    f'{key}=NAME, in Python columns={{"{key}": "NAME"}}'
                )
        question, answer = self.text("question"), self.text("answer")
        if not (question or "").strip():
            self.record.fail("has no question")
        references = self.values.get("reference")
        if isinstance(references, list):
            self.values["reference"] = next(iter(references), None)
        reference = self.text("reference")
        given = self.values.get("answerable")
        answerable = "" if given is None else str(given).strip().lower()
        if answerable not in ("", *_YES, *_NO):
            self.wrong("answerable", "true or false")
        identifier = self.values.get("id")
        if isinstance(identifier, bool | dict | list) or not str(identifier or "").strip():
            identifier = self.record.number
        try:
            facts = [Fact.read(fact, reference) for fact in cell_list(self.values.get("facts"))]
        except ValueError as error:
            self.record.fail(f"{self.names['facts']!r}: {error}")
        return LoggedAnswer(
            id=str(identifier),
            question=question or "",
            answer=answer,
            contexts=tuple(map(self.context, cell_list(self.values.get("contexts")))),
            reference=(reference or "").strip(),
            answerable=answerable in _YES if answerable else None,
            citations=self.strings("citations") if "citations" in self.names else None,
            relevant=self.strings("relevant"),
            facts=tuple(facts),
        )

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if not isinstance(value, str | None):
            self.wrong(key, "a string or null")
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        items = cell_list(self.values.get(key))
        texts = [first_value(item, _TEXTS) if isinstance(item, dict) else item for item in items]
        if not all(isinstance(text, str | int) for text in texts):
            self.wrong(key, "a list of strings")
        return tuple(map(str, texts))

    def context(self, item: Any) -> LoggedContext:
        if isinstance(item, str):
            return LoggedContext("", item)
        fields = item if isinstance(item, dict) else {}
        found, text = first_value(fields, _IDS) or "", first_value(fields, _TEXTS) or ""
        if not isinstance(text, str) or not (found or text):
            self.wrong("contexts", 'a list of texts or of {"id", "text"}')
        return LoggedContext(str(found), text)

    def wrong(self, key: str, expected: str) -> NoReturn:
        got = short_repr(self.values.get(key))
        self.record.fail(f"{self.names[key]!r} must be {expected}, got {got}")


def column_paths(fields: JsonObject) -> Iterator[str]:
    """The names that `--columns` takes, with those inside JSON cells: `output.content`."""
    for name, value in fields.items():
        inside = parsed_cell(value)
        keys = list(inside) if isinstance(inside, Mapping) else []
        yield from (f"{name}.{key}" for key in keys) if keys else (str(name),)


def _look_up(row: Record, name: str) -> Any:
    """A column by its name, or by a path into JSON cells: `output.documents[].content`."""
    if name in row.fields:
        return row.fields[name]
    found: list[Any] = [row.fields]
    for part in name.split("."):
        key = part.removesuffix("[]")
        for value in found:
            if not isinstance(value, Mapping) or key not in value:
                have = short_repr(list(value) if isinstance(value, Mapping) else value)
                row.fail(f"has no {key!r} of --columns {name!r}, only {have}")
        found = [parsed_cell(value[key]) for value in found]
        if part != key:
            found = [item for value in found for item in cell_list(value)]
    return found if "[]" in name else found[0]
