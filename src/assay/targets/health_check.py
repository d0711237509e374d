"""Checks the health of one agent: its protocol, sample calls, and each problem with a remedy."""

import asyncio
import time
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from itertools import islice

from assay.data.dataset import Dataset
from assay.errors import AgentFailure, FailureKind, TargetError
from assay.net.json import JsonObject, parse_json
from assay.net.outbound import UNRESTRICTED, OutboundPolicy
from assay.net.redact import mask_secrets, printable, redact_known, redact_url
from assay.run.calls import with_quote
from assay.targets.a2a.agent import PLAIN_TEXT_HINT, A2AAgent, parse_fragment_options
from assay.targets.a2a.card import WELL_KNOWN, Finding, base_address
from assay.targets.chunks import suggest_separator
from assay.targets.opening import parse_target, redact_target
from assay.targets.probe import probe
from assay.targets.protocol import Agent, AgentAnswer, ReadsAnswers
from assay.targets.remedies import USUAL, remedy_for
from assay.targets.suggestion import suggest_answer, suggest_mapping
from assay.targets.target_kinds import TARGET_KINDS, Target, TargetKind

_RAW_LENGTH = 600
_ANSWER_LENGTH = 120
_NO_ANSWER = "no answer text was read: --answers has nothing to evaluate"
_NO_DOCUMENTS = "built-in targets search a data set, and none is loaded here; try: assay eval {}"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of an agent; `grave` if it prevents an evaluation."""

    what: str
    remedy: str
    grave: bool


@dataclass(frozen=True, slots=True)
class SampleCall:
    """A sample call: `way` is how it was made, `failure` is empty if it succeeded."""

    way: str
    milliseconds: float
    doc_ids: tuple[str, ...] = ()
    failure: str = ""
    message: str = ""
    raw: str = ""
    """The start of the answer as it came, if the target's answers are read by a mapping."""
    suggestion: str = ""
    """The mapping that would find ids of the data set in it, if the given one does not."""
    answer: str | None = None
    """The start of the text that was read from it; None if it has none."""
    answer_length: int = 0
    citations: int = 0
    status: int | None = None
    """The HTTP status of a failed call, if there was one."""
    answer_mapping: str = ""
    """The mapping that would read a text from it, if none was read."""


@dataclass(frozen=True)
class HealthReport:
    """What was found out about one agent.

    `card` is the agent's card as it is served, if there is one.
    """

    url: str
    protocol: str
    target: str
    details: str = ""
    card_place: str = ""
    card: JsonObject | None = None
    interfaces: tuple[str, ...] = ()
    calls: tuple[SampleCall, ...] = ()
    problems: tuple[Problem, ...] = ()
    dataset: str = ""
    known_ids: int | None = None
    """How many ids of the first call are documents of the data set; None without one."""

    @property
    def healthy(self) -> bool:
        """Whether the agent can be evaluated."""
        return not any(problem.grave for problem in self.problems)


@dataclass(frozen=True, slots=True)
class SampleQuery:
    """What the sample calls ask for, and how long they may take."""

    query: str = "Does vitamin D lower blood pressure?"
    top_k: int = 5
    timeout: float = 60.0
    answers: bool = False
    """Whether answers are to be evaluated: one without a text is then a problem."""


def query_of(data: Dataset | None) -> str:
    """A query of the data set that has a relevant document; the usual one without a data set."""
    for judgments in data.judgments.values() if data is not None else ():
        for query_id, grades in judgments.items():
            if data is not None and query_id in data.queries and max(grades.values(), default=0):
                return data.queries[query_id].text
    return SampleQuery().query


async def check_health(
    url: str,
    sample: SampleQuery,
    build: Callable[[Target], Agent],
    policy: OutboundPolicy = UNRESTRICTED,
    *,
    dataset: Dataset | None = None,
) -> HealthReport:
    """Find out what an agent speaks, call it, and list what is wrong.

    Parameters:
        url: a bare address, or any target.
        sample: what to ask.
        build: opens a target.
        policy: which addresses may be called to find out what is there.
        dataset: the data set whose ids the answers should hold.

    Raises `TargetError` if the agent cannot be reached.
    """
    known = frozenset() if dataset is None else dataset.known_ids
    try:
        target = parse_target(mask_secrets(url))
        if target.kind == "url":
            target = parse_target(await probe(target.address, policy))
        report = await _examine(target, sample, build, known)
    except TargetError as error:
        raise type(error)(redact_known(str(error))) from error
    return report if dataset is None else _with_dataset(report, dataset)


