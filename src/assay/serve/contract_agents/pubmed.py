"""Papers as LIT_RETRIEVAL shows them, and PubMed as a source of them.

PubMed is called through NCBI's E-utilities: esearch finds ids, efetch returns the records. Queries
are posted, so that they are in no URL and thus in no proxy's log. ASSAY_PUBMED_URL replaces the
address, for a mirror or a test; NCBI_API_KEY raises NCBI's rate limit.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import unquote, urlencode
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import httpx

from assay.errors import AgentFailure, FailureKind
from assay.net.client import open_client
from assay.net.http import fetch
from assay.net.json import JsonObject, parse_object

PUBMED = "pubmed"
VARIABLE = "ASSAY_PUBMED_URL"
KEY_VARIABLE = "NCBI_API_KEY"

_ADDRESS = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils"
_PAGE = "https://pubmed.ncbi.nlm.nih.gov/{}/"
_TIMEOUT_S = 20.0
_MAX_BYTES = 32_000_000
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_YEAR = re.compile(r"\b(1[5-9]\d\d|20\d\d)\b")
_PUBMED_URL = re.compile(r"(?:ncbi\.nlm\.nih\.gov/pubmed|pubmed\.ncbi\.nlm\.nih\.gov)/(\d{1,9})")


@dataclass(frozen=True, slots=True)
class Paper:
    """What is known of a paper; None if it is not."""

    title: str
    abstract: str
    source: str
    authors: tuple[str, ...] = ()
    year: int | None = None
    journal: str | None = None
    doi: str | None = None
    pmid: str | None = None
    url: str | None = None
    doc_id: str | None = None

    @classmethod
    def from_metadata(
        cls,
        title: str,
        abstract: str,
        source: str,
        metadata: Mapping[str, Any],
        doc_id: str | None = None,
    ) -> "Paper":
        """A paper whose details are in the metadata of a document, under the usual names."""
        url = _text(metadata.get("url"))
        return cls(
            title=title,
            abstract=abstract,
            source=source,
            authors=_names(metadata.get("authors", metadata.get("author"))),
            year=_year(metadata),
            journal=_text(metadata.get("journal")),
            doi=_text(metadata.get("doi")),
            pmid=_text(metadata.get("pmid")) or pmid_in(url),
            url=url.strip() if url else None,
            doc_id=doc_id,
        )

    @property
    def id(self) -> str:
        """The best of its ids."""
        return self.doc_id or self.pmid or self.doi or self.title

    def to_wire(self) -> JsonObject:
        """The paper as callers get it, without what is not known."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "", ())}


def pmid_in(url: str | None) -> str | None:
    """The PubMed id in a URL of PubMed, as data sets often have it."""
    match = _PUBMED_URL.search(unquote(url)) if url else None
    return match[1] if match else None


def interleave(lists: Sequence[Sequence[Paper]], most: int) -> list[Paper]:
    """The first of each list, then the second of each, and so on, without duplicates."""
    merged: list[Paper] = []
    seen: set[tuple[str, str]] = set()
    longest = max((len(each) for each in lists), default=0)
    for rank in range(longest):
        for each in lists:
            if rank < len(each) and not seen.intersection(_identities(each[rank])):
                seen.update(_identities(each[rank]))
                merged.append(each[rank])
    return merged[:most]


def _identities(paper: Paper) -> Iterable[tuple[str, str]]:
    ids = (("pmid", paper.pmid), ("doi", paper.doi), ("doc_id", paper.doc_id))
    return [(name, value.lower()) for name, value in ids if value]


def _year(metadata: Mapping[str, Any]) -> int | None:
    for name in ("year", "date", "published"):
        match = _YEAR.search(str(metadata.get(name, "")))
        if match:
            return int(match[1])
    return None


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        separator = ";" if ";" in value else ","
        return tuple(name.strip() for name in value.split(separator) if name.strip())
    if isinstance(value, Sequence):
        return tuple(str(name) for name in value if isinstance(name, str | int))
    return ()


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None


