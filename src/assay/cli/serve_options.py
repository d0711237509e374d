"""Options that the servers share."""

from typing import Annotated

import typer

from assay.cli.console import say
from assay.errors import UsageError

MODES = ("hybrid", "tuned", "dense", "bm25")

Host = Annotated[
    str,
    typer.Option(
        help="Address to listen on; 0.0.0.0 for all network interfaces.",
        envvar="ASSAY_HOST",
        metavar="HOST",
    ),
]
Port = Annotated[
    int,
    typer.Option(
        help="Port to listen on; 0 picks a free one.",
        envvar="ASSAY_PORT",
        metavar="PORT",
        min=0,
        max=65535,
    ),
]
CardUrl = Annotated[
    str | None,
    typer.Option(
        help="The URL in the agent card. Default: the URL of the request.",
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
SearchMode = Annotated[
    str, typer.Option(help=f"How to search: {', '.join(MODES)}.", envvar="ASSAY_MODE")
]

Open = Annotated[
    bool,
    typer.Option(
        "--open",
        help="Listen beyond this machine without ASSAY_TOKEN: anyone who can connect may call.",
        envvar="ASSAY_OPEN",
    ),
]


def check_exposure(host: str, *, is_open: bool) -> None:
    """Refuse to listen beyond this machine without a token, unless the operator wants that."""
    from assay.net.outbound import is_loopback
    from assay.serve.guards import TOKEN_VARIABLE, server_token

    if server_token() is None and not is_open and not is_loopback(host):
        raise UsageError(
            f"--host {host} lets other machines call this server: set {TOKEN_VARIABLE} to a secret "
            "that callers must send, add --open to serve everyone, or listen on 127.0.0.1"
        )


def check_mode(mode: str) -> None:
    """Raise `UsageError` for a mode that does not exist."""
    if mode not in MODES:
        raise UsageError(f"--mode must be one of {', '.join(MODES)}, got {mode!r}")


def announce(what: str, url: str, path: str = "") -> None:
    """The address on stdout, for scripts that asked for a free port; the sentence for people."""
    print(url, flush=True)
    say(f"{what} on {url}{path} (press Ctrl-C to stop)")
