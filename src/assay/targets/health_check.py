"""Checks the health of one agent: its protocol, a sample call, and each problem with a remedy."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from assay.data.dataset import Dataset
from assay.errors import AgentFailure, FailureKind, TargetError
from assay.net.json import JsonObject, parse_json
from assay.net.outbound import UNRESTRICTED, OutboundPolicy
from assay.net.redact import mask_secrets, printable, redact_known, redact_url
from assay.run.calls import with_quote
from assay.targets.a2a import PLAIN_TEXT_HINT, A2AAgent, parse_fragment_options
from assay.targets.a2a_card import WELL_KNOWN, base_address
from assay.targets.chunks import suggest_separator
from assay.targets.detection import suggest_mapping
from assay.targets.probe import probe
from assay.targets.protocol import Agent, AgentAnswer
from assay.targets.target_kinds import (
    TARGET_KINDS,
    Target,
    parse_target,
    redact_target,
    remedy_for,
)

_RAW_LENGTH = 600
_ANSWER_LENGTH = 120
_NO_ANSWER = "no answer text was read: --answers has nothing to evaluate"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of an agent; `grave` if it prevents an evaluation."""

    what: str
    remedy: str
    grave: bool


@dataclass(frozen=True, slots=True)
class SampleCall:
    """A sample call: `way` is how it was made, `failure` is empty if it succeeded.

    `raw` is the start of the answer as it came, if the target's answers are read by a mapping.
    `suggestion` is the mapping that would find ids of the data set in it, if the given one does
    not. `answer` is the start of the text that was read, None if there is none.
    """

    way: str
    milliseconds: float
    doc_ids: tuple[str, ...] = ()
    failure: str = ""
    message: str = ""
    raw: str = ""
    suggestion: str = ""
    answer: str | None = None
    answer_length: int = 0
    citations: int = 0
    status: int | None = None


@dataclass(frozen=True)
class HealthReport:
    """What was found out about one agent.

    `card` is the agent's card as it is served, if there is one; `known_ids` how many ids of the
    call are documents of the data set, None without one.
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

    @property
    def healthy(self) -> bool:
        """Whether the agent can be evaluated."""
        return not any(problem.grave for problem in self.problems)


@dataclass(frozen=True, slots=True)
class SampleQuery:
    """What the sample call asks for, and how long it may take.

    With `answers`, an answer without a text is a problem.
    """

    query: str = "Does vitamin D lower blood pressure?"
    top_k: int = 5
    timeout: float = 60.0
    answers: bool = False


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

    `url` is a bare address, or any target, which `build` opens. `policy` says which addresses may
    be called. `dataset` has the ids that the answers should hold.

    Raises `TargetError` if the agent cannot be reached.
    """
    try:
        target = parse_target(mask_secrets(url))
        if target.kind == "url":
            target = parse_target(await probe(target.address, policy))
        agent = build(target)
        try:
            await agent.open()
            call = await _call(agent, target, sample, dataset)
        finally:
            await agent.close()
    except TargetError as error:
        raise type(error)(redact_known(str(error))) from error
    report = HealthReport(
        url=redact_target(target.address),
        protocol=target.kind,
        target=redact_target(str(target)),
        details=agent.info.details,
        calls=(call,),
    )
    problems: list[Problem] = []
    if isinstance(agent, A2AAgent):
        shown = redact_url(base_address(target.address))
        card = agent.card
        report = replace(
            report,
            url=shown,
            target=redact_target(str(replace(target, address=shown))),
            card_place=redact_url(card.place),
            card=parse_json(card.document),
            interfaces=tuple(
                f"JSON-RPC {each.version} {redact_url(each.url)}" for each in card.interfaces
            ),
        )
        problems = [Problem(redact_known(f.what), f.remedy, grave=False) for f in agent.findings]
        if not card.place.endswith(WELL_KNOWN[0]):
            what = f"the card is not at {WELL_KNOWN[0]}, where current clients look"
            remedy = f"serve it there too; it was found at {report.card_place}"
            problems.append(Problem(what, remedy, grave=False))
    problems += _about_call(call, sample, target, dataset)
    if dataset is not None:
        known = sum(each in dataset.known_ids for each in call.doc_ids)
        report = replace(report, dataset=dataset.name, known_ids=known)
    return replace(report, problems=tuple(problems))


