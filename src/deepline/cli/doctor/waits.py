"""Whether runs wait for what nobody may ever say (F26)."""

from collections.abc import Sequence

from deepline.cli.doctor.findings import Finding, advice, bounded, ok
from deepline.cli.opened_store import opened_store
from deepline.cli.quiet import QuietTelemetry
from deepline.cli.settings.parts import StoreSettings
from deepline.core.cleanup_job import ALARM_AFTER_FAILURES
from deepline.core.limits import Limits
from deepline.ports.census import Pile

CHECK = "waits"


async def wait_findings(settings: StoreSettings, limits: Limits) -> Sequence[Finding]:
    """Count waits without a limit, in a database that has our schema."""

    async def look() -> Sequence[Finding]:
        async with opened_store(settings, limits, QuietTelemetry(), who="doctor") as store:
            figures = await store.ports.census.take(
                silent_after=limits.claim_lease, stuck_after=ALARM_AFTER_FAILURES
            )
        return [_said(figures.waits)]

    return await bounded(CHECK, look, "see `database` and `schema` above")


def _said(waits: Pile) -> Finding:
    if waits.count == 0:
        return ok(CHECK, "every wait for an event has a limit")
    return advice(
        CHECK,
        f"{waits.count} runs wait for an event without a limit, one for {_long(waits)}",
        "`deepline runs list --status waiting` names them and `deepline explain RUN` its event;"
        " send it with `deepline runs signal`, or end the run with `deepline runs cancel`",
    )


def _long(waits: Pile) -> str:
    hours = waits.oldest.total_seconds() / 3600
    return f"{hours / 24:.0f} days" if hours >= 48 else f"{hours:.1f} hours"
