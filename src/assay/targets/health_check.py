"""Checks the health of one agent: its protocol, sample calls, and each problem with a remedy."""

import asyncio
import time
from collections.abc import Callable, Container, Mapping
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
    answer_mapping: tuple[str, ...] = ()
    """The mappings that would read a text and its passages from it, where none was read."""

    @property
    def maps(self) -> str:
        """These mappings as options."""
        return " ".join(f"--map '{each}'" for each in self.answer_mapping)


@dataclass(frozen=True)
class HealthReport:
    """What was found out about one agent.

    `card` is the agent's card as it is served, if there is one.
    """

    url: str
    protocol: str
    target: str
    details: str
    card_place: str
    card: JsonObject | None
    interfaces: tuple[str, ...]
    calls: tuple[SampleCall, ...]
    problems: tuple[Problem, ...]
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
    mapping: Mapping[str, str] | None = None,
) -> HealthReport:
    """Find out what an agent speaks, call it, and list what is wrong.

    Parameters:
        url: a bare address, or any target.
        sample: what to ask.
        build: opens targets other than `a2a:`.
        policy: which addresses may be called.
        dataset: the data set whose ids the answers should hold.
        mapping: where the answers of `a2a:` targets have their ids.

    Raises `TargetError` if the agent cannot be reached.
    """
    url = mask_secrets(url)
    try:
        report = await _examine(url, sample, build, policy, dataset, mapping)
    except TargetError as error:
        raise type(error)(redact_known(str(error))) from error
    calls = [
        replace(
            each,
            doc_ids=tuple(map(redact_known, each.doc_ids)),
            message=redact_known(each.message),
            raw=redact_known(each.raw),
            answer=None if each.answer is None else redact_known(each.answer),
        )
        for each in report.calls
    ]
    problems = [replace(each, what=redact_known(each.what)) for each in report.problems]
    return replace(report, calls=tuple(calls), problems=tuple(problems))


async def _examine(
    url: str,
    sample: SampleQuery,
    build: Callable[[Target], Agent],
    policy: OutboundPolicy,
    dataset: Dataset | None,
    mapping: Mapping[str, str] | None,
) -> HealthReport:
    target = parse_target(url)
    if target.kind == "url":
        target = parse_target(await probe(target.address, policy))
    documents = frozenset() if dataset is None else dataset.known_ids
    if target.kind == "a2a":
        plain = "text" in parse_fragment_options(target.fragment)

        def agent(streaming: bool) -> A2AAgent:
            return A2AAgent(
                target.address,
                streaming=streaming,
                policy=policy,
                mapping=mapping,
                known=documents,
                plain_text=plain,
            )

        report = await _check_a2a(target, sample, (agent(False), agent(True)), documents)
    else:
        report = await _check_other(target, sample, build, documents)
    return report if dataset is None else _with_dataset(report, dataset)


async def _check_a2a(
    target: Target, sample: SampleQuery, agents: tuple[A2AAgent, A2AAgent], known: Container[str]
) -> HealthReport:
    agent, streaming = agents
    url = target.address
    try:
        await agent.open()
        calls = [await _call(agent, "blocking", sample, known)]
        if agent.card.streaming:
            calls.append(await _opened_call(streaming, "streaming", sample, known))
    finally:
        await agent.close()
    base = base_address(url)
    findings = [*agent.findings, *_about_place(agent.found.place)]
    problems = [Problem(each.what, each.remedy, grave=False) for each in findings]
    return HealthReport(
        url=redact_url(base),
        protocol="a2a",
        target=redact_target(str(replace(target, address=redact_url(base)))),
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


async def _check_other(
    target: Target,
    sample: SampleQuery,
    build: Callable[[Target], Agent],
    known: Container[str],
) -> HealthReport:
    agent = build(target)
    call = await _opened_call(agent, "sample", sample, known)
    return HealthReport(
        url=redact_target(target.address),
        protocol=target.kind,
        target=redact_target(str(target)),
        details=agent.info.details,
        card_place="",
        card=None,
        interfaces=(),
        calls=(call,),
        problems=tuple(_about_calls([call], sample, target)),
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
        failure, message = str(error.kind), with_quote(str(error), error.said)
        status = error.status
    except TimeoutError:
        failure, message = str(FailureKind.TIMEOUT), f"no answer within {sample.timeout:g} s"
    milliseconds = (time.perf_counter() - started) * 1000
    call = SampleCall(way, milliseconds, answer.doc_ids, failure, message, status=status)
    if answer.answer is not None:
        start = printable(" ".join(answer.answer.split())[:_ANSWER_LENGTH])
        length, cited = len(answer.answer), len(answer.citations)
        call = replace(call, answer=start, answer_length=length, citations=cited)
    received = agent.reader.last if isinstance(agent, ReadsAnswers) else None
    if received is None:
        return call
    raw = printable(" ".join(received.text.split())[:_RAW_LENGTH])
    suggestion = ""
    if not any(each in known for each in answer.doc_ids):
        suggestion = suggest_mapping(received.value, received.text, known)
    read = {"answer": answer.answer, "contexts": answer.contexts}
    found = suggest_answer(received.value, sample.query)
    more = tuple(f"{key}={path}" for key, path in found.items() if not read[key])
    return replace(call, raw=raw, suggestion=suggestion, answer_mapping=more)


def _with_dataset(report: HealthReport, dataset: Dataset) -> HealthReport:
    """The report with what the data set says about the ids of the first call."""
    call = report.calls[0]
    known = sum(each in dataset.known_ids for each in call.doc_ids)
    problems = list(report.problems)
    separator = suggest_separator(call.doc_ids, dataset.known_ids)
    hint = f"try: --map '{call.suggestion}'" if call.suggestion else ""
    if separator is not None:
        hint = f"these look like chunks of documents; try: --chunk-separator '{separator}'"
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
            if sample.answers and (maps := _maps(call)):
                remedy += f"; for an application that only answers, {maps}"
            problems[Problem(what, remedy, grave=True)] = None
        elif not call.doc_ids and kind and kind.searches_dataset:
            remedy = _NO_DOCUMENTS.format(target)
            problems[Problem("the answer has no ids", remedy, grave=False)] = None
        else:
            problems.update(dict.fromkeys(_about_ids(call.doc_ids, sample.top_k)))
        if sample.answers and not call.failure and not call.answer:
            remedy = _maps(call) or _answer_remedy(kind)
            problems[Problem(_NO_ANSWER, remedy, grave=True)] = None
    return list(problems)


def _maps(call: SampleCall) -> str:
    answers = any(each.startswith("answer=") for each in call.answer_mapping)
    return f"try: {call.maps}" if answers else ""


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
