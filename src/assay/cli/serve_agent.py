"""`assay serve agent`: agents that keep the HTTP agent contract, one or several in a process."""

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.console import say
from assay.errors import UsageError

MODES = ("hybrid", "tuned", "dense", "bm25")


def agent(
    tasks: Annotated[
        list[str],
        typer.Argument(
            metavar="TASK...",
            help="RAG_RETRIEVE, RAG_INGEST, RAG_ANSWER, LIT_RETRIEVAL, POLICY_REVIEW, "
            "CLAIM_VERIFY, or all. One is served at the root; several each on a path of its "
            "own, such as /rag-retrieve.",
            show_default=False,
        ),
    ],
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
    policy: Annotated[
        Path | None,
        typer.Option(
            help="Rules for POLICY_REVIEW instead of those that come with Assay.",
            envvar="ASSAY_POLICY",
            metavar="FILE",
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="Where to listen; 0.0.0.0 for everyone who can reach this machine.",
            envvar="ASSAY_HOST",
            metavar="HOST",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(help="0 takes a free one.", envvar="ASSAY_PORT", metavar="PORT", max=65535),
    ] = 8000,
) -> None:
    """Agents that keep the HTTP agent contract (docs/agent-contract.md).

    Documents that RAG_INGEST takes are kept in the cache, or on the Qdrant that QDRANT_URL names.
    With ASSAY_TOKEN set, callers need that bearer token.
    """
    if mode not in MODES:
        raise UsageError(f"--mode must be one of {', '.join(MODES)}, got {mode!r}")
    from assay.serve.guards import server_token
    from assay.serve.listening import bind, serve_on, url_of
    from assay.serve.request_log import set_up_logging

    with bind(host, port) as listener:
        url = url_of(listener)
        from assay.serve.contract_agents.apps import (
            agents_app,
            known_tasks,
            open_workshop,
            path_of,
        )

        wanted = known_tasks(tasks)
        workshop = open_workshop(dataset, mode, policy=policy)
        print(url, flush=True)
        for task in wanted:
            say(f"{task} on {url}{path_of(task) if len(wanted) > 1 else ''}")
        set_up_logging()
        app = agents_app(wanted, workshop, token=server_token(), hosts={host})
        serve_on(app, listener)
