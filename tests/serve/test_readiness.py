"""What a server says while it is not ready: enough to mend it, nothing about where things are."""

import httpx
import pytest
from tests.serve.serving import serving

from assay.errors import DataError
from assay.progress import Progress
from assay.serve.purple import Find, purple_app

BAD_LINE = DataError("line 3 is not JSON; retry", file="/srv/private/corpus.jsonl", line=3)
MISSING = ModuleNotFoundError("No module named 'onnxruntime'", name="onnxruntime")


@pytest.mark.parametrize(
    ("error", "shown", "logged"),
    [
        (BAD_LINE, "corpus.jsonl:3: line 3 is not JSON; retry", "file=/srv/private/corpus.jsonl:3"),
        (MISSING, "run: pip install 'agent-assay[search]'", "package=onnxruntime extra=search"),
    ],
)
async def test_health_names_the_problem_and_the_log_names_the_place(
    http: httpx.AsyncClient,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    shown: str,
    logged: str,
) -> None:
    async def load(_progress: Progress) -> Find:
        raise error

    async with serving(purple_app(load)) as url:
        answer = await http.get(f"{url}/health/ready")
    assert answer.status_code == 503
    assert shown in answer.json()["index"]
    assert "private" not in answer.text
    assert f"loading failed {logged}" in caplog.text
    assert "retry" not in caplog.text
