"""Targets `http:URL=TASK`: agents that keep the HTTP agent contract, asked sync or as a stream.

`http://host:8000=RAG_RETRIEVE` says the same, and instead of an address there may be a name that
AGENT_ENDPOINTS_JSON knows: `http:agent-rag-retrieve=RAG_RETRIEVE`. With `#stream` at the end, the
agent is asked to stream.
"""

import re
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import httpx

from assay.agents.protocol import AgentAnswer, AgentInfo
from assay.answer.passages import Passage
from assay.contract.client import AgentClient, ClientLimits
from assay.contract.endpoints import read_endpoints, resolve, token_from_environment
from assay.contract.envelope import AgentRunRequest, AgentRunResponse, ErrorCode, split_chunk_id
from assay.contract.responses import AgentCallError, Fault
from assay.data.dataset import Document
from assay.errors import AgentFailure, FailureKind, TargetError, UsageError
from assay.net.client import open_client
from assay.net.outbound import UNRESTRICTED, OutboundPolicy, OutboundRefused
from assay.net.redact import redact_url

_TARGET = re.compile(
    r"(?:(?P<url>https?://[^=#?]+)|http:(?P<agent>[^=#?]+))=(?P<task>[^=#/?]+)(?P<way>#stream)?"
)
_ANSWERS = "RAG_ANSWER"
_RANKS_NOTHING = frozenset({"RAG_INGEST", "POLICY_REVIEW", "CLAIM_VERIFY"})

# How long a call may take is the evaluation's to say, and so is when to stop asking.
_LIMITS = ClientLimits(sync_s=3600.0, stream_s=3600.0, max_bytes=8_000_000)
_NEVER = sys.maxsize

_KINDS = {
    Fault.UNREACHABLE: FailureKind.CONNECTION,
    Fault.TIMEOUT: FailureKind.TIMEOUT,
    Fault.IDLE: FailureKind.TIMEOUT,
    Fault.CIRCUIT_OPEN: FailureKind.CIRCUIT_OPEN,
    Fault.REFUSED: FailureKind.AGENT_ERROR,
    Fault.OVERLOADED: FailureKind.AGENT_ERROR,
    Fault.SERVER_ERROR: FailureKind.AGENT_ERROR,
    Fault.TOO_LARGE: FailureKind.INVALID_ANSWER,
    Fault.CONTENT_TYPE: FailureKind.PROTOCOL,
    Fault.NOT_JSON: FailureKind.PROTOCOL,
    Fault.NOT_CONTRACT: FailureKind.PROTOCOL,
    Fault.FRAMING: FailureKind.PROTOCOL,
    Fault.TRUNCATED: FailureKind.PROTOCOL,
    Fault.SECOND_TERMINAL: FailureKind.PROTOCOL,
    Fault.AFTER_TERMINAL: FailureKind.PROTOCOL,
    Fault.ENDLESS: FailureKind.PROTOCOL,
}


@dataclass(frozen=True, slots=True)
class ContractTarget:
    """`agent` is an address, or a name for one."""

    agent: str
    task: str
    streaming: bool = False


def parse_contract_target(target: str) -> ContractTarget | None:
    """None where it is something else, such as a bare address."""
    match = _TARGET.fullmatch(target)
    if match is None:
        return None
    agent = match["url"] or match["agent"]
    return ContractTarget(agent, match["task"], match["way"] is not None)


