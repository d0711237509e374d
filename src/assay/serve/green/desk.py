"""Takes evaluation requests in, whichever protocol brought them."""

from dataclasses import dataclass
from typing import Any

from assay.agents.outbound import OutboundPolicy, OutboundRefused
from assay.data.dataset import Dataset
from assay.serve.a2a.executor import Refused, ready
from assay.serve.green.jobs import Job, Jobs
from assay.serve.green.request import ROLE, read_request, to_order
from assay.serve.readiness import Loading

TOO_MANY = "too many evaluations at the moment; come back later"


@dataclass(frozen=True)
class Desk:
    """`source` is the name or path of the data set, as a run records it."""

    loading: Loading[Dataset]
    jobs: Jobs
    policy: OutboundPolicy
    source: str
    concurrency: int

    async def take(self, request: dict[str, Any], job_id: str | None = None) -> Job:
        """Start an evaluation, or raise `Refused` with the field and the reason."""
        asked = read_request(request)
        try:
            self.policy.check_url(asked.participants[ROLE])
        except OutboundRefused as error:
            raise Refused(f"participants.{ROLE}: {error}") from None
        dataset = await ready(self.loading)
        order = to_order(asked, dataset, self.source, self.concurrency)
        if self.jobs.is_full():
            raise Refused(TOO_MANY)
        return self.jobs.submit(order, dataset, job_id)
