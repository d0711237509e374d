"""A paper as LIT_RETRIEVAL shows it: what is known of it, and nothing for what is not."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import httpx
import orjson

Paper = dict[str, Any]

_YEAR = re.compile(r"\b(1[5-9]\d\d|20\d\d)\b")
_PUBMED_URL = re.compile(r"(?:ncbi\.nlm\.nih\.gov/pubmed|pubmed\.ncbi\.nlm\.nih\.gov)/(\d{1,9})")


def paper(
    *,
    title: str,
    abstract: str,
    source: str,
    doc_id: str | None = None,
    metadata: Mapping[str, Any],
) -> Paper:
    url = _text(metadata.get("url"))
    found: Paper = {
        "title": title,
        "abstract": abstract,
        "authors": _names(metadata.get("authors", metadata.get("author"))),
        "year": _year(metadata),
        "journal": _text(metadata.get("journal")),
        "doi": _text(metadata.get("doi")),
        "pmid": _text(metadata.get("pmid")) or pmid_in(url),
        "source": source,
        "url": url.strip() if url else None,
        "doc_id": doc_id,
    }
    return {name: value for name, value in found.items() if value not in (None, "", [])}


def pmid_in(url: str | None) -> str | None:
    """The number in an address of PubMed, as data sets often have it."""
    match = _PUBMED_URL.search(unquote(url)) if url else None
    return match[1] if match else None


def interleaved(lists: Sequence[Sequence[Paper]], most: int) -> list[Paper]:
    """The first of each list, then the second of each...; what was met before is left out."""
    merged: list[Paper] = []
    seen: set[tuple[str, str]] = set()
    longest = max((len(each) for each in lists), default=0)
    for rank in range(longest):
        for each in lists:
            if rank < len(each) and not seen.intersection(_identities(each[rank])):
                seen.update(_identities(each[rank]))
                merged.append(each[rank])
    return merged[:most]


def _identities(one: Paper) -> Iterable[tuple[str, str]]:
    return [(name, str(one[name]).lower()) for name in ("pmid", "doi", "doc_id") if name in one]


def _year(metadata: Mapping[str, Any]) -> int | None:
    for name in ("year", "date", "published"):
        match = _YEAR.search(str(metadata.get(name, "")))
        if match:
            return int(match[1])
    return None


def _names(value: Any) -> list[str]:
    if isinstance(value, str):
        mark = ";" if ";" in value else ","
        return [name.strip() for name in value.split(mark) if name.strip()]
    if isinstance(value, Sequence):
        return [str(name) for name in value if isinstance(name, str | int)]
    return []


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None


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
        found = {one["pmid"]: one for one in _records(answer)}
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


def _records(xml: bytes) -> Iterator[Paper]:
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError:
        root = None
    if root is None:
        raise PubMedError("PubMed's records were not understood")
    for article in root.iter("PubmedArticle"):
        pmid = _element_text(article.find("MedlineCitation/PMID"))
        if pmid:
            yield _article(article, pmid)


def _article(article: Element, pmid: str) -> Paper:
    record = article.find("MedlineCitation/Article")
    metadata: dict[str, Any] = {
        "pmid": pmid,
        "url": _PAGE.format(pmid),
        "authors": [_author(each) for each in article.iterfind(".//AuthorList/Author")],
        "journal": _element_text(article.find(".//Journal/Title")),
        "doi": _doi(article),
        "date": _element_text(article.find(".//PubDate/Year"))
        or _element_text(article.find(".//PubDate/MedlineDate")),
    }
    title = "" if record is None else _element_text(record.find("ArticleTitle")) or ""
    parts = [] if record is None else record.iterfind("Abstract/AbstractText")
    abstract = " ".join(filter(None, map(_labelled, parts)))
    known = {name: value for name, value in metadata.items() if value}
    return paper(title=title, abstract=abstract, source=NAME, metadata=known)


def _doi(article: Element) -> str | None:
    for path in (".//ELocationID[@EIdType='doi']", ".//ArticleIdList/ArticleId[@IdType='doi']"):
        if doi := _element_text(article.find(path)):
            return doi
    return None


def _author(author: Element) -> str:
    names = [_element_text(author.find(name)) for name in ("ForeName", "LastName")]
    return " ".join(filter(None, names)) or _element_text(author.find("CollectiveName")) or ""


def _labelled(part: Element) -> str:
    label, text = part.get("Label"), _element_text(part) or ""
    return f"{label}: {text}" if label and text else text


def _element_text(element: Element | None) -> str | None:
    """With the text of markup inside it, such as <i>."""
    if element is None:
        return None
    return " ".join("".join(element.itertext()).split()) or None
