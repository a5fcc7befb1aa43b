"""Whether somebody serves every release that holds runs (F53)."""

from collections.abc import Sequence

from deepline.cli.doctor.findings import Finding, advice, bounded, ok
from deepline.cli.opened_store import opened_store
from deepline.cli.quiet import QuietTelemetry
from deepline.cli.settings.parts import StoreSettings
from deepline.core.lane_standing import stranded_runs
from deepline.core.limits import Limits
from deepline.core.model.lane import LaneState

CHECK = "lanes"


async def lane_findings(settings: StoreSettings, limits: Limits) -> Sequence[Finding]:
    """Look at all lanes, in a database that has our schema."""

    async def look() -> Sequence[Finding]:
        async with opened_store(settings, limits, QuietTelemetry(), who="doctor") as store:
            return _said(await store.ports.lanes.all(), limits)

    return await bounded(CHECK, look, "see `database` and `schema` above")


def _said(states: Sequence[LaneState], limits: Limits) -> Sequence[Finding]:
    found: list[Finding] = []
    for state in states:
        stranded, name = stranded_runs(state, limits.lane_worker_lost), state.release_id
        if stranded:
            whose = f"of {name}" if name else "of no release"
            found.append(
                advice(
                    CHECK,
                    f"{stranded} runs {whose} wait, and nobody serves their lane",
                    f"start a worker for it, or run `deepline lanes adopt {name or state.lane}`",
                )
            )
    return found or [ok(CHECK, "somebody serves every release that holds runs")]
