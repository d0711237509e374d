"""Listeners: programs that hear of every run, such as experiment trackers.

with RunListeners(["otel", MyListener()], say=print) as listeners:
    listeners.started(folder)
    listeners.finished(run)

A run never fails because of a listener, and waits at most a minute for one. `otel` sends every
question as an OpenTelemetry trace when the run ends; its attributes are those of OpenTelemetry's
GenAI conventions and of OpenInference, so that Langfuse, Phoenix and `assay score` read them.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import Any, Protocol
from urllib.parse import unquote

import orjson

from assay.errors import AssayError, UsageError
from assay.evaluation.run import Run
from assay.extras import find_plugin, load_plugin
from assay.net.client import open_client
from assay.net.json import JsonObject
from assay.net.redact import mask_secrets, redact_secrets
from assay.privacy import is_private
from assay.run.folder import RunFolder
from assay.run.models import AnswerRow, QueryRow
from assay.steps import SearchStep, StepLog
from assay.targets.python_call import load_object
from assay.text import parse_time

GROUP = "assay.listeners"
SECONDS = 60.0  # how long a run waits for one call of a listener


class RunListener(Protocol):
    """What listens to runs. `on_fail(folder)` is called, if it exists, for a run that breaks off
    with an error after it was started.
    """

    def on_start(self, folder: RunFolder) -> None:
        """The run's folder exists, with its settings in `run.json`; no query was asked yet."""

    def on_finish(self, run: Run) -> None:
        """The run has ended, complete or not, and its report, page and comparison are written."""


def open_listener(name: str) -> Any:
    """`otel`, the name of a plug-in, or `module:Class`. Raises `UsageError`."""
    if name == "otel":
        return OtelListener()
    if (point := find_plugin(GROUP, name)) is not None:
        made = load_plugin(point)
    elif ":" in name:
        made = load_object(name)
    else:
        raise UsageError(f"no listener {name!r}; use otel, an installed plug-in, or module:Class")
    try:
        return made()
    except AssayError:
        raise
    except Exception as error:
        raise UsageError(f"listener {name!r} cannot be opened: {_quote(error)}") from error


class RunListeners:
    """All listeners of one run, as a context manager around it.

    `listeners` are names, or objects with the methods of `RunListener`; `say` is told what they
    raise.
    """

    def __init__(self, listeners: Sequence[str | RunListener], say: Callable[[str], None]) -> None:
        self._listeners: list[tuple[str, Any]] = []
        for each in listeners:
            name = each if isinstance(each, str) else type(each).__name__
            listener = open_listener(each) if isinstance(each, str) else each
            for method in ("on_start", "on_finish"):
                if not callable(getattr(listener, method, None)):
                    raise UsageError(f"listener {name!r} has no method {method}")
            self._listeners.append((name, listener))
        self._say = say
        self._open: RunFolder | None = None

    def __enter__(self) -> "RunListeners":
        return self

    def started(self, folder: RunFolder) -> None:
        """Tell that the run's folder exists."""
        self._open = folder
        self._tell("on_start", folder, folder)

    def finished(self, run: Run) -> None:
        """Tell that the run has ended."""
        self._open = None
        self._tell("on_finish", run, run.folder)

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._tell("on_fail", self._open, self._open)

    def _tell(self, method: str, value: RunFolder | Run, folder: RunFolder) -> None:
        for name, listener in self._listeners:
            where, call = f"warning: listener {name!r}", getattr(listener, method, None)
            if call is None:
                continue
            # Not of an executor, whose threads the end of the process waits for.
            work = partial(copy_context().run, self._call, where, call, value, folder)
            thread = threading.Thread(target=work, name=f"listener-{name}", daemon=True)
            thread.start()
            thread.join(SECONDS)
            if thread.is_alive():
                self._say(
                    f"{where} has not returned from {method} within {SECONDS:g} s; the run goes "
                    "on without it"
                )

    def _call(
        self, where: str, call: Callable[[Any], None], value: RunFolder | Run, folder: RunFolder
    ) -> None:
        try:
            call(value)
        except (Exception, SystemExit) as error:
            private = True
            with suppress(AssayError):  # a header that cannot be read is reported elsewhere
                private = is_private() or folder.read_config().private
            said = _quote(error, private=private)
            self._say(f"{where} failed in {call.__name__}: {said}; the run is not affected")


def _quote(error: BaseException, private: bool = False) -> str:
    """One line without secrets; of a private run the kind alone, as it may quote a text."""
    first = redact_secrets(str(mask_secrets(str(error).strip().partition("\n")[0])))
    return f"{type(error).__name__}: {first}" if first and not private else type(error).__name__


DEFAULT_ENDPOINT = "http://localhost:4318"
TIMEOUT_S = 10.0
# A collector takes 4 MB by default; a question with its events is about 5 KB.
QUESTIONS_PER_REQUEST = 200
_INTERNAL, _CLIENT = 1, 3
_ERROR = {"code": 2}


