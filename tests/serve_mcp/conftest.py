from collections.abc import AsyncIterator

import pytest
from tests.serve.serving import serving
from tests.serve_mcp.serving import load_tiny

from assay.serve.mcp.server import mcp_app


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """The address of a server over the documents of `serving.TEXTS`."""
    async with serving(mcp_app(load_tiny)) as address:
        yield address
