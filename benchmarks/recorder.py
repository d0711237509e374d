"""What the recorder of searches costs: CPU of a search through it, beside the search alone.

python benchmarks/recorder.py [--searches 500]
"""

import argparse
import asyncio
import sys
import time

import httpx
from mcp import Client

import assay
from assay.data.dataset import Query
from assay.evaluation.recorder import open_recorder
from assay.run.config import RunConfig

# The agent's side over MCP, in a process of its own: its work is not the recorder's.
CLIENT = """
import asyncio, sys
from mcp import Client

async def main(url, *texts):
    async with Client(url) as client:
        for text in texts:
            await client.call_tool("search", {"query": text})

asyncio.run(main(*sys.argv[1:]))
"""


async def main(searches: int) -> None:
    """Print the milliseconds of CPU of one search, each way."""
    dataset = assay.load_dataset("notes")
    config = RunConfig(target="a2a:http://127.0.0.1:1", dataset="notes", search="builtin:bm25")
    texts = [query.text for query in dataset.queries.values()]
    async with (
        open_recorder(config, dataset, print) as recorder,
        httpx.AsyncClient() as http,
        recorder.question(Query("q", "")) as session,
    ):
        base = f"{recorder.url}/q/{session.token}"

        def show(name: str, seconds: float) -> None:
            print(f"{name:34} {1000 * seconds / searches:6.2f} ms of CPU")

        async def direct(text: str) -> None:
            assert recorder.tool is not None
            await recorder.tool.ask(text, 5)

        async def in_process(text: str) -> None:
            await recorder.search(None, "token", text, 5)

        async def rest(text: str) -> None:
            await http.post(f"{base}/search", json={"query": text, "top_k": 5})

        async def health(text: str) -> None:
            await http.get(f"{recorder.url}/health")

        for name, call in (
            ("tool alone", direct),
            ("recorded, in process", in_process),
            ("an HTTP request, client included", health),
            ("recorded, REST, client included", rest),
        ):
            await call(texts[0])
            session.steps.clear()
            started = time.process_time()
            for number in range(searches):
                await call(texts[number % len(texts)])
            spent = time.process_time() - started
            session.steps.clear()
            show(name, spent)
        asked = [texts[number % len(texts)] for number in range(searches)]
        async with Client(f"{base}/mcp") as client:
            started = time.process_time()
            for text in asked:
                await client.call_tool("search", {"query": text})
            show("recorded, MCP, client included", time.process_time() - started)
        session.steps.clear()
        started = time.process_time()
        command = (sys.executable, "-c", CLIENT, f"{base}/mcp", *asked)
        process = await asyncio.create_subprocess_exec(*command)
        await process.wait()
        show("recorded, MCP", time.process_time() - started)


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--searches", type=int, default=500)
asyncio.run(main(parser.parse_args().searches))
