"""Who submits, cancels and signals: people and programs beyond the gateway (C07, C09, C11).

They do what people do: ask again until somebody answers, and change their minds at any moment.
"""

import itertools
from collections.abc import Awaitable, Callable
from datetime import timedelta

import attrs
import trio

from deepline.adapters.memory.admission import MemoryAdmission
from deepline.adapters.memory.signals import MemorySignals
from deepline.adapters.memory.terminals import MemoryTerminals
from deepline.core.model.identity import OrgId, ReleaseId, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.signal import Signal
from deepline.core.model.why import Why
from deepline.core.placement import placement_key
from deepline.core.queues import lane_of_launch
from deepline.ports.admission import Submission
from deepline.ports.errors import NotFound, PortError, Refused, Unavailable
from deepline.simulation.attached import Play, PlayKind
from deepline.simulation.life import Life
from deepline.simulation.runner import EVENT, Voice
from deepline.simulation.stage import Stage

MOST_TRIES = 200


@attrs.define(eq=False, kw_only=True)
class Person:
    """One who wants a play run, and perhaps regrets it."""

    stage: Stage
    play: Play
    life: Life

    async def submit(self) -> None:
        """Submit the play and see it through: cancel or signal it when the time comes."""
        await self.stage.clock.nap_until(self.play.submitted_s)
        await self._ask("submitted", self._submit)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._cancel)
            nursery.start_soon(self._signal)

    async def _submit(self) -> None:
        stage = self.stage
        admission = MemoryAdmission(stage.world, Voice(stage, self.life))
        launch = launch_of(self.play)
        choice = lane_of_launch(launch)
        await admission.ensure_lane(choice.lane, choice.release_id)
        try:
            (receipt,) = await admission.submit([submission_of(launch, stage)])
        except NotFound as error:
            raise Unavailable("the lane was removed meanwhile") from error
        stage.note("acknowledged", receipt.task_id or "no task", run=launch.run_id)

    async def _cancel(self) -> None:
        if self.play.cancelled_s is None:
            return
        await self.stage.clock.nap_until(self.play.cancelled_s)
        terminals = MemoryTerminals(self.stage.world, Voice(self.stage, self.life))
        run_id, why = RunId(self.play.run_id), Why("cancel.requested")

        async def cancel() -> None:
            outcome = await terminals.cancel(run_id, by="owner", reason="enough", why=why)
            self.stage.note("cancel answered", type(outcome).__name__, run=run_id)

        if self.stage.strikes(f"cancel {run_id}"):
            await self._ask("cancelled", cancel)

    async def _signal(self) -> None:
        waits = self.play.kind in {PlayKind.WAITS, PlayKind.DETACHED}
        if not waits or self.play.signalled_s is None:
            return
        await self.stage.clock.nap_until(self.play.signalled_s)
        signals = MemorySignals(self.stage.world, Voice(self.stage, self.life))
        signal = Signal(event_key=EVENT, boundary_id=None, payload={"by": self.play.run_id})

        async def put() -> None:
            await signals.put(RunId(self.play.run_id), signal, signal_id=f"s-{self.play.run_id}")

        await self._ask("signalled", put)

    async def _ask(self, what: str, ask: Callable[[], Awaitable[None]]) -> None:
        """Ask until there is an answer; a refusal is one."""
        for tried in itertools.count():
            try:
                await ask()
            except (Refused, NotFound) as error:
                self.stage.note(what, f"refused: {error}", run=self.play.run_id)
            except PortError:
                if tried < MOST_TRIES:
                    await self.stage.clock.nap(min(0.5 * 2**tried, 5.0))
                    continue
            return


def launch_of(play: Play) -> Launch:
    """The launch of a play."""
    return Launch(
        run_id=RunId(play.run_id),
        org_id=OrgId(play.org_id),
        play_name=play.kind.value,
        graph_hash="0" * 64,
        base_url="http://gateway.invalid",
        ceiling=timedelta(seconds=play.ceiling_s),
        placement_policy_id=play.policy,
        release_id=None if play.release is None else ReleaseId(play.release),
        table_namespaces=("rows",),
    )


def submission_of(launch: Launch, stage: Stage) -> Submission:
    """The submission of a launch on its own lane."""
    return Submission(
        launch=launch,
        lane=lane_of_launch(launch).lane,
        input_json={},
        placement_key=placement_key(launch),
        max_engine_attempts=stage.limits.max_engine_attempts,
        finaliser_attempts=stage.limits.finaliser_attempts,
    )
