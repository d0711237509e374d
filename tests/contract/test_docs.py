"""docs/contract.md tells what really happens: its examples are sent, its lists compared."""

import re
from pathlib import Path
from typing import Any

import httpx
import orjson
from scripts.render_schemas import rendered, stale
from tests.contract.demo_agent import demo_service
from tests.contract.running import running

from assay.contract.rules import rules_table
from assay.contract.server import agent_app

PAGE = (Path(__file__).parents[2] / "docs" / "contract.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```http\n(.*?)```", PAGE, re.DOTALL)
EXAMPLES = list(zip(BLOCKS[::2], BLOCKS[1::2], strict=True))


def parts(block: str) -> tuple[str, str, str]:
    head, _, body = block.partition("\n\n")
    first, _, header = head.partition("\n")
    return first, header.removeprefix("Content-Type: "), body


def comparable(text: str, media_type: str) -> Any:
    text = re.sub(r'"duration_ms": ?\d+', '"duration_ms":0', text)
    return orjson.loads(text) if media_type == "application/json" else text.strip()


async def test_each_example_answers_as_the_page_says() -> None:
    assert len(EXAMPLES) >= 5
    async with running(agent_app(demo_service())) as url, httpx.AsyncClient(base_url=url) as client:
        for request, response in EXAMPLES:
            line, media_type, sent = parts(request)
            method, path = line.split()
            answer = await client.request(
                method, path, content=sent, headers={"Content-Type": media_type}
            )
            status, expected_type, expected = parts(response)
            assert status == f"HTTP/1.1 {answer.status_code}"
            assert answer.headers["content-type"].partition(";")[0] == expected_type
            assert comparable(answer.text, expected_type) == comparable(expected, expected_type)


def test_every_rule_is_listed_with_its_level_section_and_fix() -> None:
    listed = PAGE.partition("<!-- rules -->\n")[2].partition("\n<!-- /rules -->")[0]
    assert listed == rules_table(), "run `make docs`"


def test_the_schemas_are_those_of_the_models() -> None:
    assert stale() == [], "run `make docs`"
    schemas = {name: content for name, content in rendered().items() if "/" not in name}
    assert not any(b"null" in content for content in schemas.values())
    response = orjson.loads(schemas["AgentRunResponse.json"])
    assert {"status", "request_id", "outputs", "ok"} <= set(response["required"])
    assert not {"grounding", "error", "task_type"} & set(response["required"])
