"""A play composes other plays inline; a scheduled child is turned away at submit (C06, I27)."""

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from deepline.core.model.json_value import Json
from deepline.core.model.why import Why

INLINE_ONLY = "CTX_RUN_PLAY_INLINE_ONLY"
_MESSAGE = (
    f"{INLINE_ONLY}: a play cannot be submitted as a scheduled child of another run. "
    "ctx.runPlay composes a resolved scalar child inline; submit independent work as a "
    "top-level play."
)


@attrs.frozen(kw_only=True)
class TopLevel:
    """The submission names no parent; go on."""

    why: Why


@attrs.frozen(kw_only=True)
class ScheduledChild:
    """Refuse with `message`, before any effect."""

    message: str
    why: Why


Governance: TypeAlias = TopLevel | ScheduledChild


def check_governance(governance: Mapping[str, Json] | None) -> Governance:
    """Look at `playCallGovernance` as received: only a non-blank text names a parent run."""
    parent = (governance or {}).get("parentRunId")
    if isinstance(parent, str) and parent.strip():
        return ScheduledChild(message=_MESSAGE, why=Why("governance.scheduled_child"))
    return TopLevel(why=Why("governance.top_level"))