class OtelListener:
    """Sends a finished run to the collector that OpenTelemetry's own variables name."""

    def __init__(self) -> None:
        self._url = traces_url(os.environ)
        self._headers = parse_headers(os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", ""))

    def on_start(self, folder: RunFolder) -> None:
        """A trace is sent as a whole, at the end."""

    def on_finish(self, run: Run) -> None:
        """Send the traces; raises what httpx raises, which ends up as a warning."""
        asyncio.run(self._send(run))

    async def _send(self, run: Run) -> None:
        headers = {**self._headers, "Content-Type": "application/json"}
        async with open_client(timeout=TIMEOUT_S, headers=headers) as client:
            questions = question_spans(run)
            while some := list(islice(questions, QUESTIONS_PER_REQUEST)):
                body = export_request(run, [span for spans in some for span in spans])
                response = await client.post(self._url, content=orjson.dumps(body))
                response.raise_for_status()


def traces_url(env: Mapping[str, str]) -> str:
    """Where traces go: the variable for traces as it is, the one for all signals with its path."""
    if url := env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        return url
    return f"{env.get('OTEL_EXPORTER_OTLP_ENDPOINT', DEFAULT_ENDPOINT).rstrip('/')}/v1/traces"


def parse_headers(text: str) -> dict[str, str]:
    """`api-key=abc,x-tenant=a%20b` as headers. Raises `UsageError`, which quotes no value."""
    headers = dict[str, str]()
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError("OTEL_EXPORTER_OTLP_HEADERS: write NAME=VALUE, separated by commas")
        headers[name.strip()] = unquote(value.strip())
    return headers


def export_request(run: Run, spans: list[JsonObject]) -> JsonObject:
    """The body of an OTLP/HTTP request with JSON."""
    header = run.folder.read_header()
    version = header.versions.get("agent-assay", "")
    resource = {
        "service.name": "assay",
        "service.version": version,
        "assay.run": run.name,
        "assay.target": header.target.name,
        "assay.dataset": header.dataset.name,
    }
    scope = {"scope": {"name": "assay", "version": version}, "spans": spans}
    return {
        "resourceSpans": [
            {"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scope]}
        ]
    }


def question_spans(run: Run) -> Iterator[list[JsonObject]]:
    """The spans of each question: the question itself first, then its searches."""
    header = run.folder.read_header()
    started = parse_time(header.started).timestamp()
    private = is_private() or header.config.private
    answers = {row.query_id: row for row in run.answers()}
    log = StepLog(run.folder / "steps.jsonl")
    for row in run.rows():
        steps = log.read(row.query_id) or log.read(row.query_id, 1)  # 1: the first of --repeat
        if not steps:
            found = tuple(row.retrieved_docs)
            steps = (SearchStep(tool="search", query=row.query_text, doc_ids=found),)
        answer, end = answers.get(row.query_id), started + row.at
        begin = end - row.latency_ms / 1000
        about = {
            "gen_ai.operation.name": "invoke_agent",
            "openinference.span.kind": "CHAIN",
            "assay.query_id": row.query_id,
        }
        if not private:
            about["input.value"] = row.query_text
            about |= {"output.value": answer.answer} if answer and answer.answer else {}
        digest = sha256(f"{run.name}\0{row.query_id}".encode()).hexdigest()
        root_id = digest[32:48]
        root = _span(digest, root_id, "question", _INTERNAL, (begin, end), about)
        root["events"] = _results(row, answer, _nanoseconds(end))
        root["status"] = {} if row.status == "ok" else {**_ERROR, "message": row.failure}
        spans = [root]
        for number, step in enumerate(steps):
            span_id = sha256(f"{digest}{number}".encode()).hexdigest()[:16]
            times = begin, begin + (step.ms or row.latency_ms) / 1000
            name = f"retrieval {step.tool}"
            span = _span(digest, span_id, name, _CLIENT, times, _search(step, private))
            spans.append({**span, "parentSpanId": root_id})
        yield spans


def _span(
    digest: str,
    id: str,
    name: str,
    kind: int,
    times: tuple[float, float],
    about: Mapping[str, Any],
) -> JsonObject:
    start, end = map(_nanoseconds, times)
    span = {"traceId": digest[:32], "spanId": id, "name": name, "kind": kind}
    span |= {"startTimeUnixNano": start, "endTimeUnixNano": end, "attributes": _attributes(about)}
    return span


def _search(step: SearchStep, private: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "gen_ai.operation.name": "retrieval",
        "openinference.span.kind": "RETRIEVER",
        "gen_ai.tool.name": step.tool,
    }
    if not private:
        found |= {"gen_ai.retrieval.query.text": step.query, "input.value": step.query}
    for place, doc_id in enumerate(step.doc_ids):
        found[f"retrieval.documents.{place}.document.id"] = doc_id
        if place < len(step.scores):
            found[f"retrieval.documents.{place}.document.score"] = step.scores[place]
    return found


def _results(row: QueryRow, answer: AnswerRow | None, time: str) -> list[JsonObject]:
    """One event a score; `correct` has a label as well."""
    scores: dict[str, float | None] = {**row.scores, **(answer.scores if answer else {})}
    labels = {}
    if answer is not None and answer.correct is not None:
        scores["correctness"] = float(answer.correct)
        labels["correctness"] = "correct" if answer.correct else "incorrect"
    return [
        {
            "timeUnixNano": time,
            "name": "gen_ai.evaluation.result",
            "attributes": _attributes(
                {
                    "gen_ai.evaluation.name": name,
                    "gen_ai.evaluation.score.value": float(value),
                    "gen_ai.evaluation.score.label": labels.get(name),
                }
            ),
        }
        for name, value in scores.items()
        if value is not None
    ]


def _attributes(values: Mapping[str, Any]) -> list[JsonObject]:
    """OTLP's list of typed values; what is None is left out."""
    return [
        {"key": key, "value": {"doubleValue" if isinstance(value, float) else "stringValue": value}}
        for key, value in values.items()
        if value is not None
    ]


def _nanoseconds(seconds: float) -> str:
    # OTLP's JSON has 64-bit integers as text.
    return str(int(seconds * 1e9))
