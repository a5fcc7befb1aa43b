"""A terminal that another hand wrote: make sure it is accounted for and seen (C27)."""

from deepline.core import observed_terminal as rule
from deepline.core.model.identity import RunId
from deepline.core.model.run import RunStatus
from deepline.core.observed_terminal import ObservedTerminalSource
from deepline.ports.errors import PortError
from deepline.runtime.ending_context import EndingContext
from deepline.runtime.events import emit
from deepline.runtime.measures import tell_refused
from deepline.runtime.supervision import CHANNEL, text_of


async def settle_observed(
    context: EndingContext, run_id: RunId, source: ObservedTerminalSource, status: RunStatus | None
) -> None:
    """Backfill usage and ask for delivery, if the run has ended. Never raises port errors.

    `status` is read when it is not known.
    """
    if source is not ObservedTerminalSource.ATTEMPT_PREPARATION:
        tell_refused(context.ports.telemetry, source.value)
    try:
        if status is None:
            status = await context.ports.terminals.status(run_id)
        match rule.settle_observed(run_id, status, source):
            case rule.SkipDispatch(event=event):
                emit(context.ports.telemetry, event)
            case rule.BackfillAndDispatch(trigger=trigger):
                if await context.ports.usage.backfill(run_id):
                    context.ports.telemetry.info(CHANNEL, "usage_backfilled", runId=run_id)
                if context.dispatcher is not None:
                    await context.dispatcher.dispatch_terminal(run_id, trigger=trigger)
    except PortError as error:
        context.ports.telemetry.warn(
            CHANNEL, "observed_settlement_failed", runId=run_id, error=text_of(error)
        )
