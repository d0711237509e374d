"""`assay serve hostile`: the agent that misbehaves on demand."""

from typing import Annotated

import typer

from assay.cli.console import print_json
from assay.cli.serve_options import Host, Open, Port, announce
from assay.errors import UsageError


def hostile(
    list_all: Annotated[
        bool, typer.Option("--list", help="Print the catalogue of misbehaviors instead.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --list: as JSON.")] = False,
    host: Host = "127.0.0.1",
    is_open: Open = False,
    port: Port = 9666,
) -> None:
    """Serve an agent that misbehaves on demand. For testing clients; see docs/hostile.md.

    The path chooses how: http://127.0.0.1:9666/gzip-bomb answers with a gzip bomb, in A2A, MCP,
    the HTTP agent contract and plain JSON.
    """
    from assay.serve.hostile.server import describe, serve_hostile

    if list_all or as_json:
        if as_json:
            print_json(describe())
        else:
            for each in describe():
                print(f"{each['group']:10} {each['name']:22} {each['expected']:15}", end=" ")
                print(each["description"])
        return
    from assay.net.outbound import is_loopback
    from assay.serve.listening import bind, url_of

    if not is_open and not is_loopback(host):
        raise UsageError(
            f"--host {host} lets other machines ask this server for endless responses; add --open "
            "if they may, or listen on 127.0.0.1"
        )
    with bind(host, port) as listener:
        url = url_of(listener)
        announce("hostile agent", url, path="/NAME")
        serve_hostile(listener, url)
