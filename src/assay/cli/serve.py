"""`assay serve ...`: Assay's own servers, one command each."""

import sys
from functools import partial
from pathlib import Path

from assay.cli.console import say
from assay.cli.options import (
    ALLOW_HOSTS_OPTION,
    CARD_URL_OPTION,
    DATASET_OPTION,
    HOST_OPTION,
    OPEN_OPTION,
    OUT_OPTION,
    SEARCH_MODE_OPTION,
    port_option,
)
from assay.cli.settings import named_configs
from assay.cli.verb import argument, option, switch

# Servers are imported in their verbs: `assay doctor` reads the options of all verbs, also where the
# extra `serve` is not installed. What takes long to import comes after `listen`: a port that is
# taken is told at once, and a caller waits for the answer instead of being refused.


def purple(
    mode: str = SEARCH_MODE_OPTION,
    dataset: str = DATASET_OPTION,
    mcp_server_url: str | None = option(
        None, "Search through this MCP server instead of in process.", "MCP_SERVER_URL", "URL"
    ),
    host: str = HOST_OPTION,
    is_open: bool = OPEN_OPTION,
    port: int = port_option(9010),
    card_url: str | None = CARD_URL_OPTION,
    stop_with_stdin: bool = switch("--stop-with-stdin", "", hidden=True),
) -> None:
    """Serve the reference retrieval agent over A2A. It takes a query and returns ranked ids.

    "Purple" is what AgentBeats calls an agent under test.

    With ASSAY_TOKEN set, callers need that bearer token.
    """
    from assay.data.load import require_dataset
    from assay.serve.guards import server_token
    from assay.serve.listening import check_exposure, listen, serve_on

    check_exposure(host, is_open=is_open)
    require_dataset(dataset)
    with listen("purple agent", host, port) as listener:
        from assay.serve import purple as served

        load, close = served.local_search(dataset, mode), None
        if mcp_server_url:
            load, close = served.mcp_search(mcp_server_url)
        app = served.purple_app(
            load,
            dataset=None if mcp_server_url else dataset,
            card_url=card_url,
            token=server_token(),
            max_wait_s=served.MAX_WAIT_S if mcp_server_url else None,
            on_stop=close,
        )
        serve_on(app, listener, stop_with=sys.stdin.buffer if stop_with_stdin else None)


def green(
    dataset: str = DATASET_OPTION,
    out: Path = OUT_OPTION,
    allow_hosts: str = ALLOW_HOSTS_OPTION,
    concurrency: int = option(8, "How many queries at once.", "ASSAY_CONCURRENCY", min=1, max=1000),
    host: str = HOST_OPTION,
    is_open: bool = OPEN_OPTION,
    port: int = port_option(9009),
    card_url: str | None = CARD_URL_OPTION,
) -> None:
    """Serve the evaluator over A2A. It takes an agent's URL and returns its report.

    Also as REST: POST /tasks, GET /tasks/ID, GET /tasks/ID/events, DELETE /tasks/ID. With
    ASSAY_TOKEN set, callers need that bearer token. ASSAY_TIMEOUT, ASSAY_TRACK, ASSAY_ANSWERS and
    ASSAY_WARM_UP are the defaults for a request's config.
    """
    from assay.data.load import require_dataset
    from assay.net.outbound import OutboundPolicy
    from assay.run.config import environment_defaults
    from assay.serve.guards import server_token
    from assay.serve.listening import check_exposure, listen, serve_on

    check_exposure(host, is_open=is_open)
    policy = OutboundPolicy.for_server(host, allow_hosts)
    environment_defaults(("timeout", "track", "answers", "warm_up"))  # a wrong one is an error now
    require_dataset(dataset)
    with listen("green agent", host, port) as listener:
        from assay.serve.green.agent import dataset_loader, green_app

        app = green_app(
            dataset_loader(dataset),
            source=dataset,
            out=out,
            policy=policy,
            card_url=card_url,
            token=server_token(),
            concurrency=concurrency,
        )
        serve_on(app, listener)


