"""What may be evaluated and checked from the web pages.

Users of the pages on loopback could type the same in a terminal. Beyond loopback, a target
must run no code, start no process and read no file here, and every host that it contacts must be
one that the operator of the server has named. What a target does, its kind says.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from assay.agents.rest import refuse_local
from assay.agents.target_kinds import (
    TARGET_KINDS,
    RequestSettings,
    provider_addresses,
    provider_files,
)
from assay.agents.targets import check_permitted, parse_target
from assay.data.load import KNOWN
from assay.errors import UsageError
from assay.net.outbound import VARIABLE, OutboundPolicy, split_address

# A mapping may have blanks around its expression.
_REGULAR_EXPRESSION = re.compile(r"=\s*re:")


@dataclass(frozen=True)
class TargetRules:
    """`policy` restricts nothing on loopback: see `OutboundPolicy.for_server`."""

    policy: OutboundPolicy

    def check_target(self, target: str) -> None:
        if not target:
            raise UsageError("enter a target, such as builtin:hybrid or http://localhost:9010")
        check_permitted(parse_target(target), self.policy)

    def examples(self) -> list[str]:
        """Targets to offer in a form: those that may be evaluated here."""
        return [
            example
            for kind in TARGET_KINDS.values()
            for example in kind.examples
            if self._permits(example)
        ]

    def _permits(self, target: str) -> bool:
        try:
            self.check_target(target)
        except UsageError:
            return False
        return True

    def check_judge(self, judge: str) -> None:
        """As it is configured here, a judge may be used; at another address, only a named host."""
        if not self.policy.public_only:
            return
        strange = [
            address
            for address in provider_addresses(judge)
            if not self.policy.names(*split_address(address))
        ]
        if strange or provider_files(judge):
            raise UsageError(
                f"judge {judge!r} names a file or a host that is not for everyone here; leave it "
                f"out, or ask the operator of this server to allow the host with --allow-hosts or "
                f"{VARIABLE}"
            )

    def check_embedder(self, embedder: str, model: str, device: str, reranker: str) -> None:
        """Visitors from other machines use the models that this server was started with."""
        if self.policy.public_only and (embedder or model or device != "auto" or reranker):
            raise UsageError(
                "the embedder or reranker names a file, a host or a device of this server, which "
                "remote visitors may not choose; leave it empty, or ask the operator of this "
                "server to set ASSAY_EMBEDDER or ASSAY_RERANKER"
            )

    def check_request(self, request: RequestSettings, mapping: Sequence[str]) -> None:
        """Visitors from other machines read no file and no variable of this one."""
        if not self.policy.public_only:
            return
        refuse_local(request, "")
        if any(_REGULAR_EXPRESSION.search(each) for each in mapping):
            raise UsageError(
                "a regular expression in a mapping can keep this server busy, so visitors may not "
                "send one; write a JMESPath expression"
            )

    def check_dataset(self, dataset: str) -> None:
        if self.policy.public_only and dataset not in KNOWN:
            known = ", ".join(KNOWN)
            raise UsageError(f"data set {dataset!r} is not available here; choose one of: {known}")

    def check_file(self, name: str, path: str) -> None:
        """Visitors from other machines name no file of this one."""
        if path and self.policy.public_only:
            raise UsageError(
                f"{name} {path!r} is a file on this server, which remote visitors may not use; "
                "leave it empty, or open the pages on 127.0.0.1"
            )

    def check_run_name(self, run: str) -> None:
        """Nor a folder outside of the runs."""
        if self.policy.public_only and re.search(r"[/\\]|^\.", run):
            raise UsageError(
                f"{run!r} is a folder on this server, which remote visitors may not name; enter a "
                "label, a branch or the name of a run"
            )
