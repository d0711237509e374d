"""What a server says while it is not ready: enough to mend it, nothing about where things are."""

from typing import Any

import httpx
import pytest
from tests.serve.serving import serving

from assay.errors import DataError
from assay.progress import Progress
from assay.serve.purple import Find, purple_app


async def _damaged(*_: Any) -> Any:
    raise DataError(
        "line 3 is no JSON; download it again", file="/srv/private/corpus.jsonl", line=3
    )


async def test_health_names_the_problem_and_the_log_names_the_place(
    http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(purple_app(_damaged)) as url:
        answer = await http.get(f"{url}/health/ready")
    assert answer.status_code == 503
    assert answer.json()["index"] == (
        "failed: corpus.jsonl:3: line 3 is no JSON; download it again (see the server's log)"
    )
    assert "loading failed file=/srv/private/corpus.jsonl:3 exception=DataError" in caplog.text
    assert "download it again" not in caplog.text


async def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    async def load(_progress: Progress) -> Find:
        raise ModuleNotFoundError("No module named 'onnxruntime'", name="onnxruntime")

    async with serving(purple_app(load)) as url:
        answer = await http.get(f"{url}/health/ready")
    command = "run: pip install 'agent-assay[search]'"
    assert command in answer.json()["index"]
    assert "loading failed package=onnxruntime extra=search" in caplog.text