async def _examine(
    target: Target, sample: SampleQuery, build: Callable[[Target], Agent], known: Container[str]
) -> HealthReport:
    agent = build(target)
    facts = HealthReport(
        url=redact_target(target.address),
        protocol=target.kind,
        target=redact_target(str(target)),
    )
    if not isinstance(agent, A2AAgent):
        call = await _opened_call(agent, "sample", sample, known)
        problems = _about_calls([call], sample, target)
        return replace(facts, details=agent.info.details, calls=(call,), problems=tuple(problems))
    way = "streaming" if "stream" in parse_fragment_options(target.fragment) else "blocking"
    calls = [await _opened_call(agent, way, sample, known)]
    if agent.card.streaming and way == "blocking":
        streaming = build(replace(target, fragment=f"{target.fragment},stream".lstrip(",")))
        calls.append(await _opened_call(streaming, "streaming", sample, known))
    findings = [*agent.findings, *_about_place(agent.found.place)]
    problems = [Problem(redact_known(each.what), each.remedy, grave=False) for each in findings]
    shown = redact_url(base_address(target.address))
    return replace(
        facts,
        url=shown,
        target=redact_target(str(replace(target, address=shown))),
        details=agent.info.details,
        card_place=redact_url(agent.found.place),
        card=parse_json(agent.found.document),
        interfaces=tuple(
            f"{each.binding} {each.declared or '?'} {redact_url(each.url)}"
            for each in agent.card.interfaces
        ),
        calls=tuple(calls),
        problems=(*problems, *_about_calls(calls, sample)),
    )


async def _opened_call(
    agent: Agent, way: str, sample: SampleQuery, known: Container[str]
) -> SampleCall:
    try:
        await agent.open()
        return await _call(agent, way, sample, known)
    finally:
        await agent.close()


async def _call(agent: Agent, way: str, sample: SampleQuery, known: Container[str]) -> SampleCall:
    started = time.perf_counter()
    answer = AgentAnswer(())
    failure = message = ""
    status: int | None = None
    try:
        async with asyncio.timeout(sample.timeout):
            answer = await agent.ask(sample.query, sample.top_k)
    except AgentFailure as error:
        failure, message = str(error.kind), redact_known(with_quote(str(error), error.said))
        status = error.status
    except TimeoutError:
        failure, message = str(FailureKind.TIMEOUT), f"no answer within {sample.timeout:g} s"
    milliseconds = (time.perf_counter() - started) * 1000
    doc_ids = tuple(map(redact_known, answer.doc_ids))
    call = SampleCall(way, milliseconds, doc_ids, failure, message, status=status)
    if answer.answer is not None:
        start = printable(" ".join(redact_known(answer.answer).split())[:_ANSWER_LENGTH])
        length, cited = len(answer.answer), len(answer.citations)
        call = replace(call, answer=start, answer_length=length, citations=cited)
    received = agent.reader.last if isinstance(agent, ReadsAnswers) else None
    if received is None:
        return call
    raw = printable(" ".join(redact_known(received.text).split())[:_RAW_LENGTH])
    suggestion = path = ""
    if not any(each in known for each in answer.doc_ids):
        suggestion = suggest_mapping(received.value, received.text, known)
    if not answer.answer:
        path = suggest_answer(received.value, sample.query)
    return replace(call, raw=raw, suggestion=suggestion, answer_mapping=path and f"answer={path}")


