"""Parses targets (`builtin:bm25`, `a2a:URL`, ...) and opens agents, by the table of kinds."""

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import UsageError, closest
from assay.net.redact import full_text, mask_secrets, reveal
from assay.net.variables import POLICY_VARIABLE
from assay.targets.target_kinds import (
    CONTRACT_TARGET,
    TARGET_KINDS,
    OpenContext,
    Target,
    TargetKind,
    find_kind,
)

if TYPE_CHECKING:
    from assay.net.outbound import OutboundPolicy
    from assay.targets.protocol import Agent

DEFAULT_TARGET = "purple:hybrid"
DEFAULT_ANSWERING_TARGET = "builtin:hybrid"
"""The reference agent with answers: in process, where --counterfactuals can ask it again with other
documents, which A2A has no form for."""

_BARE_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
_HOST_AND_PORT = re.compile(r"(?:localhost|[\w-]+(?:\.[\w-]+)+):\d{1,5}(?:/\S*)?")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_CREDENTIALS = re.compile(r"https?://[^/?#\s]*@", re.IGNORECASE)


def parse_target(text: str) -> Target:
    """Read what a user wrote. Prefixes and URL schemes are accepted in any case.

    Raises `UsageError`, with a list of the kinds and the likeliest one, for anything else.
    """
    written = full_text(text).strip()
    if _BARE_ADDRESS.match(written) and CONTRACT_TARGET.fullmatch(written):
        return _of_kind(TARGET_KINDS["http"], written, text)
    if _BARE_ADDRESS.match(written):
        own = "rest" if "{query}" in written else "url"  # a place for the query makes it a request
        return _of_kind(TARGET_KINDS[own], written, text)
    prefix, colon, rest = written.partition(":")
    kind = find_kind(prefix.lower()) if colon else None
    if kind is None or kind.name == "url":
        raise UsageError(_not_a_target(text, prefix.lower(), rest))
    return _of_kind(kind, rest, text)


def _of_kind(kind: TargetKind, rest: str, text: str) -> Target:
    address, fragment = kind.split(rest)
    scheme = _BARE_ADDRESS.match(address)
    if scheme is not None:
        address = scheme[0].lower() + address[scheme.end() :]
    return Target(kind.name, address, fragment, text)


def open_target(target: str | Target, context: OpenContext) -> "Agent":
    """The agent that a target names, not yet connected.

    Parameters:
        target: what the user wrote, or what was read from it.
        context: what it may need; without a policy, that of the process holds.
    """
    policy = _policy_of_process() if context.policy is None else context.policy
    parsed = parse_target(reveal(target)) if isinstance(target, str) else target
    if _CREDENTIALS.search(str(parsed)):
        raise UsageError(
            "a target URL must not contain a user name or password: they would appear "
            "in the run's name and report"
        )
    if policy is not None and policy.public_only:
        check_permitted(parsed, policy)
    return TARGET_KINDS[parsed.kind].open(parsed, replace(context, policy=policy))


def _policy_of_process() -> "OutboundPolicy | None":
    """The policy that a server has put this process under; httpx is imported only for one."""
    if POLICY_VARIABLE not in os.environ:
        return None
    from assay.net.outbound import policy_of_process

    return policy_of_process()


def check_permitted(target: Target, policy: "OutboundPolicy") -> None:
    """Refuse targets that only the user of this machine may evaluate.

    Only kinds that run no code, start no process and read no file are permitted, and only where
    `policy` names every host that they contact. Raises `UsageError`.
    """
    if not policy.public_only:
        return
    from assay.net.outbound import VARIABLE, OutboundRefused, split_address

    kind = TARGET_KINDS[target.kind]
    shown = redact_target(target.text or str(target))
    if kind.is_local(target):
        raise UsageError(
            f"target {shown!r} would run code, start a process or read a file on this "
            "server, which is allowed only on 127.0.0.1"
        )
    for address in kind.reaches(target):
        host, port = split_address(address)
        try:
            policy.check_url(address)
        except OutboundRefused as error:
            raise UsageError(str(error)) from None
        if not policy.names(host, port):
            raise UsageError(
                f"{host!r} is not an allowed host of this server; its operator "
                f"can add it with --allow-hosts or {VARIABLE}"
            )


def redact_target(text: str) -> str:
    """A target as it may be shown: without passwords, keys in a URL's query, and secrets that a
    command is given as variables or options.
    """
    return str(mask_secrets(text))


def targets_help() -> str:
    """The kinds of targets in one line, for help texts and messages."""
    return ", ".join(kind.syntax for kind in TARGET_KINDS.values())


def _not_a_target(text: str, prefix: str, rest: str) -> str:
    shown = redact_target(text)
    message = f"unknown target {shown!r}; a target has one of these forms: {targets_help()}"
    if _HOST_AND_PORT.fullmatch(text.strip()):
        return f"{message}. Did you mean 'http://{shown.strip()}'?"
    if text.strip() and Path(text.strip()).suffix in _TABLES:
        return f"{message}. {shown!r} is a table: pass it as --dataset"
    if f"builtin:{text.strip()}" in TARGET_KINDS["builtin"].examples:
        return f"{message}. Did you mean 'builtin:{text.strip()}'?"
    if ":" not in text and text.strip():
        message += f". A plain name is looked up in assay.toml, as [target.{shown.strip()[:40]}]"
    names = [name for name in TARGET_KINDS if name != "url"]
    near = closest(prefix, names)
    if near and rest:
        return f"{message}. Did you mean {redact_target(f'{near}:{rest}')!r}?"
    if _FUNCTION.fullmatch(text.strip()):
        return f"{message}. Did you mean 'python:{text.strip()}'?"
    return message
