"""`assay serve ui`: the runs of a folder as web pages."""

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.console import say
from assay.errors import UsageError


def ui(
    runs: Annotated[
        Path, typer.Option(help="Where run folders are.", envvar="ASSAY_OUT", metavar="DIR")
    ] = Path("runs"),
    dataset: Annotated[
        str,
        typer.Option(
            help="What the search box searches: nfcorpus, notes, or the path of a BEIR folder or "
            "zip.",
            envvar="ASSAY_DATASET",
            metavar="NAME|PATH",
        ),
    ] = "nfcorpus",
    allow_hosts: Annotated[
        str,
        typer.Option(
            help="Hosts or host:port, separated by commas, whose agents may be evaluated and "
            "checked. Needed only when listening beyond this machine.",
            envvar="ASSAY_ALLOWED_HOSTS",
            metavar="HOST,...",
        ),
    ] = "",
    host: Annotated[
        str,
        typer.Option(
            help="Where to listen; 0.0.0.0 for everyone who can reach this machine, which needs "
            "ASSAY_TOKEN to be set.",
            envvar="ASSAY_HOST",
            metavar="HOST",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(help="0 takes a free one.", envvar="ASSAY_PORT", metavar="PORT", max=65535),
    ] = 9000,
) -> None:
    """Reports, comparisons, leaderboard, search and agent checks in the browser.

    With ASSAY_TOKEN set, the pages ask for that token.
    """
    from assay.net.outbound import OutboundPolicy
    from assay.serve.guards import TOKEN_VARIABLE, server_token
    from assay.serve.listening import bind, is_loopback, serve_on, url_of

    token = server_token()
    if token is None and not is_loopback(host):
        raise UsageError(
            f"--host {host} opens the pages to others: set {TOKEN_VARIABLE} to a secret that they "
            "must give, or listen on 127.0.0.1"
        )
    policy = OutboundPolicy.for_server(host, allow_hosts)
    with bind(host, port) as listener:
        url = url_of(listener)
        print(url, flush=True)
        say(f"the runs of {runs} on {url} (Ctrl-C ends it)")
        from assay.serve.request_log import set_up_logging
        from assay.serve.ui.app import ui_app

        set_up_logging()
        serve_on(ui_app(runs, token=token, policy=policy, dataset=dataset), listener)
