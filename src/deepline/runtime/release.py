"""Letting go of what an attempt held, once its end or the loss of its fence is known (C28, I31)."""

from deepline.core import release as rule
from deepline.core.model.identity import AttemptRef
from deepline.ports.errors import PortError
from deepline.runtime.context import key_of
from deepline.runtime.ending_context import EndingContext
from deepline.runtime.events import emit
from deepline.runtime.supervision import text_of


async def release_attempt(
    context: EndingContext, ref: AttemptRef, releases: tuple[rule.Release, ...]
) -> None:
    """Release in order; what fails is logged, and an expired lease is its way out."""
    key = key_of(ref)
    for one in releases:
        try:
            match one:
                case rule.ReleaseReceipts(reason=reason):
                    count = await context.ports.receipts.release(ref, reason=reason.value)
                    event = rule.released_receipts(key, reason, count)
                    if event is not None:
                        emit(context.ports.telemetry, event)
                case rule.ReleaseSheets():
                    await context.ports.sheets.release(ref)
        except PortError as error:
            emit(context.ports.telemetry, rule.release_failed(key, one, text_of(error)))
