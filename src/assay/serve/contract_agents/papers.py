"""A paper as LIT_RETRIEVAL shows it: what is known of it, and nothing for what is not."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

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
