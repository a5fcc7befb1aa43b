"""The canary's end as a worker reports it (C45)."""

import random

import attrs
import pytest
import trio
import trio.testing

from deepline.adapters.memory.sandbox_provider import MemorySandboxProvider
from deepline.core.model.placement import PlacementPolicy
from deepline.core.model.result import Completed, Failed, RunnerTerminal
from deepline.runtime.sandbox_backend import SandboxBackend
from deepline.runtime.sandbox_settings import SandboxSettings
from deepline.runtime.stop import Stop
from deepline.runtime.worker import Worker
from tests.runtime.sandbox_worlds import SandboxWorld
from tests.runtime.worlds import launch_of, submission_of

ALL_TO_THE_CANARY = PlacementPolicy(
    policy_id="trial",
    backend="modal",
    cleanup_providers=("modal",),
    canary_provider="modal",
    canary_basis_points=10_000,
)


def worker_of(world: SandboxWorld, *, production: bool) -> Worker:
    """A worker whose sandboxes are at the canary's provider."""
    world.provider = MemorySandboxProvider(name="modal", clock=world.clock)
    backend = SandboxBackend(
        tokens=world.tokens,
        capacity=world.ports.capacity,
        attempts=world.ports.attempts,
        providers={"modal": world.provider},
        clock=world.clock,
        limits=world.limits,
        settings=SandboxSettings(default_provider="modal", runner_pyz=b"runner"),
    )
    plain = world.worker(backend, providers={"modal": world.provider})
    settings = attrs.evolve(
        plain.settings, backend="modal", policies=(ALL_TO_THE_CANARY,), production=production
    )
    return Worker(ports=plain.ports, settings=settings, chance=random.Random(7))


async def ended(world: SandboxWorld, terminal: RunnerTerminal, *, production: bool) -> None:
    """Let one run of the policy end with what its runner pushes."""
    launch = attrs.evolve(launch_of("r1"), placement_policy_id="trial")
    submission = submission_of(launch, world.limits)
    await world.ports.admission.ensure_lane(submission.lane, None)
    await world.ports.admission.submit([submission])
    async with trio.open_nursery() as nursery:
        await nursery.start(worker_of(world, production=production).serve, Stop())
        await world.until_parked("r1")
        await world.push("r1", terminal=terminal)
        await world.until_ended("r1")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("terminal", "outcome", "ill"),
    [
        pytest.param(Completed(output=1), "completed", False, id="C45-completed"),
        pytest.param(Failed(error="PLAY_FAILED: x"), "failed", False, id="C45-the-play-s-own"),
        pytest.param(Failed(error="RUNTIME_RUNNER_LOST: x"), "failed", True, id="C45-ill-health"),
    ],
)
async def test_a_canary_s_end_is_reported_once(
    autojump_clock: trio.testing.MockClock, terminal: RunnerTerminal, outcome: str, ill: bool
) -> None:
    """Only a runner that vanished speaks against the provider."""
    world = SandboxWorld()

    await ended(world, terminal, production=True)

    [report] = world.telemetry.named("sandbox_provider_canary")
    assert report.channel == "play-runner"
    assert (report.fields["outcome"], report.fields["providerHealthFailure"]) == (outcome, ill)
    assert (report.fields["policyId"], report.fields["provider"]) == ("trial", "modal")


async def test_outside_production_there_is_no_canary(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A trial of ours proves nothing about customers' runs."""
    world = SandboxWorld()

    await ended(world, Completed(output=1), production=False)

    assert world.telemetry.named("sandbox_provider_canary") == []
