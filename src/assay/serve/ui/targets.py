"""What may be evaluated and checked from the web pages.

Whoever reaches the pages on loopback could type the same in a terminal. Beyond loopback, a target
would let them run code here (`python:`) or make us call what only we can see, so it must be
built in, or at a host that whoever runs the server has named.
"""

import re
from dataclasses import dataclass

from assay.data.load import KNOWN
from assay.errors import UsageError
from assay.net.outbound import VARIABLE, OutboundPolicy, split_address

_ADDRESS = re.compile(r"https?://[^\s=#]+")


@dataclass(frozen=True)
class TargetRules:
    """`policy` restricts nothing on loopback: see `OutboundPolicy.for_server`."""

    policy: OutboundPolicy

    def check_target(self, target: str) -> None:
        if not target:
            raise UsageError("name a target, such as builtin:hybrid or http://localhost:9010")
        if not self.policy.public_only or target.startswith("builtin:"):
            return
        found = _ADDRESS.search(target)
        if found is None or target.startswith(("python:", "mcp-stdio:")):
            raise UsageError(
                f"target {target!r} would run code on this server, which only its own user may "
                "do; start the pages on 127.0.0.1 for that"
            )
        host, port = split_address(found[0])
        if not self.policy.names(host, port):
            raise UsageError(
                f"{host!r} is not among the hosts that this server calls; whoever runs it can "
                f"allow it with --allow-hosts or {VARIABLE}"
            )

    def check_judge(self, judge: str) -> None:
        """As it is configured here, a judge may be used; at another address, only a named host."""
        kind, _, rest = judge.partition(":")
        address = rest.partition("@")[2]
        if not self.policy.public_only or not (address or (kind == "gguf" and rest)):
            return
        if not address or not self.policy.names(*split_address(address)):
            raise UsageError(
                f"judge {judge!r} names a file or a host that is not for everyone here; leave it "
                f"out, or let whoever runs this server allow the host with --allow-hosts or "
                f"{VARIABLE}"
            )

    def check_dataset(self, dataset: str) -> None:
        if self.policy.public_only and dataset not in KNOWN:
            known = ", ".join(KNOWN)
            raise UsageError(f"data set {dataset!r} is not one of those offered here: {known}")
