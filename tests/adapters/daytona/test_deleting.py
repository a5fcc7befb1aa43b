"""The delete-outcome table, row by row, against an emulated Daytona (C51, Q39, F69, F70)."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial

import attrs
import pytest

from deepline.adapters.daytona.absence import Absence
from deepline.adapters.daytona.agreement import Agreement
from deepline.adapters.daytona.deletion import Deleter
from deepline.adapters.daytona.identity import Identity
from deepline.core.model.sandbox import Resources, SandboxRef
from deepline.ports.cleanup import Acceptance
from deepline.ports.sandbox_provider import (
    Deleted,
    DeleteFailed,
    DeleteOutcome,
    DeletePending,
    GoneWithAcceptance,
    Misrouted,
    NotFoundUnproven,
    SandboxProvider,
)
from deepline.testing.emulators import DaytonaEmulator, FaultRule
from deepline.testing.emulators.daytona import State
from tests.adapters.daytona.emulation import cut_short, opened_sdk, operation, started, until

pytestmark = pytest.mark.processes

ACCEPTED = Acceptance(accepted_at=datetime(2026, 1, 1, tzinfo=UTC))
DELETE = "DELETE /api/sandbox/.*"
GET = "GET /api/sandbox/.+"


@pytest.fixture
async def sandbox(provider: SandboxProvider) -> SandboxRef:
    """A started sandbox with nothing in it."""
    return await provider.create(operation(), Resources())


async def gone(emulator: DaytonaEmulator, sandbox: SandboxRef) -> None:
    """Have the sandbox be gone, whoever deleted it."""
    emulator.force(sandbox.sandbox_id, State.DESTROYED)
    assert sandbox.sandbox_id not in {one.id for one in emulator.sandboxes()}


def failed(outcome: DeleteOutcome, code: str) -> DeleteFailed:
    """A failed delete of that code."""
    assert isinstance(outcome, DeleteFailed)
    assert outcome.code == code
    return outcome


def pending(outcome: DeleteOutcome, code: str) -> DeletePending:
    """A pending delete of that code."""
    assert isinstance(outcome, DeletePending)
    assert outcome.code == code
    return outcome


async def test_accepted_and_not_yet_done(provider: SandboxProvider, sandbox: SandboxRef) -> None:
    """An accepted delete has killed nothing yet: pending, and accepted by this call."""
    outcome = pending(await provider.delete(sandbox, None), "delete_accepted")

    assert outcome.accepted


async def test_accepted_and_under_way(
    provider: SandboxProvider, emulator: DaytonaEmulator, sandbox: SandboxRef
) -> None:
    """F69: a delete that hangs stays pending for as long as it hangs; its age is the caller's."""
    emulator.behave(destroy_delay_s=3_600)
    await provider.delete(sandbox, None)

    for _ in range(3):
        outcome = pending(await provider.delete(sandbox, ACCEPTED), "delete_in_progress")
        assert outcome.accepted


async def test_gone_after_an_acceptance(
    provider: SandboxProvider, emulator: DaytonaEmulator, sandbox: SandboxRef
) -> None:
    """Gone by the API, the listing and the right key, and our delete had been accepted."""
    await gone(emulator, sandbox)

    assert await provider.delete(sandbox, ACCEPTED) == GoneWithAcceptance()


async def test_gone_without_an_acceptance(
    provider: SandboxProvider, emulator: DaytonaEmulator, sandbox: SandboxRef
) -> None:
    """F70: vanished before our first delete; looks in a burst are one look, and prove nothing."""
    await gone(emulator, sandbox)

    assert await provider.delete(sandbox, None) == NotFoundUnproven()
    assert await provider.delete(sandbox, None) == NotFoundUnproven()


@pytest.fixture
async def deleter(emulator: DaytonaEmulator) -> AsyncIterator[tuple[Deleter, list[float]]]:
    """A deleter whose time is a number that a test sets."""
    now = [0.0]
    async with opened_sdk(emulator) as sdk:
        identity = Identity(sdk, None)
        await identity.organization()
        missing = Agreement(looks=2, spacing=timedelta(seconds=15), span=timedelta(seconds=15))
        yield Deleter(sdk, Absence(sdk, identity), missing, lambda: now[0]), now


async def test_gone_on_two_looks(
    deleter: tuple[Deleter, list[float]], emulator: DaytonaEmulator, sandbox: SandboxRef
) -> None:
    """F70: the delete of what is gone succeeds, once two looks well apart agree."""
    delete, now = deleter
    await gone(emulator, sandbox)

    assert await delete.delete(sandbox.sandbox_id, None) == NotFoundUnproven()
    now[0] = 16.0
    assert await delete.delete(sandbox.sandbox_id, None) == Deleted()


async def test_the_reply_of_an_accepted_delete_is_lost(
    provider: SandboxProvider, emulator: DaytonaEmulator, sandbox: SandboxRef
) -> None:
    """The first call's outcome is unknown; the next finds the delete that it began, and says so."""
    emulator.behave(destroy_delay_s=3_600)
    emulator.fault(FaultRule(calls=DELETE, after_effect=True, lost=True))

    failed(await provider.delete(sandbox, None), "connection_lost")
    assert emulator.calls()[-1].startswith("DELETE"), "no second try behind our back"
    assert pending(await provider.delete(sandbox, None), "delete_in_progress").accepted