class PubMedError(Exception):
    """Why PubMed returned nothing; it repeats nothing of the query."""


class PubMed:
    """A client of the E-utilities; `address` replaces that of the environment."""

    def __init__(self, address: str | None = None) -> None:
        self._address = (address or os.environ.get(VARIABLE) or _ADDRESS).rstrip("/")
        self._key = os.environ.get(KEY_VARIABLE)
        self._http: httpx.AsyncClient | None = None

    async def search(self, query: str, most: int) -> list[Paper]:
        """At most `most` papers, most relevant first. Raises `PubMedError`."""
        ids = await self._ids(query, most)
        if not ids:
            return []
        body = await self._post("efetch.fcgi", id=",".join(ids), retmode="xml")
        found = {paper.pmid: paper for paper in _records(body)}
        return [found[pmid] for pmid in ids if pmid in found]

    async def aclose(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def _ids(self, query: str, most: int) -> list[str]:
        body = await self._post(
            "esearch.fcgi", term=query, retmax=str(most), retmode="json", sort="relevance"
        )
        result = (parse_object(body) or {}).get("esearchresult")
        listed = result.get("idlist") if isinstance(result, dict) else None
        if not isinstance(listed, list):
            raise PubMedError("PubMed's response to the search has no list of ids")
        ids = [str(each) for each in listed]
        return [each for each in ids if each.isascii() and each.isdigit()][:most]

    async def _post(self, tool: str, **fields: str) -> bytes:
        self._http = self._http or open_client(max_bytes=_MAX_BYTES)
        form = {"db": "pubmed", "tool": "assay", **fields}
        if self._key:
            form["api_key"] = self._key
        try:
            reply = await fetch(
                self._http,
                "POST",
                f"{self._address}/{tool}",
                content=urlencode(form).encode(),
                headers=_FORM,
                timeout=_TIMEOUT_S,
                limit=_MAX_BYTES,
            )
        except AgentFailure as error:
            problem = _problem(error)
        else:
            if reply.status == 200:
                return reply.body
            problem = f"HTTP {reply.status} from PubMed"
            if reply.status == 429:
                problem += ": too many requests; try again in a second"
        raise PubMedError(problem)


def _problem(error: AgentFailure) -> str:
    if error.kind is FailureKind.TIMEOUT:
        return f"no response from PubMed within {_TIMEOUT_S:g} s"
    if error.kind is FailureKind.INVALID_ANSWER:
        return "PubMed's response is too large"
    return f"PubMed could not be reached: {error}"


def _records(xml: bytes) -> Iterator[Paper]:
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError:
        root = None
    if root is None:
        raise PubMedError("PubMed's records are not valid XML")
    for article in root.iter("PubmedArticle"):
        pmid = _element_text(article.find("MedlineCitation/PMID"))
        if pmid:
            yield _article(article, pmid)


def _article(article: Element, pmid: str) -> Paper:
    record = article.find("MedlineCitation/Article")
    metadata: JsonObject = {
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
    abstract = " ".join(filter(None, map(_labeled, parts)))
    known = {name: value for name, value in metadata.items() if value}
    return Paper.from_metadata(title, abstract, PUBMED, known)


def _doi(article: Element) -> str | None:
    for path in (".//ELocationID[@EIdType='doi']", ".//ArticleIdList/ArticleId[@IdType='doi']"):
        if doi := _element_text(article.find(path)):
            return doi
    return None


def _author(author: Element) -> str:
    names = [_element_text(author.find(name)) for name in ("ForeName", "LastName")]
    return " ".join(filter(None, names)) or _element_text(author.find("CollectiveName")) or ""


def _labeled(part: Element) -> str:
    label, text = part.get("Label"), _element_text(part) or ""
    return f"{label}: {text}" if label and text else text


def _element_text(element: Element | None) -> str | None:
    """With the text of markup inside it, such as <i>."""
    if element is None:
        return None
    return " ".join("".join(element.itertext()).split()) or None
