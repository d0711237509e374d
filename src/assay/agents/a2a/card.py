"""What an agent's card says: its name, and the addresses and versions at which it can be called.

Cards of protocol 0.3 (`url`, `preferredTransport`, `additionalInterfaces`) and 1.0
(`supportedInterfaces`) are read, and what is wrong with them in the wild is put right with a note.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from assay.agents.a2a.dialect import HTTP_JSON, JSON_RPC, V03, V10

_BINDINGS = (JSON_RPC, HTTP_JSON)
_TEXT_LIMIT = 200


class CardError(ValueError):
    """Why a document is no card that one could call."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about an agent that is wrong but could be worked around, and who mends it how."""

    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Interface:
    """One way to call the agent. `declared` is the version as the card has it."""

    binding: str
    version: str
    url: str
    declared: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """`interfaces` in the agent's order of preference, only those that can be spoken here."""

    name: str
    version: str
    streaming: bool
    interfaces: tuple[Interface, ...]
    findings: tuple[Finding, ...] = ()

    def preferred(self, asked: str) -> Interface:
        """The one whose address the user gave, else the first; of its binding the newest version.

        An address without a path names no interface: that is where every card is.
        """
        named = [each for each in self.interfaces if each.url.rstrip("/") == asked]
        first = (named if urlsplit(asked).path and named else self.interfaces)[0]
        same = [each for each in self.interfaces if each.binding == first.binding]
        return max(same, key=lambda each: each.version == V10)

    def at(self, interfaces: tuple[Interface, ...]) -> "Card":
        return replace(self, interfaces=interfaces)


def read_card(document: object) -> Card:
    if not isinstance(document, Mapping):
        raise CardError(f"a {type(document).__name__}, not an agent card")
    everything = list(_interfaces(document))
    if not everything:
        raise CardError("a JSON object without 'supportedInterfaces' or 'url', so no agent card")
    spoken = tuple(dict.fromkeys(each for each in everything if each.binding in _BINDINGS))
    if not spoken:
        offered = ", ".join(sorted({each.binding[:40] for each in everything}))
        raise CardError(f"a card that offers only {offered}; {' or '.join(_BINDINGS)} is needed")
    capabilities = document.get("capabilities")
    streaming = isinstance(capabilities, Mapping) and capabilities.get("streaming") is True
    return Card(
        name=_text(document.get("name")),
        version=_text(document.get("version")),
        streaming=streaming,
        interfaces=spoken,
        findings=tuple(dict.fromkeys(_findings(spoken))),
    )


def _interfaces(card: Mapping[str, Any]) -> Iterator[Interface]:
    """All of them. A card may carry both generations: then the newer list says it all."""
    newer = card.get("supportedInterfaces")
    if isinstance(newer, list) and newer:
        for each in newer:
            if isinstance(each, Mapping):
                yield _interface(each.get("protocolBinding"), each, each.get("protocolVersion"))
        return
    if not isinstance(card.get("url"), str):
        return
    declared = card.get("protocolVersion")
    yield _interface(card.get("preferredTransport"), card, declared)
    others = card.get("additionalInterfaces")
    for each in others if isinstance(others, list) else ():
        if isinstance(each, Mapping):
            yield _interface(each.get("transport"), each, declared)


def _interface(binding: object, entry: Mapping[str, Any], declared: object) -> Interface:
    version = _text(declared)
    url = entry.get("url")
    return Interface(
        binding=_text(binding).upper() or JSON_RPC,
        version=normal_version(version),
        url=url if isinstance(url, str) else "",
        declared=version,
    )


def normal_version(declared: str) -> str:
    """1.0 for whatever says 1 or more; 0.3 for older ones, for '' and for what is no version.

    A server of SDK 1.x that declares no version is announced to old clients as 0.3, and
    agents on 0.2.x speak what 0.3 speaks.
    """
    major = declared.strip().lstrip("vV").partition(".")[0]
    return V10 if major.isdecimal() and int(major) >= 1 else V03


def _findings(interfaces: tuple[Interface, ...]) -> Iterator[Finding]:
    for each in interfaces:
        declared = each.declared
        if declared and (declared.startswith((V03, "1.")) or declared == "1"):
            continue
        said = f"protocol version {declared!r}" if declared else "no protocol version"
        yield Finding(
            f"the card declares {said}; taken for {each.version}",
            f"declare '{V10}' or '{V03}' for each interface in the card, whichever it speaks",
        )


def _text(value: object) -> str:
    return value[:_TEXT_LIMIT] if isinstance(value, str) else ""
