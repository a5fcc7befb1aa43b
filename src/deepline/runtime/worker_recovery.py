"""What a worker settles outside its claims: its own lane, and every lane where asked (C03, C35).

A deployment with a controller leaves ceilings and stranded runs to it; a lone process has none.
"""

import random
from collections.abc import Sequence

from deepline.core.model.identity import Lane
from deepline.runtime.context import Context
from deepline.runtime.controller_role import (
    ControllerPorts,
    Controllers,
    ControllerSettings,
    Duty,
)


def recovery_of(
    context: Context, lane: Lane, duties: Sequence[Duty], chance: random.Random
) -> Controllers | None:
    """The duties of a worker, over its own ports and services.

    `None` when it was not given the ports. Raises `LookupError` when more than its own lane was
    asked for then.
    """
    ports = context.ports
    if ports.recovery is None or ports.launches is None or ports.admission is None:
        if duties:
            named = ", ".join(duty.value for duty in duties)
            raise LookupError(f"{named}: give the worker its recovery, launch and admission ports")
        return None
    return Controllers(
        ports=ControllerPorts(
            recovery=ports.recovery,
            attempts=ports.attempts,
            terminals=ports.terminals,
            launches=ports.launches,
            admission=ports.admission,
            sheets=ports.sheets,
            receipts=ports.receipts,
            usage=ports.usage,
            outbox=ports.outbox,
            telemetry=ports.telemetry,
            clock=ports.clock,
        ),
        settings=ControllerSettings(
            name=context.worker,
            lane=lane,
            limits=context.limits,
            policies=context.policies,
            production=context.production,
            duties=(Duty.RECOVERY, *duties),
        ),
        chance=chance,
        dispatcher=context.dispatcher,
        cleanup=context.cleanup,
    )
