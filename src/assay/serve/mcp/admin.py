"""A token of its own for what only the operator may do.

Agents under test hold the token for searching. With the same one they could erase the count of
their own searches, which is what tells an evaluator whether they searched at all.
"""

import os
from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from assay.errors import UsageError
from assay.serve.guards import TOKEN_VARIABLE, BearerToken

ADMIN_VARIABLE = "ASSAY_ADMIN_TOKEN"


def admin_token_from_environment() -> str | None:
    return os.environ.get(ADMIN_VARIABLE) or None


class TwoTokens:
    """`admin_paths` need the operator's token, everything else the one for callers."""

    def __init__(
        self, app: ASGIApp, token: str | None, admin: str | None, admin_paths: Collection[str]
    ) -> None:
        if admin is not None and admin == token:
            raise UsageError(
                f"{ADMIN_VARIABLE} and {TOKEN_VARIABLE} are the same, so every caller could reset "
                "the counts; give the operator another token"
            )
        self._for_callers = BearerToken(app, token)
        self._for_operators = BearerToken(app, admin, open_paths=())
        self._admin_paths = frozenset(admin_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_admin = scope["type"] == "http" and scope["path"] in self._admin_paths
        await (self._for_operators if is_admin else self._for_callers)(scope, receive, send)
