"""What our sandboxes are called at Modal, and how we know them again (C46, PROVIDERS 2.3)."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from deepline.core.model.sandbox import Operation
from deepline.ports.errors import Refused

OWNER = "deepline-owner"
TOKEN = "deepline-op"  # noqa: S105 - a label's name
RUN = "deepline-run"
ORG = "deepline-org"
NAME = "deepline-name"
CREATED = "deepline-at-ms"
MARK = "deepline-store"
_LABEL = re.compile(r"[A-Za-z0-9_.-]{1,63}")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def ownership(owner: str) -> Mapping[str, str]:
    """The label that every sandbox of this deployment carries."""
    return {OWNER: owner}


def labels_of(operation: Operation, owner: str, now: datetime) -> Mapping[str, str]:
    """Every label of the operation's sandbox.

    What cannot be a label is left out, but for the token: without it nobody would know whose the
    sandbox is, so then the operation is `Refused`.
    """
    for what, text in (("name", operation.name), ("token", operation.token)):
        if not (_NAME if what == "name" else _LABEL).fullmatch(text):
            raise Refused(f"{what}_invalid", f"Modal takes no {what} such as {text[:80]!r}")
    wanted = {
        **ownership(owner),
        TOKEN: operation.token,
        NAME: operation.name,
        RUN: operation.run_id,
        ORG: operation.org_id,
        CREATED: str(int(now.timestamp() * 1000)),
        MARK: operation.mark or "",
    }
    return {name: text for name, text in wanted.items() if _LABEL.fullmatch(text)}


def made_for(labels: Mapping[str, str], operation: Operation) -> bool:
    """True when these are the labels of this operation's sandbox.

    What could not be a label was left out, which the token makes up for.
    """
    wanted = ((TOKEN, operation.token), (RUN, operation.run_id), (ORG, operation.org_id))
    return TOKEN in labels and all(labels.get(name, text) == text for name, text in wanted)


def created_at(labels: Mapping[str, str]) -> datetime | None:
    """When the sandbox was asked for, by our own clock."""
    text = labels.get(CREATED, "")
    return datetime.fromtimestamp(int(text) / 1000, UTC) if text.isdecimal() else None