def mcp(
    mode: str = SEARCH_MODE_OPTION,
    dataset: str = DATASET_OPTION,
    stdio: bool = switch("--stdio", "Serve one client over stdio instead."),
    allow_hosts: str = option(
        "",
        "Host names of this server besides localhost; * for any.",
        "MCP_ALLOWED_HOSTS",
        "HOST,...",
    ),
    record: Path | None = option(
        None, "Append each search to this file, for assay eval --searches."
    ),
    host: str = HOST_OPTION,
    is_open: bool = OPEN_OPTION,
    port: int = port_option(8000, "MCP_PORT"),
) -> None:
    """Serve search over MCP and plain HTTP. MCP is at /mcp, HTTP at POST /search_nfcorpus.

    With ASSAY_TOKEN set, callers over HTTP need that bearer token. POST /stats/reset needs
    the token ASSAY_ADMIN_TOKEN.
    """
    if stdio:
        import asyncio

        from assay.serve.mcp.server import serve_stdio
        from assay.serve.request_log import set_up_logging

        set_up_logging()
        asyncio.run(serve_stdio(dataset, mode))
        return
    from assay.data.load import require_dataset
    from assay.serve.guards import admin_token, parse_hosts, server_token
    from assay.serve.listening import check_exposure, listen, serve_on

    check_exposure(host, is_open=is_open)
    require_dataset(dataset)
    with listen("MCP server", host, port, path="/mcp") as listener:
        from assay.serve.mcp.server import SERVICES, mcp_app
        from assay.serve.retrieval import load_retrieval

        if record is not None:
            record.touch(mode=0o600)  # who reads it may be there before the first search
        app = mcp_app(
            partial(load_retrieval, dataset, mode),
            token=server_token(),
            admin_token=admin_token(),
            hosts=(*SERVICES, host, *parse_hosts(allow_hosts)),
            record=record,
        )
        serve_on(app, listener)


def agent(
    tasks: list[str] = argument(
        "TASK",
        "RAG_RETRIEVE, RAG_INGEST, LIT_RETRIEVAL, POLICY_REVIEW, CLAIM_VERIFY, or all. Several are "
        "each served under a path such as /rag-retrieve.",
    ),
    mode: str = SEARCH_MODE_OPTION,
    dataset: str = DATASET_OPTION,
    host: str = HOST_OPTION,
    is_open: bool = OPEN_OPTION,
    port: int = port_option(8000),
) -> None:
    """Serve agents that implement the HTTP agent contract.

    The contract is in docs/contract.md. Documents ingested with RAG_INGEST are stored in the
    cache. With ASSAY_TOKEN set, callers need that bearer token.
    """
    from assay.serve.guards import server_token
    from assay.serve.listening import bind, check_exposure, serve_on, url_of
    from assay.serve.request_log import set_up_logging

    check_exposure(host, is_open=is_open)
    with bind(host, port) as listener:
        url = url_of(listener)
        from assay.serve.contract_agents import apps

        wanted = apps.known_tasks(tasks)
        knowledge = apps.open_knowledge(dataset, mode)
        print(url, flush=True)
        for task in wanted:
            say(f"{task} on {url}{apps.path_of(task) if len(wanted) > 1 else ''}")
        set_up_logging()
        app = apps.agents_app(wanted, knowledge, token=server_token(), hosts={host})
        serve_on(app, listener)


def ui(
    runs: Path = option(Path("runs"), "Folder of the runs.", "ASSAY_OUT", "DIR"),
    allow_hosts: str = ALLOW_HOSTS_OPTION,
    host: str = HOST_OPTION,
    port: int = port_option(9000),
    read_only: bool = switch("--read-only", "Visitors may only look.", "ASSAY_READ_ONLY"),
) -> None:
    """Serve the web UI. It has runs, comparisons, trends, evaluations and grading.

    With ASSAY_TOKEN set, the pages ask for that token. Other machines need it.
    """
    from assay.net.outbound import OutboundPolicy
    from assay.serve.guards import server_token
    from assay.serve.listening import check_exposure, listen, serve_on

    check_exposure(host)
    policy = OutboundPolicy.for_server(host, allow_hosts)
    with listen(f"web UI for the runs in {runs}", host, port) as listener:
        from assay.serve.ui.app import ui_app

        named = named_configs()
        pages = ui_app(runs, token=server_token(), policy=policy, read_only=read_only, named=named)
        serve_on(pages, listener)
