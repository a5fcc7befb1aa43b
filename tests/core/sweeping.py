"""Silent runners and sweep states in a few words."""

import attrs

from deepline.core.limits import Limits
from deepline.core.model.heartbeat import Liveness
from deepline.core.model.identity import AttemptKey, AttemptRef, LeaseToken, ReleaseId, RunId
from deepline.core.model.stale_runner import RecordedTerminal, StaleRunner
from deepline.core.sweep import SweepPass, SweepSettings, SweepState, begin_pass
from tests.core.parked import beat, suspension

SETTINGS = SweepSettings()
LIMITS = Limits()
BUDGET_S = SETTINGS.pass_budget.total_seconds()
RECHECK_S = SETTINGS.recheck.total_seconds()


def ref(run: str, attempt: int = 2) -> AttemptRef:
    """A fence."""
    return AttemptRef(RunId(run), attempt, LeaseToken("secret"))


def key(run: str, attempt: int = 2) -> AttemptKey:
    """The same without its secret."""
    return AttemptKey(RunId(run), attempt)


def runner(
    run: str = "run-1",
    *,
    provider: str = "daytona",
    readable: bool = True,
    liveness: Liveness | None = None,
) -> StaleRunner:
    """A runner that beat once, at its start, and is silent since."""
    on = attrs.evolve(suspension(), sandbox_provider=provider) if readable else None
    return StaleRunner(
        ref=ref(run),
        release_id=ReleaseId("release-1"),
        provider=provider,
        suspension=on,
        liveness=beat(0) if liveness is None else liveness,
    )


def runners(*runs: str, provider: str = "daytona") -> list[StaleRunner]:
    """Several of one provider."""
    return [runner(run, provider=provider) for run in runs]


def recorded(run: str) -> RecordedTerminal:
    """A terminal that waits to be settled."""
    return RecordedTerminal(ref=ref(run), release_id=None)


def begun(state: SweepState | None = None, now_s: float = 0.0) -> tuple[SweepState, SweepPass]:
    """A pass that just began."""
    return begin_pass(state or SweepState(), now_s, SETTINGS)
