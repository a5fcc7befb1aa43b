"""Plays: what is submitted, and those that run attached to a worker instead of in a sandbox.

Attached plays sleep, wait for a signal, fail, or raise; they reach the suspensions that hold no
sandbox (C29), which detached runners do not yet.
"""

import enum
import json
from collections.abc import Mapping
from datetime import timedelta

import attrs

from deepline.core.model.attempt import Attempt
from deepline.core.model.checkpoint import Checkpoint
from deepline.core.model.claim import Claim
from deepline.core.model.launch import Launch
from deepline.core.model.result import Completed, Failed, Report, RunnerResult, Suspended
from deepline.core.model.sandbox import Inspection
from deepline.core.model.suspension import DetachedSuspension, EventSuspension, SleepSuspension
from deepline.core.parking import RESUMED
from deepline.ports.backend import Backend
from deepline.ports.errors import CapacityExceeded
from deepline.runtime.store_time import StoreTime
from deepline.simulation.clock import ProcessClock
from deepline.simulation.dice import Dice
from deepline.simulation.life import Life
from deepline.simulation.lives import is_signalled
from deepline.simulation.mixture import Mixture
from deepline.simulation.runner import EVENT
from deepline.simulation.stage import Stage

SPECIAL = "special"
"""A placement policy that not every worker can run."""
SECOND_RELEASE = "v2"
ABSENT_RELEASE = "v3"


class PlayKind(enum.StrEnum):
    """What a play does."""

    DETACHED = "detached"
    WORKS = "works"
    FAILS = "fails"
    RAISES = "raises"
    CROWDED = "crowded"
    SLEEPS = "sleeps"
    WAITS = "waits"


@attrs.frozen(kw_only=True)
class Play:
    """One play as it is submitted, and what people do to it later.

    `release` is the release whose lane it rides, `None` for the base lane.
    """

    run_id: str
    org_id: str
    kind: PlayKind
    submitted_s: float
    cancelled_s: float | None
    signalled_s: float | None
    ceiling_s: float
    policy: str | None = None
    release: str | None = None


def draw_play(dice: Dice, number: int, mixture: Mixture, *, burst: bool, until_s: float) -> Play:
    """Draw the `number`th play of a world, from 1."""
    run_id = f"r{number}"
    kind = dice.pick(
        f"{run_id} kind",
        (
            *(PlayKind.DETACHED,) * 12,
            PlayKind.WORKS,
            PlayKind.FAILS,
            PlayKind.RAISES,
            PlayKind.CROWDED,
            PlayKind.SLEEPS,
            PlayKind.WAITS,
        ),
    )
    submitted_s = 0.0 if burst else dice.between(f"{run_id} at", 0.0, until_s / 2)
    cancelled_s = None
    if dice.share(f"{run_id} cancelled") < mixture.cancels:
        longest = dice.pick(f"{run_id} regret", (0.2, 5.0, until_s))
        cancelled_s = submitted_s + dice.between(f"{run_id} regrets", 0.0, longest)
    signalled_s = submitted_s + dice.between(f"{run_id} signal", 0.0, 20.0)
    policy = dice.pick(f"{run_id} policy", (None,) * 7 + (SPECIAL,))
    rides_release = mixture.releases > 1 and policy is None and dice.share(f"{run_id} rides") < 0.5
    releases = (SECOND_RELEASE, ABSENT_RELEASE) if mixture.absent_release else (SECOND_RELEASE,)
    return Play(
        run_id=run_id,
        org_id=dice.pick(f"{run_id} org", ("a", "a", "b")),
        kind=kind,
        submitted_s=round(submitted_s, 3),
        cancelled_s=None if cancelled_s is None else round(cancelled_s, 3),
        signalled_s=round(signalled_s, 3) if is_signalled(dice, run_id) else None,
        ceiling_s=dice.pick(f"{run_id} ceiling", mixture.ceilings_s),
        policy=policy,
        release=dice.pick(f"{run_id} release", releases) if rides_release else None,
    )


@attrs.define(eq=False, kw_only=True)
class PlayBackend:
    """A `Backend`: detached plays go on to `sandboxes`, the others run here."""

    sandboxes: Backend
    clock: ProcessClock
    stage: Stage
    life: Life

    async def execute(self, launch: Launch, attempt: Attempt, claim: Claim) -> RunnerResult:
        """Run the attempt."""
        kind = PlayKind(launch.play_name)
        if kind is PlayKind.DETACHED:
            return await self.sandboxes.execute(launch, attempt, claim)
        now = StoreTime.of(claim, self.clock).now()
        name = f"work {launch.run_id}#{attempt.ref.attempt}"
        dice, lease_s = self.stage.dice, self.stage.limits.claim_lease.total_seconds()
        longest_s = dice.pick(f"{name} longest", (0.1, 5.0, 3 * lease_s))
        self._tell_resumed(attempt)
        await self.clock.sleep(timedelta(seconds=dice.between(name, 0.0, longest_s)))
        output = {"by": f"{launch.run_id}#{attempt.ref.attempt}"}
        answered = attempt.checkpoint.state.get(RESUMED)
        match kind:
            case PlayKind.FAILS:
                return Failed(error="VALUE_ERROR: the play says no")
            case PlayKind.RAISES:
                raise RuntimeError("the backend is broken (simulated)")
            case PlayKind.CROWDED if attempt.ref.attempt < 3:
                raise CapacityExceeded("crowded (simulated)", timedelta(seconds=1), "backend")
            case PlayKind.SLEEPS if not answered:
                suspension = SleepSuspension(
                    boundary_id="nap",
                    runner_attempt=attempt.ref.attempt,
                    wake_at=now + timedelta(seconds=dice.between(f"{name} nap", 0.0, 20.0)),
                )
                return Suspended(suspension=suspension, report=_report("slept"))
            case PlayKind.WAITS if not answered:
                for_ever = is_signalled(dice, launch.run_id) and dice.share(f"{name} wait") < 0.5
                return Suspended(
                    suspension=EventSuspension(
                        boundary_id="approval",
                        runner_attempt=attempt.ref.attempt,
                        event_key=EVENT,
                        expires_at=None if for_ever else now + timedelta(seconds=25),
                    ),
                    report=_report("waited"),
                )
            case _:
                return Completed(output=output)

    def _tell_resumed(self, attempt: Attempt) -> None:
        """Note what the play was given for each suspension it passed (I23)."""
        answers = attempt.checkpoint.state.get(RESUMED)
        if self.life.dead or not isinstance(answers, Mapping):
            return
        for answer in answers.values():
            self.stage.note(
                "resumed",
                json.dumps(answer, sort_keys=True, default=dict),
                actor=self.life.name,
                run=attempt.ref.run_id,
                attempt=attempt.ref.attempt,
            )

    async def ensure_started(
        self, launch: Launch, attempt: Attempt, suspension: DetachedSuspension, claim: Claim
    ) -> DetachedSuspension:
        """Start a detached runner if nobody did."""
        return await self.sandboxes.ensure_started(launch, attempt, suspension, claim)

    async def inspect(self, suspension: DetachedSuspension) -> Inspection | None:
        """Look at a detached runner."""
        return await self.sandboxes.inspect(suspension)


def _report(step: str) -> Report:
    return Report(checkpoint=Checkpoint(state={"steps": [step]}))
