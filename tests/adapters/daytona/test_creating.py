"""Creates whose answers are lost, late, refused or contradicted (C46, C53, F66, F67, F68, F75)."""

from datetime import timedelta
from functools import partial

import attrs
import pytest
import trio

from deepline.adapters.daytona import DaytonaSettings, opened_daytona
from deepline.core.model.sandbox import Operation, Resources, Stage
from deepline.ports.errors import (
    OutcomeUnknown,
    PortError,
    Refused,
    SandboxCapacity,
    Unavailable,
)
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.testing.emulators import DaytonaEmulator, FaultRule
from deepline.testing.emulators.daytona import State
from deepline.testing.refusals import refused
from tests.adapters.daytona.emulation import (
    ALIEN_KEY,
    cut_short,
    operation,
    program,
    seen,
    settings,
    started,
    until,
)

pytestmark = pytest.mark.processes

CREATE = "POST /api/sandbox"
GET = "GET /api/sandbox/.+"


def made(emulator: DaytonaEmulator, wanted: Operation) -> int:
    """How many sandboxes ever came of the operation."""
    everything = emulator.sandboxes(alive=False)
    return sum(one.labels.get("deepline-operation") == wanted.token for one in everything)


async def test_a_lost_reply_is_found_again(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """F66, F75: the create happened, its reply did not come; asking again finds what was made."""
    wanted = operation()
    emulator.fault(FaultRule(calls=CREATE, after_effect=True, lost=True))

    await refused(provider.create(wanted, Resources()), OutcomeUnknown)
    assert made(emulator, wanted) == 1
    sandbox = await provider.create(wanted, Resources())

    assert made(emulator, wanted) == 1
    assert await provider.find(wanted) == sandbox


async def test_a_cancelled_create_is_found_by_its_name(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """C48: the caller gives up while the create is under way; who cleans up finds it."""
    wanted = operation()
    emulator.fault(FaultRule(calls=CREATE, after_effect=True, hangs=True))

    create = partial(provider.create, wanted, Resources())
    await cut_short(create, lambda: made(emulator, wanted) == 1)

    found = await provider.find(wanted)
    assert found is not None
    assert made(emulator, wanted) == 1


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        pytest.param(FaultRule(calls=CREATE, lost=True), OutcomeUnknown, id="torn"),
        pytest.param(FaultRule(calls=CREATE, status=400), Refused, id="400"),
        pytest.param(FaultRule(calls=CREATE, status=401), Refused, id="401"),
        pytest.param(FaultRule(calls=CREATE, status=403), Refused, id="403"),
        pytest.param(FaultRule(calls=CREATE, status=429), SandboxCapacity, id="429"),
        pytest.param(FaultRule(calls=CREATE, status=500), OutcomeUnknown, id="500"),
        pytest.param(FaultRule(calls=CREATE, status=502, bare=True), OutcomeUnknown, id="502"),
        pytest.param(FaultRule(calls=CREATE, status=503), OutcomeUnknown, id="503"),
        pytest.param(FaultRule(calls=CREATE, status=504, bare=True), OutcomeUnknown, id="504"),
        pytest.param(
            FaultRule(calls=CREATE, status=200, bare=True), OutcomeUnknown, id="200-of-a-proxy"
        ),
    ],
)
async def test_a_create_that_fails(
    provider: SandboxProvider,
    emulator: DaytonaEmulator,
    rule: FaultRule,
    problem: type[PortError],
) -> None:
    """Each failure is a deferral, a refusal or unknown, after one request and no second one."""
    wanted = operation()
    await provider.owned()
    emulator.fault(rule)
    before = len(emulator.calls())

    await refused(provider.create(wanted, Resources()), problem)

    assert len(emulator.calls()) == before + 1
    assert made(emulator, wanted) == 0


async def test_nobody_there() -> None:
    """Nothing was sent where nobody listens: it may be tried again without doubt."""
    nowhere = DaytonaSettings(api_key="key", api_url="http://127.0.0.1:9/api", organization_id="o")
    async with opened_daytona(nowhere) as provider:
        await refused(provider.create(operation(), Resources()), Unavailable)


