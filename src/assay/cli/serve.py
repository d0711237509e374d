"""`assay serve ...`: Assay's own servers, one command each."""

import os
import secrets
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.console import say
from assay.cli.help import verbs
from assay.cli.serve_hostile import hostile
from assay.cli.serve_options import (
    CardUrl,
    DatasetName,
    Host,
    Open,
    Port,
    SearchMode,
    announce,
    check_exposure,
    check_mode,
)
from assay.errors import AssayError, UsageError

serve_app = verbs("serve", "Start one of Assay's servers.")


@serve_app.command("purple")
def purple(
    mode: SearchMode = "hybrid",
    dataset: DatasetName = "nfcorpus",
    mcp_server_url: Annotated[
        str | None,
        typer.Option(
            help="Search through this MCP server instead of in process.",
            envvar="MCP_SERVER_URL",
            metavar="URL",
        ),
    ] = None,
    answers: Annotated[
        bool,
        typer.Option(
            help="Answer from what is found, with citations: by quoting, or with the model that "
            "RAG_EVAL_PROVIDER names.",
            envvar="ASSAY_ANSWERS",
        ),
    ] = False,
    host: Host = "127.0.0.1",
    is_open: Open = False,
    port: Port = 9010,
    card_url: CardUrl = None,
    stop_with_stdin: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Serve the retrieval agent over A2A. It takes a query and returns ranked document ids.

    With --answers it returns an answer and its citations as well, which assay eval a2a:URL
    --answers measures.

    With ASSAY_TOKEN set, callers need that bearer token.
    """
    check_exposure(host, is_open=is_open)
    check_mode(mode)
    from assay.data.load import require_dataset
    from assay.serve.guards import server_token
    from assay.serve.listening import bind, serve_on, url_of
    from assay.serve.request_log import set_up_logging

    require_dataset(dataset)
    if answers and mcp_server_url:
        raise UsageError(
            "--answers needs the documents, and with --mcp-server-url another server has them: "
            "leave one of the two out"
        )
    with bind(host, port) as listener:
        # Announced before the slow imports: clients can already connect and wait.
        announce("purple agent", url_of(listener))
        from assay.serve.purple import agent as served

        set_up_logging()
        if mcp_server_url:
            load, close = served.mcp_search(mcp_server_url)
        else:
            writer = served.configured_answers() if answers else None
            load, close = served.local_search(dataset, mode, writer)
        app = served.purple_app(
            load,
            dataset=None if mcp_server_url else dataset,
            answers=answers,
            card_url=card_url,
            token=server_token(),
            on_stop=close,
        )
        serve_on(app, listener, stop_with=sys.stdin.buffer if stop_with_stdin else None)


@serve_app.command("green")
def green(
    dataset: DatasetName = "nfcorpus",
    out: Annotated[
        Path, typer.Option(help="Folder to write runs to.", envvar="ASSAY_OUT", metavar="DIR")
    ] = Path("runs"),
    allow_hosts: Annotated[
        str,
        typer.Option(
            help="Private hosts, host:port or networks that may be evaluated, "
            "separated by commas. Needed only when listening on more than loopback.",
            envvar="ASSAY_ALLOWED_HOSTS",
            metavar="HOST,...",
        ),
    ] = "",
    concurrency: Annotated[
        int,
        typer.Option(
            help="How many queries of one evaluation are in flight at once.",
            envvar="ASSAY_CONCURRENCY",
            metavar="N",
            min=1,
            max=1000,
        ),
    ] = 8,
    host: Host = "127.0.0.1",
    is_open: Open = False,
    port: Port = 9009,
    card_url: CardUrl = None,
    mcp_port: Annotated[
        int | None,
        typer.Option(
            help="Also serve search over MCP and plain HTTP on this port, as assay serve mcp "
            "does; 0 picks a free one.",
            envvar="ASSAY_MCP_PORT",
            metavar="PORT",
            min=0,
            max=65535,
        ),
    ] = None,
    mode: SearchMode = "hybrid",
) -> None:
    """Serve the evaluator over A2A. It takes an agent's URL and returns its report.

    Also available as plain REST: POST /tasks, GET /tasks/ID, GET /tasks/ID/events, DELETE
    /tasks/ID. With ASSAY_TOKEN set, callers need that bearer token. ASSAY_TIMEOUT, ASSAY_TRACK,
    ASSAY_ANSWERS and ASSAY_WARM_UP apply where a request's config does not say.

    With --mcp-port, retrieval agents find a search over the same data set at this server, as
    those that expect it at green-agent:8000 do.
    """
    check_exposure(host, is_open=is_open)
    check_mode(mode)
    from assay.data.load import require_dataset
    from assay.net.outbound import OutboundPolicy
    from assay.run.options import environment_defaults
    from assay.serve.guards import server_token
    from assay.serve.listening import bind, serve_on, url_of
    from assay.serve.request_log import set_up_logging

    policy = OutboundPolicy.for_server(host, allow_hosts)
    environment_defaults(("timeout", "track", "answers", "warm_up"))  # refuse a wrong one now
    require_dataset(dataset)
    with ExitStack() as listeners:
        listener = listeners.enter_context(bind(host, port))
        at_mcp = None if mcp_port is None else listeners.enter_context(bind(host, mcp_port))
        announce("green agent", url_of(listener))
        from assay.serve.green.agent import dataset_loader, green_app

        set_up_logging()
        app = green_app(
            dataset_loader(dataset),
            source=dataset,
            out=out,
            policy=policy,
            card_url=card_url,
            token=server_token(),
            concurrency=concurrency,
        )
        beside = []
        if at_mcp is not None:
            announce("MCP server", url_of(at_mcp), path="/mcp")
            from assay.serve.mcp.app import HOSTS_VARIABLE, search_app

            names = os.environ.get(HOSTS_VARIABLE, "")
            beside.append((search_app(dataset, mode, host, names), at_mcp))
        serve_on(app, listener, beside=beside)


@serve_app.command("mcp")
def mcp(
    mode: SearchMode = "hybrid",
    dataset: DatasetName = "nfcorpus",
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Serve one client over stdio instead.")
    ] = False,
    allow_hosts: Annotated[
        str,
        typer.Option(
            help="Host names that clients may use for this server, separated by commas, "
            "besides localhost and the usual service names; * for any.",
            envvar="MCP_ALLOWED_HOSTS",
            metavar="HOST,...",
        ),
    ] = "",
    session_idle: Annotated[
        float,
        typer.Option(
            help="Close a session after this many idle seconds.",
            envvar="MCP_SESSION_IDLE",
            metavar="S",
            min=1,
        ),
    ] = 1800.0,
    max_sessions: Annotated[
        int,
        typer.Option(
            help="Maximum number of open sessions.",
            envvar="MCP_MAX_SESSIONS",
            metavar="N",
            min=1,
        ),
    ] = 1000,
    host: Host = "127.0.0.1",
    is_open: Open = False,
    port: Annotated[
        int,
        typer.Option(
            help="Port to listen on; 0 picks a free one.",
            envvar="MCP_PORT",
            metavar="PORT",
            min=0,
            max=65535,
        ),
    ] = 8000,
) -> None:
    """Serve search over MCP and plain HTTP. MCP is at /mcp, HTTP at POST /search_nfcorpus.

    With ASSAY_TOKEN set, callers over HTTP need that bearer token. POST /stats/reset needs
    the token ASSAY_ADMIN_TOKEN.
    """
    check_mode(mode)
    from assay.serve.request_log import set_up_logging

    if stdio:
        import asyncio

        from assay.serve.mcp.app import serve_stdio

        set_up_logging()
        asyncio.run(serve_stdio(dataset, mode))
        return
    check_exposure(host, is_open=is_open)
    from assay.data.load import require_dataset
    from assay.serve.listening import bind, serve_on, url_of

    require_dataset(dataset)
    with bind(host, port) as listener:
        announce("MCP server", url_of(listener), path="/mcp")
        from assay.serve.mcp.app import search_app

        set_up_logging()
        app = search_app(
            dataset,
            mode,
            host,
            allow_hosts,
            session_idle_s=session_idle,
            max_sessions=max_sessions,
        )
        serve_on(app, listener)


@serve_app.command("agent")
def agent(
    tasks: Annotated[
        list[str],
        typer.Argument(
            metavar="TASK...",
            help="RAG_RETRIEVE, RAG_INGEST, RAG_ANSWER, LIT_RETRIEVAL, POLICY_REVIEW, "
            "CLAIM_VERIFY, or all. One task is served at the root; several are each "
            "served under a path such as /rag-retrieve.",
            show_default=False,
        ),
    ],
    mode: SearchMode = "hybrid",
    dataset: DatasetName = "nfcorpus",
    policy: Annotated[
        Path | None,
        typer.Option(
            help="A rules file for POLICY_REVIEW instead of the bundled one.",
            envvar="ASSAY_POLICY",
            metavar="FILE",
        ),
    ] = None,
    host: Host = "127.0.0.1",
    is_open: Open = False,
    port: Port = 8000,
) -> None:
    """Serve agents that implement the HTTP agent contract. It is described in docs/agent-
    contract.md.

    Documents ingested with RAG_INGEST are stored in the cache, or on the Qdrant server at
    QDRANT_URL. With ASSAY_TOKEN set, callers need that bearer token.
    """
    check_exposure(host, is_open=is_open)
    check_mode(mode)
    from assay.serve.guards import server_token
    from assay.serve.listening import bind, serve_on, url_of
    from assay.serve.request_log import set_up_logging

    with bind(host, port) as listener:
        url = url_of(listener)
        from assay.serve.contract_agents.apps import (
            agents_app,
            known_tasks,
            open_resources,
            path_of,
        )

        wanted = known_tasks(tasks)
        resources = open_resources(dataset, mode, policy=policy)
        print(url, flush=True)
        for task in wanted:
            say(f"{task} on {url}{path_of(task) if len(wanted) > 1 else ''}")
        set_up_logging()
        app = agents_app(wanted, resources, token=server_token(), hosts={host})
        serve_on(app, listener)


@serve_app.command("ui")
def ui(
    runs: Annotated[
        Path, typer.Option(help="Folder of the runs.", envvar="ASSAY_OUT", metavar="DIR")
    ] = Path("runs"),
    dataset: Annotated[
        str,
        typer.Option(
            help="The data set of the search page: nfcorpus, notes, or the path of a "
            "BEIR folder or zip.",
            envvar="ASSAY_DATASET",
            metavar="NAME|PATH",
        ),
    ] = "nfcorpus",
    allow_hosts: Annotated[
        str,
        typer.Option(
            help="Hosts or host:port, separated by commas, whose agents may be evaluated "
            "and checked. Needed only when listening on more than loopback.",
            envvar="ASSAY_ALLOWED_HOSTS",
            metavar="HOST,...",
        ),
    ] = "",
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on; 0.0.0.0 for all network interfaces, "
            "which requires a token.",
            envvar="ASSAY_HOST",
            metavar="HOST",
        ),
    ] = "127.0.0.1",
    port: Port = 9000,
    read_only: Annotated[
        bool,
        typer.Option(
            "--read-only",
            help="Visitors may only look: nothing can be started, changed, graded or deleted.",
            envvar="ASSAY_READ_ONLY",
        ),
    ] = False,
    with_token: Annotated[
        bool,
        typer.Option(
            "--token",
            help="Ask visitors for a token: that of ASSAY_TOKEN, or else a new one, which is "
            "printed.",
        ),
    ] = False,
) -> None:
    """Serve the web UI. It has reports, comparisons, a leaderboard, grading, search and checks.

    With ASSAY_TOKEN set, the pages ask for that token.
    """
    from assay.net.outbound import OutboundPolicy, is_loopback
    from assay.serve.guards import TOKEN_VARIABLE, server_token
    from assay.serve.listening import bind, serve_on, url_of

    token = server_token()
    if token is None and with_token:
        token = secrets.token_urlsafe(24)
        say(f"token for visitors: {token}")
    if token is None and not is_loopback(host):
        raise UsageError(
            f"--host {host} exposes the pages to other machines: set {TOKEN_VARIABLE} to "
            "a secret that visitors must enter, add --token for a new one, or listen on 127.0.0.1"
        )
    policy = OutboundPolicy.for_server(host, allow_hosts)
    with bind(host, port) as listener:
        announce(f"web UI for the runs in {runs}", url_of(listener))
        from assay.serve.request_log import set_up_logging
        from assay.serve.ui.app import ui_app

        set_up_logging()
        app = ui_app(runs, token=token, policy=policy, dataset=dataset, read_only=read_only)
        serve_on(app, listener)


serve_app.command("hostile")(hostile)

if __name__ == "__main__":  # how Assay starts a server of its own: agents.purple_process
    try:
        serve_app()
    except AssayError as error:
        say(f"error: {error}")
        sys.exit(error.exit_code)