class ContractAgent:
    """`documents` are those of the data set: papers are recognised in them by their PubMed ids."""

    def __init__(
        self,
        target: ContractTarget,
        *,
        documents: Iterable[Document] = (),
        track: str = "undeclared",
        policy: OutboundPolicy = UNRESTRICTED,
        limits: ClientLimits = _LIMITS,
    ) -> None:
        if target.task in _RANKS_NOTHING:
            raise UsageError(
                f"{target.task} finds no documents, so there is nothing to measure; "
                "targets are RAG_RETRIEVE, RAG_ANSWER and LIT_RETRIEVAL, or a task like them"
            )
        self._target = target
        self._base = resolve(target.agent, read_endpoints())
        self._policy = policy
        self._limits = limits
        self._reader = OutputReader(documents)
        self._http: httpx.AsyncClient | None = None
        self._client: AgentClient | None = None
        way = "#stream" if target.streaming else ""
        agent = redact_url(target.agent) if "://" in target.agent else target.agent
        name = f"http:{agent}={target.task}{way}"
        self.info = AgentInfo(name=name, protocol="http", track=track)

    async def open(self) -> None:
        try:
            self._policy.check_url(self._base)
        except OutboundRefused as error:
            raise TargetError(str(error)) from None
        self._http = open_client(self._policy)
        # Ours to give where the user named the agent, not where a stranger did.
        token = None if self._policy.public_only else token_from_environment()
        self._client = AgentClient(
            http=self._http,
            endpoints={},
            limits=self._limits,
            token=token,
            failures_to_open=_NEVER,
        )
        await self._expect_somebody(self._http)

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        return await self._answer(_inputs(self._target.task, query, top_k))

    @property
    def takes_context(self) -> bool:
        """As far as the task goes; whether this agent heeds it shows in what it rests on."""
        return self._target.task == _ANSWERS

    async def answer_from(self, query: str, passages: Sequence[Passage]) -> AgentAnswer:
        pack = {"chunks": [_chunk(passage) for passage in passages], "citations": []}
        inputs = _inputs(self._target.task, query, max(1, len(passages)))
        answer = await self._answer({**inputs, "groundingPack": pack})
        if not {passage.id for passage in passages}.issuperset(answer.doc_ids):
            message = "the agent searched, instead of answering from the grounding it was given"
            raise AgentFailure(FailureKind.INVALID_ANSWER, message)
        return answer

    async def _answer(self, inputs: Mapping[str, Any]) -> AgentAnswer:
        request = AgentRunRequest(
            request_id=f"assay-{uuid.uuid4().hex}",
            task_type=self._target.task,
            inputs=dict(inputs),
        )
        try:
            response = await self._run(request)
        except AgentCallError as error:
            raise _failure(error) from None
        if not response.ok:
            raise _refusal(response)
        return self._reader.read(response)

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = self._client = None

    async def _run(self, request: AgentRunRequest) -> AgentRunResponse:
        assert self._client is not None, "open() comes before ask()"
        if not self._target.streaming:
            return await self._client.run_sync(self._base, request)
        async with aclosing(self._client.run_stream(self._base, request)) as events:
            async for event in events:
                if event.response is not None:
                    return event.response
        raise AssertionError("a stream ends in a response or an error")

    async def _expect_somebody(self, http: httpx.AsyncClient) -> None:
        """Any answer will do: whether it is a good one comes out when the agent is asked."""
        try:
            await http.get(f"{self._base}/health", timeout=self._limits.connect_s)
        except httpx.HTTPError as error:
            await self.close()
            where = redact_url(self._base)
            raise TargetError(
                f"no answer from {where} ({type(error).__name__}); is the agent running?"
            ) from None


def _chunk(passage: Passage) -> dict[str, Any]:
    return {
        "chunk_id": passage.id,
        "doc_id": passage.id,
        "text": passage.text,
        "metadata": {"title": passage.title},
    }


def _inputs(task: str, query: str, top_k: int) -> dict[str, str | int]:
    """Both dialects at once: an agent ignores what it does not know."""
    if task == "LIT_RETRIEVAL":
        return {"query": query[:1000], "max_results": top_k}
    return {"query": query, "topK": top_k, "query_text": query, "top_k": top_k}


def _failure(error: AgentCallError) -> AgentFailure:
    return AgentFailure(
        _KINDS[error.fault],
        f"{error.fault}: {error}",
        retryable=error.retryable,
        retry_after=error.retry_after_s,
    )


def _refusal(response: AgentRunResponse) -> AgentFailure:
    """By its code alone: the agent's own words may repeat the query."""
    code = response.error.code if response.error else ""
    known = code if code in set(ErrorCode) else "no code of the contract"
    message = f"the run ended with an error ({known})"
    return AgentFailure(FailureKind.AGENT_ERROR, message, retryable=code == ErrorCode.OVERLOADED)


