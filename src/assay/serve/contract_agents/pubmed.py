"""PubMed's public interface: esearch finds ids, efetch gives the records (NCBI, "E-utilities").

Queries are posted, so that they stand in no address and thus in no proxy's log. The address can
be replaced with ASSAY_PUBMED_URL, for a mirror or a test; NCBI_API_KEY raises NCBI's rate limit.
"""

import os
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import httpx
import orjson

from assay.serve.contract_agents.papers import Paper, paper

NAME = "pubmed"
VARIABLE = "ASSAY_PUBMED_URL"
KEY_VARIABLE = "NCBI_API_KEY"
_ADDRESS = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils"
_PAGE = "https://pubmed.ncbi.nlm.nih.gov/{}/"
_SECONDS = 20.0
_MAX_BYTES = 32_000_000


class PubMedError(Exception):
    """Why it gave nothing, in words that repeat nothing of the query."""


class PubMed:
    def __init__(self, address: str | None = None, api_key: str | None = None) -> None:
        self._address = (address or os.environ.get(VARIABLE) or _ADDRESS).rstrip("/")
        self._key = api_key or os.environ.get(KEY_VARIABLE) or None
        self._http: httpx.AsyncClient | None = None

    async def search(self, query: str, most: int) -> list[Paper]:
        """Most relevant first."""
        ids = await self._ids(query, most)
        if not ids:
            return []
        answer = await self._post("efetch.fcgi", id=",".join(ids), retmode="xml")
        found = {one["pmid"]: one for one in _articles(answer)}
        return [found[pmid] for pmid in ids if pmid in found]

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _ids(self, query: str, most: int) -> list[str]:
        answer = await self._post(
            "esearch.fcgi", term=query, retmax=str(most), retmode="json", sort="relevance"
        )
        try:
            result = orjson.loads(answer)["esearchresult"]
            ids = [str(each) for each in result["idlist"]]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            ids = None
        if ids is None:
            raise PubMedError("PubMed's answer to the search was not understood")
        return [each for each in ids if each.isascii() and each.isdigit()][:most]

    async def _post(self, tool: str, **fields: str) -> bytes:
        self._http = self._http or httpx.AsyncClient(timeout=_SECONDS)
        form = {"db": "pubmed", "tool": "assay", **fields}
        if self._key:
            form["api_key"] = self._key
        try:
            async with self._http.stream("POST", f"{self._address}/{tool}", data=form) as answer:
                return await _body(answer)
        except httpx.TimeoutException:
            problem = f"PubMed did not answer within {_SECONDS:g} s"
        except httpx.HTTPError as error:
            problem = f"PubMed could not be reached ({type(error).__name__})"
        raise PubMedError(problem)


async def _body(answer: httpx.Response) -> bytes:
    if answer.status_code == 429:
        raise PubMedError("PubMed has had too many requests from here; try again in a second")
    if answer.status_code != 200:
        raise PubMedError(f"PubMed answered HTTP {answer.status_code}")
    body = bytearray()
    async for chunk in answer.aiter_bytes():
        body += chunk
        if len(body) > _MAX_BYTES:
            raise PubMedError("PubMed's answer is too large")
    return bytes(body)


def _articles(xml: bytes) -> Iterator[Paper]:
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError:
        root = None
    if root is None:
        raise PubMedError("PubMed's records were not understood")
    for article in root.iter("PubmedArticle"):
        pmid = _text(article.find("MedlineCitation/PMID"))
        if pmid:
            yield _paper(article, pmid)


def _paper(article: Element, pmid: str) -> Paper:
    record = article.find("MedlineCitation/Article")
    metadata: dict[str, Any] = {
        "pmid": pmid,
        "url": _PAGE.format(pmid),
        "authors": [_author(each) for each in article.iterfind(".//AuthorList/Author")],
        "journal": _text(article.find(".//Journal/Title")),
        "doi": _doi(article),
        "date": _text(article.find(".//PubDate/Year"))
        or _text(article.find(".//PubDate/MedlineDate")),
    }
    title = "" if record is None else _text(record.find("ArticleTitle")) or ""
    parts = [] if record is None else record.iterfind("Abstract/AbstractText")
    abstract = " ".join(filter(None, map(_labelled, parts)))
    known = {name: value for name, value in metadata.items() if value}
    return paper(title=title, abstract=abstract, source=NAME, metadata=known)


def _doi(article: Element) -> str | None:
    for path in (".//ELocationID[@EIdType='doi']", ".//ArticleIdList/ArticleId[@IdType='doi']"):
        if doi := _text(article.find(path)):
            return doi
    return None


def _author(author: Element) -> str:
    names = [_text(author.find(name)) for name in ("ForeName", "LastName")]
    return " ".join(filter(None, names)) or _text(author.find("CollectiveName")) or ""


def _labelled(part: Element) -> str:
    label, text = part.get("Label"), _text(part) or ""
    return f"{label}: {text}" if label and text else text


def _text(element: Element | None) -> str | None:
    """With the text of markup inside it, such as <i>."""
    if element is None:
        return None
    return " ".join("".join(element.itertext()).split()) or None
