"""What a sandbox is asked to be, and what its labels say (C46, F66, F67, F68)."""

import math
from collections.abc import Mapping
from datetime import timedelta

import daytona_api_client_async as generated

from deepline.adapters.daytona.settings import DaytonaSettings
from deepline.core.model.sandbox import Operation, Resources
from deepline.ports.errors import Refused

OWNER_LABEL = "deepline-owner"
OPERATION_LABEL = "deepline-operation"
ORG_LABEL = "deepline-org"
RUN_LABEL = "deepline-run"
ATTEMPT_LABEL = "deepline-attempt"
MARK_LABEL = "deepline-store"
LIFE_MAX = timedelta(hours=24)
"""How long a sandbox lives at most when nobody said how long it may."""


def labels_of(operation: Operation, owner: str) -> dict[str, str]:
    """Who made the sandbox and what for; sweeps go by these and never by a name."""
    marked = {} if operation.mark is None else {MARK_LABEL: operation.mark}
    return marked | {
        OWNER_LABEL: owner,
        OPERATION_LABEL: operation.token,
        ORG_LABEL: operation.org_id,
        RUN_LABEL: operation.run_id,
        ATTEMPT_LABEL: str(operation.attempt),
    }


def made_for(labels: Mapping[str, str], operation: Operation, owner: str) -> bool:
    """True when these labels are those of this operation's sandbox."""
    wanted = labels_of(operation, owner)
    return all(
        labels.get(name) == wanted[name]
        for name in (OWNER_LABEL, OPERATION_LABEL, ORG_LABEL, RUN_LABEL)
    )


def wanted_sandbox(
    operation: Operation, resources: Resources, settings: DaytonaSettings
) -> generated.CreateSandbox:
    """The request to create the operation's sandbox.

    Its idle stop is off, since a play that thinks looks idle; its life is bounded instead, which
    ends it even when everything of ours is lost. Raises `Refused` for what cannot be had.
    """
    if not resources.network:
        raise Refused(
            "network_needed",
            "the runner in a Daytona sandbox reaches its gateway over the network; "
            "ask another provider for a sandbox without one",
        )
    if (resources.memory_mib, resources.cpu_count, resources.process_count) != (None, None, None):
        raise Refused(
            "resources_of_snapshot",
            "a Daytona sandbox has the resources of its snapshot; "
            "set DAYTONA_SNAPSHOT to one that has enough instead of asking for limits",
        )
    life = resources.wall or LIFE_MAX
    return generated.CreateSandbox(
        name=operation.name,
        snapshot=settings.snapshot,
        labels=labels_of(operation, settings.owner),
        target=settings.target,
        auto_stop_interval=0,
        auto_delete_interval=-1,
        ttl_minutes=math.ceil(life / timedelta(minutes=1)),
    )