async def _call(
    agent: Agent, target: Target, sample: SampleQuery, dataset: Dataset | None
) -> SampleCall:
    way = "sample"
    if isinstance(agent, A2AAgent):
        stream = "stream" in parse_fragment_options(target.fragment)
        way = "streaming" if stream else "blocking"
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
        length, cited = len(answer.answer), len(answer.citations)
        start = _start(answer.answer, _ANSWER_LENGTH)
        call = replace(call, answer=start, answer_length=length, citations=cited)
    reader = getattr(agent, "reader", None)
    received = reader.last if reader else None
    if received is None:
        return call
    known = frozenset() if dataset is None else dataset.known_ids
    suggestion = ""
    if not any(each in known for each in answer.doc_ids):
        suggestion = suggest_mapping(received.value, received.text, known)
    return replace(call, raw=_start(received.text, _RAW_LENGTH), suggestion=suggestion)


def _start(text: str, length: int) -> str:
    return printable(" ".join(redact_known(text).split())[:length])


def _about_call(
    call: SampleCall, sample: SampleQuery, target: Target, dataset: Dataset | None
) -> Iterator[Problem]:
    kind = TARGET_KINDS[target.kind]
    mapping = f"try: --map '{call.suggestion}'" if call.suggestion else ""
    if call.failure:
        what = f"the {call.way} call failed, {call.failure}: {call.message}"
        remedy = remedy_for(call.failure, call.status, kind)
        if PLAIN_TEXT_HINT in call.message:
            remedy = f"{PLAIN_TEXT_HINT}{mapping and '; else '}{mapping}"
        elif mapping and not call.message.startswith(f"--map {call.suggestion}:"):
            remedy = mapping  # a message about this very mapping says what to write instead
        yield Problem(what, remedy, grave=True)
        return
    if not call.doc_ids:
        remedy = mapping or "ask something that it should know, with --query, or --map ids=EXPR"
        if kind.searches_dataset:
            remedy = f"it searches a data set, and none is loaded here; try: assay eval {target}"
        yield Problem("the answer has no ids", remedy, grave=False)
    if sample.answers and not call.answer:
        remedy = 'answer with {"doc_ids": [...], "answer": "..."}, or name it: --map answer=EXPR'
        yield Problem(_NO_ANSWER, remedy, grave=True)
    if len(call.doc_ids) > sample.top_k:
        what = f"the answer has {len(call.doc_ids)} ids, top_k is {sample.top_k}"
        yield Problem(what, "send at most top_k: the rest scores nothing", grave=False)
    if len(set(call.doc_ids)) < len(call.doc_ids):
        remedy = "send each id once: a repeat scores nothing and takes a place"
        yield Problem("the answer has duplicate ids", remedy, grave=False)
    if dataset is None:
        return
    unknown = [each for each in call.doc_ids if each not in dataset.known_ids]
    if unknown and len(unknown) == len(call.doc_ids):
        ours = ", ".join(repr(each) for each in islice(dataset.known_ids, 2))
        theirs = ", ".join(repr(each[:40]) for each in call.doc_ids[:2])
        what = f"no id is a document of {dataset.name!r}: got {theirs}; it has ids such as {ours}"
        remedy = mapping or "map the field with these ids, --map ids=EXPR, or change --dataset"
        if separator := suggest_separator(call.doc_ids, dataset.known_ids):
            remedy = f"these look like chunks of documents; try: --map 'chunk={separator}'"
        yield Problem(what, remedy, grave=dataset.corpus_ids is not None)
    elif dataset.documents and unknown:
        what = f"{len(unknown)} of {len(call.doc_ids)} ids are not in {dataset.name!r}"
        remedy = "unknown ids score nothing: search the documents of the data set alone"
        yield Problem(what, remedy, grave=False)
