"""A2A agents that take a question in words and answer in words, or in a form of their own."""

import os
import subprocess
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from a2a.server.agent_execution import AgentExecutor
from tests.interop import server10
from tests.interop.old_library import old_agent_running
from tests.interop.server10 import FOUND, Hello, Stranger, agent_app
from tests.serve.serving import serving
from tests.targets.every_kind import opened_target

from assay.data import Dataset, Document
from assay.run.config import RunConfig
from assay.targets import Agent, open_target
from assay.targets.answer_reader import parse_mapping
from assay.targets.health_check import check_health, query_of
from assay.targets.target_kinds import OpenContext

NOTES = Dataset("notes", {f"note-{n}": Document(f"note-{n}", "", "") for n in range(9)}, {}, {})


def opened(target: str, *mapping: str) -> AbstractAsyncContextManager[Agent]:
    return opened_target(target, OpenContext(NOTES, mapping=parse_mapping(mapping)))


@pytest.mark.parametrize(
    ("executor", "ways", "mapping", "ids"),
    [
        (Hello(), "text", (), FOUND[:1]),
        (Stranger(server10.prose), "text", (), FOUND),
        (Stranger(server10.prose), "text", (r"ids=re:tea \[([^]]+)\]",), FOUND[1:]),
        (Stranger(server10.streamed), "text,stream", (), FOUND),
        (Stranger(server10.results), "text", ("results=search.results",), FOUND),
        (Stranger(server10.results), "", ("ids=search.results[].doc_id",), FOUND),
    ],
)
async def test_a_stranger_is_measured(
    executor: AgentExecutor, ways: str, mapping: tuple[str, ...], ids: tuple[str, ...]
) -> None:
    async with (
        serving(agent_app(executor=executor)) as url,
        opened(f"a2a:{url}#{ways}".removesuffix("#"), *mapping) as agent,
    ):
        answer = await agent.ask('What does "coffee" do?', 5)
    assert answer.doc_ids == ids
    if isinstance(executor, Stranger) and "text" in ways:
        assert executor.questions[-1] == 'What does "coffee" do?'


async def test_prose_is_the_answer_and_its_marks_are_the_citations() -> None:
    app = agent_app(executor=Stranger(server10.streamed))
    async with serving(app) as url, opened(f"a2a:{url}#text,stream") as agent:
        answer = await agent.ask("coffee", 1)
    assert answer.answer == "Sleep suffers from coffee [note-7], less from tea [note-2]."
    assert (answer.doc_ids, answer.citations) == (FOUND[:1], FOUND)


async def test_the_doctor_shows_the_answer_and_the_mapping_without_any_option() -> None:
    async with serving(agent_app(executor=Stranger(server10.results))) as url:
        report = await check_health(
            RunConfig(target=f"a2a:{url}"),
            query_of(NOTES),
            lambda target: open_target(target, OpenContext(NOTES)),
            dataset=NOTES,
        )
    assert "Two notes." in report.calls[0].raw
    grave = [problem.remedy for problem in report.problems if problem.grave]
    assert "try: --map 'ids=search.results[].doc_id'" in grave[0]
    assert (report.known_ids, report.healthy) == (0, False)


async def test_a_text_agent_on_the_old_library_is_measured() -> None:
    with old_agent_running("server03.py") as url:
        async with opened(f"a2a:{url}#text", r"ids=re:\(ref: ([^)]+)\)") as agent:
            assert (await agent.ask("coffee", 5)).doc_ids == FOUND


async def test_a_text_agent_in_javascript_is_measured() -> None:
    folder = os.environ.get("ASSAY_A2A_JS")
    if folder is None:
        pytest.skip("ASSAY_A2A_JS is not set: the folder that scripts/get-a2a-js.sh fills")
    command = ["node", str(Path(__file__).with_name("stranger_js.mjs")), folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}"
        async with opened(f"a2a:{url}#text") as agent:
            answer = await agent.ask("coffee", 5)
        process.terminate()
    assert answer.doc_ids == FOUND
    assert answer.answer == "For coffee read [note-7] and then [note-2]."