async def test_a_sandbox_that_is_changing(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """#4307: a conflict is no success; a sandbox that is still being created is asked again."""
    emulator.behave(create_delay_s=3_600)
    made = operation()
    create = partial(provider.create, made, Resources())
    await cut_short(create, lambda: bool(emulator.sandboxes()))
    sandbox = await provider.find(made)
    assert sandbox is not None

    outcome = failed(await provider.delete(sandbox, None), "state_change_in_progress")

    assert "creating" in outcome.detail


async def test_a_hidden_sandbox_in_error(
    provider: SandboxProvider, emulator: DaytonaEmulator, sandbox: SandboxRef
) -> None:
    """#2095: deleting one in error only hides it at first, and hidden is not gone."""
    emulator.behave(destroy_delay_s=3_600)
    emulator.force(sandbox.sandbox_id, State.ERROR, "bad runner")

    await provider.delete(sandbox, None)
    outcome = await provider.delete(sandbox, ACCEPTED)

    assert pending(outcome, "still_listed").accepted


async def test_another_organisation(
    provider: SandboxProvider, emulator: DaytonaEmulator, other_provider: SandboxProvider
) -> None:
    """A wrong organisation's 404 would look like success: nothing is sent at all (C48)."""
    alien = await other_provider.create(operation(), Resources())
    await provider.owned()
    before = len(emulator.calls())

    outcome = await provider.delete(alien, ACCEPTED)

    assert outcome == Misrouted(routing_domain=alien.routing_domain)
    assert len(emulator.calls()) == before
    assert alien.sandbox_id in {one.id for one in emulator.sandboxes()}


async def test_no_organisation(
    provider: SandboxProvider, emulator: DaytonaEmulator, sandbox: SandboxRef
) -> None:
    """Without knowing whose it is nothing is sent; the job says what is missing."""
    before = len(emulator.calls())

    outcome = await provider.delete(attrs.evolve(sandbox, routing_domain=None), None)

    failed(outcome, "missing_routing_domain")
    assert len(emulator.calls()) == before


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        pytest.param((400, "it has fork children"), "has_forks", id="400-forks"),
        pytest.param((401, "who are you"), "not_authorised", id="401"),
        pytest.param((403, "no delete:sandboxes"), "forbidden", id="403"),
        pytest.param((408, "late"), "server_error", id="408"),
        pytest.param((429, "slow down"), "rate_limited", id="429"),
        pytest.param((500, "oh"), "server_error", id="500"),
        pytest.param((502, "oh"), "server_error", id="502"),
        pytest.param((503, "oh"), "server_error", id="503"),
        pytest.param((504, "late"), "server_error", id="504"),
    ],
)
async def test_a_refusal(
    provider: SandboxProvider,
    emulator: DaytonaEmulator,
    sandbox: SandboxRef,
    answer: tuple[int, str],
    code: str,
) -> None:
    """No error is taken for done; each says what it was, and is asked once."""
    status, message = answer
    rule = FaultRule(calls=DELETE, status=status, message=message, headers={"Retry-After": "17"})
    emulator.fault(rule)
    before = len(emulator.calls())

    outcome = failed(await provider.delete(sandbox, None), code)

    assert outcome.detail == f"{message}; asked to wait 17 s"
    assert len(emulator.calls()) == before + 1, "asked once"
    assert sandbox.sandbox_id in {one.id for one in emulator.sandboxes()}


@pytest.mark.parametrize("bare", [True, False], ids=["proxy", "api"])
async def test_a_live_sandbox_that_is_not_found(
    provider: SandboxProvider, emulator: DaytonaEmulator, sandbox: SandboxRef, bare: bool
) -> None:
    """F70: a 404 for a sandbox that lives is believed by nobody, with an acceptance or without."""
    emulator.fault(FaultRule(calls=DELETE, status=404, times=2, bare=bare))

    for acceptance in (None, ACCEPTED):
        failed(await provider.delete(sandbox, acceptance), "not_found")


async def test_the_second_source_fails(
    provider: SandboxProvider, emulator: DaytonaEmulator, sandbox: SandboxRef
) -> None:
    """A 404 that nobody can confirm is a failure of the confirmation."""
    await gone(emulator, sandbox)
    emulator.fault(FaultRule(calls="GET /api/sandbox", status=503))

    failed(await provider.delete(sandbox, ACCEPTED), "server_error")


async def test_a_delete_that_hangs_is_cancelled(
    provider: SandboxProvider, emulator: DaytonaEmulator, sandbox: SandboxRef
) -> None:
    """The caller's time limit ends the call, and the connection can be used again."""
    emulator.fault(FaultRule(calls=DELETE, hangs=True))

    await cut_short(partial(provider.delete, sandbox, None), lambda: emulator.faults_left() == 0)

    pending(await provider.delete(sandbox, None), "delete_accepted")


async def test_a_delete_ends_what_runs(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """F73: whoever asks, the delete ends the runner, its children and the supervisor."""
    code = "import subprocess, time; subprocess.Popen(['sleep', '3600']); time.sleep(3600)"
    sandbox = await started(provider, code)

    await provider.delete(sandbox, None)

    assert await until(lambda: emulator.processes(sandbox.sandbox_id) == 0)