async def test_a_full_quota_is_a_deferral(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """F69: no room now, by the words of Daytona's 400; the caller waits and nothing was made."""
    emulator.behave(sandboxes_max=1)
    await provider.create(operation(), Resources())

    problem = await refused(provider.create(operation(), Resources()), SandboxCapacity)

    assert (problem.source, problem.retry_after) == ("daytona_quota", timedelta(seconds=30))


async def test_a_rate_limit_says_for_how_long(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """E2B #1862: the wait that was asked for is the wait that is handed on."""
    headers = {"Retry-After-sandbox-create": "23"}
    emulator.fault(FaultRule(calls=CREATE, status=429, headers=headers))

    problem = await refused(provider.create(operation(), Resources()), SandboxCapacity)

    assert problem.retry_after == timedelta(seconds=23)


async def test_a_miss_that_is_remembered(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """Looked up too early, the name is missed for a while although a create says it is there."""
    wanted = operation()
    emulator.behave(negative_cache_s=1.0, list_lag_s=30)
    assert await provider.find(wanted) is None
    emulator.fault(FaultRule(calls=CREATE, after_effect=True, lost=True))
    await refused(provider.create(wanted, Resources()), OutcomeUnknown)

    sandbox = await provider.create(wanted, Resources())

    assert sandbox.sandbox_id in {one.id for one in emulator.sandboxes()}


async def test_a_name_that_is_missed_is_found_by_its_label(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """The listing answers while the look-up by name still remembers its miss."""
    wanted = operation()
    emulator.behave(negative_cache_s=30)
    assert await provider.find(wanted) is None

    sandbox = await provider.create(wanted, Resources())

    assert await provider.find(wanted) == sandbox


async def test_a_sandbox_that_does_not_start(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """#5142: it is there and will not start; who asks must not take it for never made."""
    wanted = operation()
    emulator.behave(create_delay_s=3_600)

    async def break_it() -> None:
        assert await until(lambda: made(emulator, wanted) == 1)
        (sandbox,) = emulator.sandboxes()
        emulator.force(sandbox.id, State.ERROR, "bad runner")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(break_it)
        problem = await refused(provider.create(wanted, Resources()), OutcomeUnknown)

    assert "bad runner" in str(problem)


async def test_a_slow_start_is_waited_for(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """A sandbox is handed out when it has started."""
    emulator.behave(create_delay_s=0.3)

    sandbox = await provider.create(operation(), Resources())

    (found,) = emulator.sandboxes()
    assert (found.id, found.state) == (sandbox.sandbox_id, State.STARTED)


async def test_a_sandbox_outlives_its_silence_but_not_its_limit(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """F67, F68: no idle stop touches a quiet play, and its life ends though nobody ends it.

    A minute has 10 ms here: the idle stop would come after 150 ms, the limit after 144 s.
    """
    sandbox = await provider.create(operation(), Resources(wall=timedelta(days=10)))
    await provider.start(sandbox, program("import time; time.sleep(3600)"))
    (found,) = emulator.sandboxes()

    emulator.behave(minute_s=0.01)
    await trio.sleep(0.3)
    assert emulator.processes(found.id) > 0
    emulator.behave(minute_s=0.00001)
    assert await until(lambda: not emulator.sandboxes())

    assert emulator.processes(found.id) == 0
    assert (found.auto_stop_minutes, found.ttl_minutes) == (0, 14_400)
    assert found.auto_delete_minutes == -1


async def test_every_sandbox_has_a_limit(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """Also where nobody said how long it may live (Agenta #4856)."""
    await provider.create(operation(), Resources())

    (found,) = emulator.sandboxes()
    assert found.ttl_minutes == 24 * 60


async def test_labels_say_whose_it_is(provider: SandboxProvider, emulator: DaytonaEmulator) -> None:
    """F66: deployment, organisation, run and fence are on the sandbox; no secret is."""
    wanted = operation()
    await provider.create(wanted, Resources())

    (found,) = emulator.sandboxes()
    assert found.labels == {
        "deepline-owner": "deepline",
        "deepline-operation": wanted.token,
        "deepline-org": "customer",
        "deepline-run": wanted.run_id,
        "deepline-attempt": "1",
    }
    assert found.env == {}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        pytest.param(Resources(network=False), "network_needed", id="no-network"),
        pytest.param(Resources(memory_mib=512), "resources_of_snapshot", id="memory"),
        pytest.param(Resources(cpu_count=2.0), "resources_of_snapshot", id="cpu"),
        pytest.param(Resources(process_count=9), "resources_of_snapshot", id="processes"),
    ],
)
async def test_what_cannot_be_had_is_refused(
    provider: SandboxProvider, emulator: DaytonaEmulator, asked: Resources, code: str
) -> None:
    """A limit that would not be kept is not taken silently; nothing is sent."""
    before = len(emulator.calls())

    problem = await refused(provider.create(operation(), asked), Refused)

    assert problem.code == code
    assert len(emulator.calls()) == before


async def test_a_key_of_another_organisation(emulator: DaytonaEmulator) -> None:
    """C48: the key must be whose it is said to be, before anything is created under it."""
    wrong = attrs.evolve(settings(emulator, ALIEN_KEY), organization_id="ours")
    async with opened_daytona(wrong) as provider:
        problem = await refused(provider.create(operation(), Resources()), Refused)

    assert problem.code == "wrong_organization"
    assert ALIEN_KEY not in str(problem)
    assert not emulator.sandboxes()


async def test_a_key_that_is_not_accepted(emulator: DaytonaEmulator) -> None:
    """The refusal says what to do and does not repeat the key."""
    async with opened_daytona(settings(emulator, "stolen-key")) as provider:
        problem = await refused(provider.create(operation(), Resources()), Refused)

    assert "DAYTONA_API_KEY" in problem.detail
    assert "stolen-key" not in str(problem)


async def test_settings_hide_the_key(emulator: DaytonaEmulator) -> None:
    """Wherever the settings are shown the key is not."""
    assert "stolen-key" not in repr(settings(emulator, "stolen-key"))


async def test_deployments_share_an_organisation(
    provider: SandboxProvider, emulator: DaytonaEmulator
) -> None:
    """hermes-agent #29123: a sweep sees the sandboxes of its own deployment and no others."""
    mine = await provider.create(operation(), Resources())
    async with opened_daytona(attrs.evolve(settings(emulator), owner="staging")) as staging:
        theirs = await staging.create(operation(), Resources())

        assert [one.ref for one in (await provider.owned()).sandboxes] == [mine]
        assert [one.ref for one in (await staging.owned()).sandboxes] == [theirs]


async def test_owned_sandboxes_come_in_pages(
    provider: SandboxProvider, emulator: DaytonaEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A walk sees each of ours once, hidden ones in error too, whatever the page's size."""
    monkeypatch.setattr("deepline.adapters.daytona.sdk.PAGE", 2)
    emulator.behave(destroy_delay_s=3_600)
    made_here = [await provider.create(operation(), Resources()) for _ in range(5)]
    emulator.force(made_here[0].sandbox_id, State.ERROR)
    await provider.delete(made_here[0], None)

    page = await provider.owned()
    seen_here, pages = list(page.sandboxes), 1
    while page.after is not None:
        page = await provider.owned(page.after)
        seen_here.extend(page.sandboxes)
        pages += 1

    assert sorted(one.ref.sandbox_id for one in seen_here) == sorted(
        one.sandbox_id for one in made_here
    )
    assert pages == 3


async def test_a_runner_lives_on_without_its_worker(
    emulator: DaytonaEmulator, provider: SandboxProvider
) -> None:
    """The provider that started it is closed; another one, of another process, finds it running."""
    waits = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
    async with opened_daytona(settings(emulator)) as first:
        sandbox = await started(first, waits)

    assert (await provider.inspect(sandbox, command_id=None)).stage is Stage.COMMAND_RUNNING
    (emulator.home(sandbox.sandbox_id) / ".deepline" / "work" / "go").touch()
    assert (await seen(provider, sandbox)).exit_code == 0
