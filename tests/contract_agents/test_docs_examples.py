"""docs/contract.md has one example for each agent, and each answers as the page says."""

import re
from pathlib import Path

import orjson
from tests.contract_agents.sample_agents import running_agents

from assay.serve.contract_agents.apps import TASKS, open_knowledge

PAGE = (Path(__file__).parents[2] / "docs" / "contract.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(
    r"<!-- example -->\n```json\n(.*?)```\n\n```json\n(.*?)```", PAGE, flags=re.DOTALL
)
# The page leaves out what it has shown before.
IN_PART = {"RAG_RETRIEVE"}


async def test_each_example_answers_as_the_page_says() -> None:
    done = []
    async with running_agents(open_knowledge("notes", "bm25")) as agents:
        for request, expected in EXAMPLES:
            sent, shown = orjson.loads(request), orjson.loads(expected)
            task = sent.pop("task_type")
            outputs = (await agents.run(task, **sent))["outputs"]
            if task in IN_PART:
                outputs = {name: outputs[name] for name in shown}
            # How long a search took is another figure each time
            assert {**outputs, "duration_ms": 0} == {**shown, "duration_ms": 0}
            assert ("duration_ms" in outputs) == ("duration_ms" in shown)
            done.append(task)
    assert sorted(done) == sorted(TASKS)