_DOCUMENT_KEYS = ("doc_id", "docId", "document_id", "documentId")
_CHUNK_KEYS = ("chunk_id", "chunkId", "id")
_PAPER_KEYS = (*_DOCUMENT_KEYS, "id", "pmid", "doi", "url")
_ANSWER_KEYS = ("answer", "generated_answer", "response")
_PMID = re.compile(r"pubmed(?:\.ncbi\.nlm\.nih\.gov)?/(\d{1,9})")


class OutputReader:
    """`documents` are what the ids should be ids of."""

    def __init__(self, documents: Iterable[Document] = ()) -> None:
        self._known: set[str] = set()
        self._by_pmid: dict[str, str] = {}
        for document in documents:
            self._known.add(document.id)
            if match := _PMID.search(str(document.metadata.get("url", ""))):
                self._by_pmid[match[1]] = document.id

    def read(self, response: AgentRunResponse) -> AgentAnswer:
        outputs = response.outputs
        chunks = _chunks(response)
        papers = _objects(outputs.get("papers"))
        if chunks is None and papers is None:
            message = "outputs hold neither chunks nor papers, and there is no grounding"
            raise AgentFailure(FailureKind.INVALID_ANSWER, message)
        found = [self._document_of(chunk) for chunk in chunks or ()]
        found += [self._paper_id(each) for each in papers or ()]
        doc_ids = tuple(dict.fromkeys(each for each in found if each))
        if (chunks or papers) and not doc_ids:
            message = "no chunk or paper in outputs says which document it is of"
            raise AgentFailure(FailureKind.INVALID_ANSWER, message)
        return AgentAnswer(doc_ids, _answer(outputs), self._citations(response, chunks or ()))

    def _document_of(self, chunk: Mapping[str, Any]) -> str | None:
        named = _first(chunk, _DOCUMENT_KEYS)
        if named is not None:
            return named
        chunk_id = _first(chunk, _CHUNK_KEYS)
        return None if chunk_id is None else split_chunk_id(chunk_id)[0]

    def _paper_id(self, paper: Mapping[str, Any]) -> str | None:
        """The one of its ids that the data set knows, else the first."""
        ids = [text for key in _PAPER_KEYS if (text := _first(paper, (key,))) is not None]
        for each in ids:
            match = _PMID.search(each)
            for candidate in (each, self._by_pmid.get(match[1] if match else each)):
                if candidate in self._known:
                    return candidate
        return ids[0] if ids else None

    def _citations(
        self, response: AgentRunResponse, chunks: Sequence[Mapping[str, Any]]
    ) -> tuple[str, ...]:
        """As document ids, whether the agent cites documents or chunks of them."""
        if _answer(response.outputs) is None:
            return ()
        owners = {_first(chunk, _CHUNK_KEYS): self._document_of(chunk) for chunk in chunks}
        cited = response.outputs.get("citations")
        if not isinstance(cited, list):
            cited = response.grounding.citations if response.grounding else []
        ids = [
            _first(each, (*_DOCUMENT_KEYS, *_CHUNK_KEYS)) if isinstance(each, dict) else each
            for each in cited
        ]
        texts = [each for each in ids if isinstance(each, str)]
        return tuple(dict.fromkeys(owners.get(each) or self._owner(each) for each in texts))

    def _owner(self, cited: str) -> str:
        return cited if cited in self._known else split_chunk_id(cited)[0]


def _chunks(response: AgentRunResponse) -> list[dict[str, Any]] | None:
    pack = response.outputs.get("groundingPack")
    packed = pack.get("chunks") if isinstance(pack, dict) else None
    for found in (_objects(response.outputs.get("chunks")), _objects(packed)):
        if found is not None:
            return found
    if response.grounding is not None:
        return [chunk.model_dump() for chunk in response.grounding.chunks]
    return None


def _objects(value: Any) -> list[dict[str, Any]] | None:
    if not isinstance(value, list):
        return None
    return [each for each in value if isinstance(each, dict)]


def _first(source: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    for key in keys:
        value = source.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value):
            return str(value)
    return None


def _answer(outputs: Mapping[str, Any]) -> str | None:
    for key in _ANSWER_KEYS:
        if isinstance(outputs.get(key), str):
            return str(outputs[key])
    return None
