"""Takes evaluation requests in, whichever protocol brought them."""

from dataclasses import dataclass
from typing import Any

from assay.data.dataset import Dataset
from assay.net.outbound import OutboundPolicy, OutboundRefused
from assay.serve.a2a.executor import Refused, ready
from assay.serve.green.jobs import Job, Jobs
from assay.serve.green.request import ROLE, agent_of, read_request, to_order, without_address
from assay.serve.readiness import Loading

TOO_MANY = "too many evaluations at the moment; come back later"


class Full(Refused):
    """A request that would be served at another time."""


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
        url = agent_of(asked)
        try:
            self.policy.check_url(url)
        except OutboundRefused as error:
            raise Refused(f"participants.{ROLE}: {without_address(str(error), url)}") from None
        if self.jobs.is_full():
            raise Full(TOO_MANY)
        with self.jobs.place():
            dataset = await ready(self.loading)
            order = to_order(asked, dataset, self.source, self.concurrency)
            return self.jobs.submit(order, dataset, job_id)
