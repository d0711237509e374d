"""`assay serve ...`: Assay's own servers, one command each."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.console import say
from assay.cli.serve_agent import agent
from assay.cli.serve_mcp import MODES, mcp
from assay.cli.serve_ui import ui
from assay.errors import AssayError, UsageError

serve_app = typer.Typer(
    name="serve",
    help="Start one of Assay's servers.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Host = Annotated[
    str,
    typer.Option(
        help="Where to listen; 0.0.0.0 for everyone who can reach this machine.",
        envvar="ASSAY_HOST",
        metavar="HOST",
    ),
]
Port = Annotated[
    int,
    typer.Option(help="0 takes a free one.", envvar="ASSAY_PORT", metavar="PORT", min=0, max=65535),
]
CardUrl = Annotated[
    str | None,
    typer.Option(
        help="The address that the agent card names. Left out: the one it was asked for by.",
        envvar="ASSAY_CARD_URL",
        metavar="URL",
    ),
]
DatasetName = Annotated[
    str,
    typer.Option(
        help="nfcorpus, notes, or the path of a BEIR folder or zip.",
        envvar="ASSAY_DATASET",
        metavar="NAME|PATH",
    ),
]


@serve_app.command("purple")
def purple(
    mode: Annotated[
        str,
        typer.Option(help=f"How to search: {', '.join(MODES)}.", envvar="ASSAY_MODE"),
    ] = "hybrid",
    dataset: DatasetName = "nfcorpus",
    mcp_server_url: Annotated[
        str | None,
        typer.Option(
            help="Search through this MCP server instead of in this process.",
            envvar="MCP_SERVER_URL",
            metavar="URL",
        ),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 9010,
    card_url: CardUrl = None,
    stop_with_stdin: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """The retrieval agent over A2A: a query in, ranked document ids out.

    With ASSAY_TOKEN set, callers need that bearer token.
    """
    if mode not in MODES:
        raise UsageError(f"--mode must be one of {', '.join(MODES)}, got {mode!r}")
    from assay.data.load import require_dataset
    from assay.serve.guards import server_token
    from assay.serve.listening import bind, serve_on, url_of
    from assay.serve.request_log import set_up_logging

    require_dataset(dataset)
    with bind(host, port) as listener:
        # Announced before the slow imports: whoever started us can already connect and wait.
        _announce("purple agent", url_of(listener))
        from assay.serve.purple.agent import local_search, mcp_search, purple_app

        set_up_logging()
        if mcp_server_url:
            load, close = mcp_search(mcp_server_url)
        else:
            load, close = local_search(dataset, mode)
        app = purple_app(load, card_url=card_url, token=server_token(), on_stop=close)
        serve_on(app, listener, stop_with=sys.stdin.buffer if stop_with_stdin else None)


@serve_app.command("green")
def green(
    dataset: DatasetName = "nfcorpus",
    out: Annotated[
        Path, typer.Option(help="Where run folders go.", envvar="ASSAY_OUT", metavar="DIR")
    ] = Path("runs"),
    allow_hosts: Annotated[
        str,
        typer.Option(
            help="Hosts, host:port or networks that may be evaluated although they are private, "
            "separated by commas. Needed only when listening beyond this machine.",
            envvar="ASSAY_ALLOWED_HOSTS",
            metavar="HOST,...",
        ),
    ] = "",
    concurrency: Annotated[
        int,
        typer.Option(
            help="How many queries of one evaluation are out at once.",
            envvar="ASSAY_CONCURRENCY",
            metavar="N",
            min=1,
            max=1000,
        ),
    ] = 8,
    host: Host = "127.0.0.1",
    port: Port = 9009,
    card_url: CardUrl = None,
) -> None:
    """The evaluator over A2A: an agent's address in, its report out.

    Also without A2A: POST /tasks, GET /tasks/ID, GET /tasks/ID/events, DELETE /tasks/ID.
    With ASSAY_TOKEN set, callers need that bearer token.
    """
    from assay.data.load import require_dataset
    from assay.net.outbound import OutboundPolicy
    from assay.serve.guards import server_token
    from assay.serve.listening import bind, serve_on, url_of
    from assay.serve.request_log import set_up_logging

    policy = OutboundPolicy.for_server(host, allow_hosts)
    require_dataset(dataset)
    with bind(host, port) as listener:
        _announce("green agent", url_of(listener))
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
        serve_on(app, listener)


serve_app.command("mcp")(mcp)
serve_app.command("agent")(agent)
serve_app.command("ui")(ui)


def _announce(what: str, url: str) -> None:
    """The address on stdout, for scripts that asked for a free port; the sentence for people."""
    print(url, flush=True)
    say(f"{what} on {url} (Ctrl-C ends it)")


if __name__ == "__main__":  # how Assay starts a server of its own: agents.purple_process
    try:
        serve_app()
    except AssayError as error:
        say(f"error: {error}")
        sys.exit(error.exit_code)
