"""Getting an attempt its sandbox: limits, look-ups, other providers (C46, C14, C45, I43)."""

from datetime import timedelta

import attrs
import pytest

from deepline.adapters.memory import MemorySandboxProvider, TrioTimeClock
from deepline.adapters.memory.capacity import MemoryCapacity
from deepline.adapters.memory.faults import NoFaults
from deepline.adapters.memory.telemetry import MemoryTelemetry
from deepline.core.limits import Limits
from deepline.core.model.identity import AttemptRef, OrgId, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.placement import PlacementPolicy
from deepline.core.model.sandbox import Resources
from deepline.core.model.unavailable import UnavailableKind
from deepline.ports.errors import (
    CapacityExceeded,
    OutcomeUnknown,
    PortError,
    PreCodeUnavailable,
    Refused,
    SandboxCapacity,
    Unavailable,
)
from deepline.runtime.sandbox_acquisition import Acquired, SandboxAcquisition
from deepline.runtime.sandbox_settings import SandboxSettings
from deepline.testing import Scene
from tests.contracts.memory_stores import memory_stores

POLICY = PlacementPolicy(
    policy_id="two",
    backend="two",
    cleanup_providers=("first", "second"),
    fallback_providers=("second",),
)
FULL = CapacityExceeded("full", timedelta(seconds=9), "quota")


@attrs.define(eq=False)
class Failing(NoFaults):
    """Calls of these names meet these errors, before or after their effect."""

    before_calls: dict[str, list[PortError]] = attrs.field(factory=dict)
    after_calls: dict[str, list[PortError]] = attrs.field(factory=dict)
    asked: list[str] = attrs.field(factory=list)

    async def before(self, operation: str) -> None:
        """Note the call, and raise the next error that is due."""
        self.asked.append(operation)
        if self.before_calls.get(operation):
            raise self.before_calls[operation].pop(0)

    async def after(self, operation: str) -> None:
        """Raise the next error that is due after an effect."""
        if self.after_calls.get(operation):
            raise self.after_calls[operation].pop(0)


@attrs.define(eq=False)
class Bench:
    """One live attempt, two providers, and an acquisition over them."""

    scene: Scene
    ref: AttemptRef
    faults: Failing
    acquisition: SandboxAcquisition
    telemetry: MemoryTelemetry

    @classmethod
    async def make(cls, *, provider_limit: int | None = None) -> "Bench":
        """Everything as it is before the sandbox is reserved."""
        scene = await Scene.on(memory_stores())
        held = await scene.started()
        faults = Failing()
        telemetry = MemoryTelemetry()
        return cls(
            telemetry=telemetry,
            scene=scene,
            ref=held.ref,
            faults=faults,
            acquisition=SandboxAcquisition(
                capacity=scene.stores.capacity,
                providers={
                    name: MemorySandboxProvider(name=name, faults=faults)
                    for name in ("first", "second")
                },
                clock=TrioTimeClock(),
                limits=Limits(),
                settings=SandboxSettings(
                    default_provider="two",
                    runner_pyz=b"",
                    policies=(POLICY,),
                    provider_limit=provider_limit,
                ),
                telemetry=telemetry,
            ),
        )

    async def acquire(self) -> str:
        """The provider at which the attempt got its sandbox."""
        return (await self.acquired()).sandbox.provider

    async def acquired(self) -> Acquired:
        """The attempt's sandbox."""
        launch = Launch(
            run_id=RunId("run-1"),
            org_id=OrgId("org-1"),
            play_name="play",
            graph_hash="graph",
            base_url="https://gateway.example",
        )
        return await self.acquisition.acquire(launch, self.ref)


@pytest.mark.parametrize("error", [FULL, Unavailable("away")], ids=["full", "away"])
async def test_a_provider_that_made_nothing_is_replaced(error: PortError) -> None:
    """The next provider of the policy is asked, and the first one's place is given back."""
    bench = await Bench.make()
    bench.faults.before_calls["first.create"] = [error]

    assert await bench.acquire() == "second"

    other = await bench.scene.started("run-2")
    await bench.scene.stores.capacity.reserve(
        other.ref, OrgId("org-1"), "first", provider_limit=1, org_limit=1
    )


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(FULL, "capacity", id="full"),
        pytest.param(
            Unavailable("away", UnavailableKind.CONNECTION), "connection", id="unavailable"
        ),
        pytest.param(Refused("no_python", "none there"), "no_python", id="refused"),
    ],
)
async def test_a_fall_back_is_an_event_and_a_decision(error: PortError, reason: str) -> None:
    """Whoever watches and whoever asks later is told that another provider was asked, and why."""
    bench = await Bench.make()
    bench.faults.before_calls["first.create"] = [error]

    acquired = await bench.acquired()

    assert acquired.why is not None
    assert acquired.why.evidence == {"provider": "second", "passed_over": f"first ({reason})"}
    (event,) = bench.telemetry.events
    assert (event.level, event.name) == ("warn", "sandbox_provider_fell_back")
    assert event.fields == {
        "runId": "run-1",
        "generation": 1,
        "provider": "first",
        "nextProvider": "second",
        "reason": reason,
    }


async def test_nobody_else_is_asked_after_an_unknown_create() -> None:
    """While the first create may have made a sandbox there is no second one (C47, I43)."""
    bench = await Bench.make()
    bench.faults.before_calls["first.create"] = [OutcomeUnknown("no answer") for _ in range(3)]

    with pytest.raises(PreCodeUnavailable, match="create_unknown"):
        await bench.acquire()

    assert not any(call.startswith("second") for call in bench.faults.asked)


async def test_an_unanswered_create_is_looked_for() -> None:
    """A create whose answer was lost is looked up by name, so that none is sent twice."""
    bench = await Bench.make()
    bench.faults.after_calls["first.create"] = [OutcomeUnknown("no answer")]

    assert await bench.acquire() == "first"

    assert bench.faults.asked == ["first.create", "first.find"]


async def test_a_create_of_somebody_before_is_looked_for_first() -> None:
    """Resumed, an operation whose create may have been sent is looked up before anything (C46)."""
    bench = await Bench.make()
    reservation = await bench.scene.stores.capacity.reserve(
        bench.ref, OrgId("org-1"), "first", provider_limit=None, org_limit=None
    )
    await bench.acquisition.providers["first"].create(reservation.operation, Resources())
    bench.faults.asked.clear()

    assert await bench.acquire() == "first"

    assert bench.faults.asked == ["first.find"]


async def test_a_pending_delete_is_waited_for() -> None:
    """Where the operation's sandbox is being deleted nothing is made, here or elsewhere (C46.3)."""
    bench = await Bench.make()
    stores = bench.scene.stores
    await stores.capacity.reserve(
        bench.ref, OrgId("org-1"), "first", provider_limit=None, org_limit=None
    )
    assert isinstance(stores.capacity, MemoryCapacity)
    for row in stores.capacity.world.operations.values():
        row.state = "deleting"

    with pytest.raises(PreCodeUnavailable, match="pending_delete"):
        await bench.acquire()

    assert bench.faults.asked == []


async def test_a_full_deployment_waits() -> None:
    """When every provider is at its limit the attempt is put off, and nothing was asked (C46.1)."""
    bench = await Bench.make(provider_limit=1)
    for number, name in enumerate(("first", "second")):
        other = await bench.scene.started(f"other-{number}")
        await bench.scene.stores.capacity.reserve(
            other.ref, OrgId("org-1"), name, provider_limit=1, org_limit=None
        )

    with pytest.raises(SandboxCapacity):
        await bench.acquire()

    assert bench.faults.asked == []
