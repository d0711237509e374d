"""Event streams of MCP servers; what else a response may do wrong is in `tests/hostile`."""

import httpx2

from assay.errors import FailureKind
from assay.targets.mcp_connection import ExchangeRecord, current_exchange, open_http


async def test_an_event_stream_beside_the_answers_may_not_be_compressed() -> None:
    """It has no bound of its own: only its events have one."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-encoding": "gzip"}, content=b"")

    exchange = ExchangeRecord()
    current_exchange.set(exchange)
    async with open_http(httpx2.MockTransport(handle)) as http:
        assert (await http.get("http://server/mcp")).status_code == 503
    assert exchange.failure is not None
    assert exchange.failure.kind is FailureKind.PROTOCOL