def _with_dataset(report: HealthReport, dataset: Dataset) -> HealthReport:
    """The report with what the data set says about the ids of the first call."""
    call = report.calls[0]
    known = sum(each in dataset.known_ids for each in call.doc_ids)
    problems = list(report.problems)
    separator = suggest_separator(call.doc_ids, dataset.known_ids)
    hint = f"try: --map '{call.suggestion}'" if call.suggestion else ""
    if separator is not None:
        hint = f"these look like chunks of documents; try: --map 'chunk={separator}'"
    elif PLAIN_TEXT_HINT in call.message:
        hint = f"{PLAIN_TEXT_HINT}{hint and '; else '}{hint}"
    refused = call.message.startswith(f"--map {call.suggestion}:")  # it says what to write instead
    if call.failure and hint and not refused:
        problems = [replace(each, remedy=hint) if each.grave else each for each in problems]
    elif call.doc_ids and not known:
        ours = ", ".join(repr(each) for each in islice(dataset.known_ids, 2))
        theirs = ", ".join(repr(each[:40]) for each in call.doc_ids[:2])
        what = f"no id is a document of {dataset.name!r}: got {theirs}; it has ids such as {ours}"
        remedy = hint or "map the field with these ids, --map ids=EXPR, or use another --dataset"
        problems.append(Problem(what, remedy, grave=dataset.corpus_ids is not None))
    elif dataset.documents and known < len(call.doc_ids):
        what = f"{len(call.doc_ids) - known} of {len(call.doc_ids)} ids are not in {dataset.name!r}"
        remedy = "unknown ids score nothing: search the documents of the data set alone"
        problems.append(Problem(what, remedy, grave=False))
    elif not call.doc_ids and not call.failure:
        remedy = hint or "see the raw answer: name the field with --map ids=EXPR"
        problems = [replace(each, remedy=remedy) for each in problems]
    return replace(report, problems=tuple(problems), dataset=dataset.name, known_ids=known)


def _about_place(place: str) -> list[Finding]:
    if place.endswith(WELL_KNOWN[0]):
        return []
    what = f"the card is not at {WELL_KNOWN[0]}, where current clients look"
    return [Finding(what, f"serve it there too; it was found at {redact_url(place)}")]


def _about_calls(
    calls: list[SampleCall], sample: SampleQuery, target: Target | None = None
) -> list[Problem]:
    kind = None if target is None else TARGET_KINDS[target.kind]
    problems: dict[Problem, None] = {}
    for call in calls:
        if call.failure:
            what = f"the {call.way} call failed, {call.failure}: {call.message}"
            remedy = remedy_for(call.failure, call.status, kind.remedies if kind else USUAL)
            if sample.answers and call.answer_mapping:
                remedy += f"; if it only answers, try: --map '{call.answer_mapping}'"
            problems[Problem(what, remedy, grave=True)] = None
        elif not call.doc_ids and kind and kind.searches_dataset:
            remedy = _NO_DOCUMENTS.format(target)
            problems[Problem("the answer has no ids", remedy, grave=False)] = None
        else:
            problems.update(dict.fromkeys(_about_ids(call.doc_ids, sample.top_k)))
        if sample.answers and not call.failure and not call.answer:
            hint = f"try: --map '{call.answer_mapping}'" if call.answer_mapping else ""
            problems[Problem(_NO_ANSWER, hint or _answer_remedy(kind), grave=True)] = None
    return list(problems)


def _answer_remedy(kind: TargetKind | None) -> str:
    if kind is not None and kind.name == "rest":
        return "name the field that holds it: --map answer=EXPR"
    return 'answer with {"doc_ids": [...], "answer": "..."}, or evaluate without --answers'


def _about_ids(doc_ids: tuple[str, ...], top_k: int) -> list[Problem]:
    problems = []
    if not doc_ids:
        remedy = "ask something that the agent should know, with --query"
        problems.append(Problem("the answer has no ids", remedy, grave=False))
    if len(doc_ids) > top_k:
        what = f"the answer has {len(doc_ids)} ids, top_k is {top_k}"
        problems.append(Problem(what, "send at most top_k: the rest scores nothing", grave=False))
    if len(set(doc_ids)) < len(doc_ids):
        remedy = "send each id once: a repeat scores nothing and takes a place"
        problems.append(Problem("the answer has duplicate ids", remedy, grave=False))
    return problems
