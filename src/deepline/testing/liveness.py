"""What every `LivenessStore` keeps (C34, Q51)."""

from deepline.core.model.heartbeat import NEVER_BEATEN, NoFence
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.result import Completed
from deepline.ports.liveness import BeatAccepted, BeatRefused
from deepline.testing.scene import WHY, Scene, expect
from deepline.testing.stores import Stores

RUN = RunId("run-1")


class LivenessContract:
    """Asks for `stores`."""

    async def test_a_heart_that_never_beat(self, stores: Stores) -> None:
        """A fresh attempt has an identity that says so, and no time of a beat."""
        scene = await Scene.on(stores)
        held = await scene.started()

        liveness = await stores.liveness.read(held.key)

        assert liveness is not None
        assert (liveness.identity, liveness.beat_at, liveness.status) == (
            NEVER_BEATEN,
            None,
            "running",
        )

    async def test_every_beat_has_an_identity_of_its_own(self, stores: Stores) -> None:
        """Beats, however close, never share an identity, and the newest one is read (Q51)."""
        scene = await Scene.on(stores)
        held = await scene.parked()

        beats = [expect(await stores.liveness.beat(held.key), BeatAccepted) for _ in range(20)]

        assert len({beat.identity for beat in beats}) == 20
        liveness = await stores.liveness.read(held.key)
        assert liveness is not None
        assert (liveness.identity, liveness.status) == (beats[-1].identity, "waiting")
        assert liveness.beat_at is not None
        attempt = await stores.attempts.read(held.key)
        assert attempt is not None
        assert attempt.liveness == liveness

    async def test_no_beat_after_the_terminal(self, stores: Stores) -> None:
        """Once a terminal is stored the runner is told to stop (C34.2)."""
        scene = await Scene.on(stores)
        held = await scene.parked()
        await stores.terminals.offer(held.key, Completed(output=1), NoFence(), WHY)

        assert await stores.liveness.beat(held.key) == BeatRefused("terminal_stored")

    async def test_no_beat_of_an_attempt_that_is_over(self, stores: Stores) -> None:
        """A runner whose run has ended, or that nobody knows, is told to stop (C34.2)."""
        scene = await Scene.on(stores)
        held = await scene.started()
        await stores.terminals.cancel(RUN, by="someone", reason="enough", why=WHY)

        assert await stores.liveness.beat(held.key) == BeatRefused("attempt_over")
        unknown = AttemptKey(RUN, 7)
        assert await stores.liveness.beat(unknown) == BeatRefused("unknown_attempt")
        assert await stores.liveness.read(unknown) is None

    async def test_time_is_told_by_the_clock_that_judges(self, stores: Stores) -> None:
        """The time told lies between a claim before it and a beat after it (Q50)."""
        scene = await Scene.on(stores)
        held = await scene.started()

        told = await stores.liveness.now()

        await stores.liveness.beat(held.key)
        liveness = await stores.liveness.read(held.key)
        assert liveness is not None
        assert liveness.beat_at is not None
        assert held.claim.claimed_at <= told <= liveness.beat_at
