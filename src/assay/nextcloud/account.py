"""Which Nextcloud, and as whom. The password is never part of a text about the account."""

import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from assay.errors import UsageError

HOST, USERNAME, PASSWORD = "NEXTCLOUD_HOST", "NEXTCLOUD_USERNAME", "NEXTCLOUD_PASSWORD"


@dataclass(frozen=True, slots=True)
class Account:
    """`host` with scheme, and with the path where Nextcloud is not at the root of its server."""

    host: str
    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.host)
        if "@" in parts.netloc:  # not quoted: what stands before the @ is a password
            raise UsageError(
                f"{HOST} must not hold a user name or password; set {USERNAME} and {PASSWORD}"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                f"{HOST} must be an http(s) address such as https://cloud.example.org, "
                f"got {self.host!r}"
            )
        if ":" in self.username:  # it would end the name in HTTP's basic authentication
            raise UsageError(f"{USERNAME} must not hold a colon, got {self.username!r}")

    @property
    def api(self) -> str:
        return f"{self.host.rstrip('/')}/index.php/apps/notes/api/v1/"


def account_from_environment(host: str | None = None, username: str | None = None) -> Account:
    """The password comes from the environment alone: a command line is seen by others."""
    values = {
        HOST: host or os.environ.get(HOST),
        USERNAME: username or os.environ.get(USERNAME),
        PASSWORD: os.environ.get(PASSWORD),
    }
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise UsageError(
            f"not set: {', '.join(missing)}. Nextcloud is reached with {HOST}, {USERNAME} and "
            f"{PASSWORD} (an app password, from Settings, Security)"
        )
    return Account(str(values[HOST]), str(values[USERNAME]), str(values[PASSWORD]))
