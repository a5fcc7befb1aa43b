"""Which account of the operating system runs the server, and what that account can reach.

Postgres refuses to run as root. When we are root, an unprivileged account runs every one of its
programs; otherwise we run them as ourselves. Nothing here changes the account of our process.
"""

import os
import pwd
import stat
from pathlib import Path
from typing import TypedDict

import attrs

from deepline.ports.errors import Refused

UNPRIVILEGED_ACCOUNTS = ("postgres", "nobody")
"""Who runs the server when we are root; the first of these that exists."""


class ProcessOptions(TypedDict, total=False):
    """What a subprocess needs to run as another account."""

    user: int
    group: int
    extra_groups: list[int]


@attrs.frozen
class ServerAccount:
    """The account that owns the data and runs the server; `switched` when it isn't our own."""

    uid: int
    gid: int
    switched: bool

    @property
    def process_options(self) -> ProcessOptions:
        """Keyword arguments that make a subprocess run as this account."""
        if not self.switched:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Give a file or directory of ours to the account, when it isn't ours alone anyway."""
        if self.switched:
            os.chown(path, self.uid, self.gid)


def choose_account(data: Path) -> ServerAccount:
    """Ourselves, or for root whoever owns the data already, or else an unprivileged account.

    Raises Refused when we are root and there is nobody to run the server as.
    """
    if os.geteuid() != 0:
        return ServerAccount(uid=os.geteuid(), gid=os.getegid(), switched=False)
    if data.exists() and (owner := data.stat()).st_uid != 0:
        return ServerAccount(uid=owner.st_uid, gid=owner.st_gid, switched=True)
    for name in UNPRIVILEGED_ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return ServerAccount(uid=entry.pw_uid, gid=entry.pw_gid, switched=True)
    raise Refused(
        "embedded_postgres_account",
        "Postgres does not run as root, and this machine has neither an account named "
        f"{' nor '.join(UNPRIVILEGED_ACCOUNTS)}. Start as an ordinary user.",
    )


def first_closed_directory(path: Path, account: ServerAccount) -> Path | None:
    """The outermost directory on the way to `path`, itself included, that shuts the account out."""
    for directory in (*reversed(path.parents), path):
        if directory.is_dir() and not lets_pass(directory.stat(), account):
            return directory
    return None


def lets_pass(directory: os.stat_result, account: ServerAccount) -> bool:
    """Whether the account may go through a directory, by its mode alone."""
    if directory.st_uid == account.uid:
        needed = stat.S_IXUSR
    elif directory.st_gid == account.gid:
        needed = stat.S_IXGRP
    else:
        needed = stat.S_IXOTH
    return bool(directory.st_mode & needed)
