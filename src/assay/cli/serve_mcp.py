"""`assay serve mcp`: search and answers for any MCP client, over HTTP or stdio."""

from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.console import say
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.serve.mcp.search import LoadRetrieval

MODES = ("hybrid", "tuned", "dense", "bm25")


def mcp(
    mode: Annotated[
        str, typer.Option(help=f"How to search: {', '.join(MODES)}.", envvar="ASSAY_MODE")
    ] = "hybrid",
    dataset: Annotated[
        str,
        typer.Option(
            help="nfcorpus, notes, or the path of a BEIR folder or zip.",
            envvar="ASSAY_DATASET",
            metavar="NAME|PATH",
        ),
    ] = "nfcorpus",
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Serve one client on stdin and stdout instead.")
    ] = False,
    allow_hosts: Annotated[
        str,
        typer.Option(
            help="Names under which clients may reach this server, separated by commas, besides "
            "localhost and the usual service names; * for any.",
            envvar="MCP_ALLOWED_HOSTS",
            metavar="HOST,...",
        ),
    ] = "",
    session_idle: Annotated[
        float,
        typer.Option(
            help="Seconds after which a session that does nothing is dropped.",
            envvar="MCP_SESSION_IDLE",
            metavar="S",
            min=1,
        ),
    ] = 1800.0,
    max_sessions: Annotated[
        int,
        typer.Option(
            help="How many sessions may be open at once.",
            envvar="MCP_MAX_SESSIONS",
            metavar="N",
            min=1,
        ),
    ] = 1000,
    host: Annotated[
        str,
        typer.Option(
            help="Where to listen; 0.0.0.0 for everyone who can reach this machine.",
            envvar="ASSAY_HOST",
            metavar="HOST",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="0 takes a free one.", envvar="MCP_PORT", metavar="PORT", max=65535)
    ] = 8000,
) -> None:
    """The MCP server: MCP at /mcp, and POST /search_nfcorpus for those who do not speak it.

    With ASSAY_TOKEN set, callers over HTTP need that bearer token. POST /stats/reset needs
    another one, ASSAY_ADMIN_TOKEN.
    """
    if mode not in MODES:
        raise UsageError(f"--mode must be one of {', '.join(MODES)}, got {mode!r}")
    from assay.serve.request_log import set_up_logging

    if stdio:
        import asyncio

        from assay.serve.mcp.app import serve_stdio

        set_up_logging()
        asyncio.run(serve_stdio(_loader(dataset, mode)))
        return
    from assay.data.load import require_dataset
    from assay.serve.guards import admin_token, server_token
    from assay.serve.listening import bind, serve_on, url_of

    require_dataset(dataset)
    with bind(host, port) as listener:
        # Announced before the slow imports: whoever started us can already connect and wait.
        url = url_of(listener)
        print(url, flush=True)
        say(f"MCP server on {url}/mcp (Ctrl-C ends it)")
        from assay.serve.mcp.app import allowed_hosts, mcp_app

        set_up_logging()
        app = mcp_app(
            _loader(dataset, mode),
            token=server_token(),
            admin_token=admin_token(),
            hosts=allowed_hosts(host, allow_hosts),
            session_idle_s=session_idle,
            max_sessions=max_sessions,
        )
        serve_on(app, listener)


def _loader(dataset: str, mode: str) -> "LoadRetrieval":
    from assay.serve.retrieval import load_retrieval

    return lambda progress: load_retrieval(dataset, mode, progress)
