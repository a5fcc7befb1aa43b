"""Parts of the gateway that need no socket."""

import random
from datetime import UTC, datetime, timedelta

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from deepline.adapters.memory import TrioTimeClock
from deepline.core.model.identity import Lane, OrgId, RunId
from deepline.core.model.run import Run, RunStatus
from deepline.gateway import EnvironmentSecrets, GatewaySettings, RunHints, hash_api_key
from deepline.gateway.admission_gate import AdmissionGate
from deepline.gateway.problems import problem_of
from deepline.gateway.run_ids import generate_run_id
from deepline.gateway.views import list_cursor, read_list_cursor
from deepline.ports.errors import (
    CapacityExceeded,
    FenceLost,
    MalformedDocument,
    NotFound,
    OutcomeUnknown,
    PortError,
    PreCodeUnavailable,
    Refused,
    Unavailable,
)

RUN = RunId("run_1")


@pytest.mark.parametrize(
    ("error", "status", "code", "retry"),
    [
        pytest.param(
            CapacityExceeded("full", timedelta(seconds=3), "pool"),
            503,
            "RUNTIME_SCHEDULER_CAPACITY",
            timedelta(seconds=3),
            id="capacity",
        ),
        pytest.param(
            Unavailable("refused"), 503, "store_unavailable", timedelta(seconds=1), id="unavailable"
        ),
        pytest.param(
            OutcomeUnknown("?"), 503, "outcome_unknown", timedelta(seconds=1), id="unknown-outcome"
        ),
        pytest.param(FenceLost("over"), 409, "attempt_over", None, id="fence"),
        pytest.param(NotFound("no bundle"), 404, "not_found", None, id="not-found"),
        pytest.param(MalformedDocument("", "is cut"), 400, "invalid_json", None, id="no-json"),
        pytest.param(
            MalformedDocument("a.b", "must be there"), 422, "invalid_request", None, id="field"
        ),
        pytest.param(Refused("run_ended", "over"), 409, "run_ended", None, id="run-ended"),
        pytest.param(Refused("event_quota", "full"), 429, "event_quota", None, id="quota"),
        pytest.param(Refused("other", "no"), 422, "other", None, id="other-refusal"),
        pytest.param(
            PreCodeUnavailable("x", "y"), 502, "dependency_failed", None, id="any-other-error"
        ),
    ],
)
def test_errors_of_ports_in_the_words_of_http(
    error: PortError, status: int, code: str, retry: timedelta | None
) -> None:
    """Every error of a port has one status and one code, and says what to do."""
    problem = problem_of(error)

    assert (problem.status, problem.code, problem.retry_after) == (status, code, retry)
    assert problem.detail.endswith(".") or isinstance(error, Refused)


async def test_a_hint_between_a_read_and_the_wait_is_not_slept_through() -> None:
    """A watch is opened first, so what comes after it ends the next wait at once."""
    hints = RunHints()
    with hints.watch(RUN) as watch:
        hints.poke(RUN)
        with trio.fail_after(1):
            await watch.changed()


async def test_a_hint_wakes_the_watchers_of_its_run_alone() -> None:
    """Each watcher is woken once for each hint, and `poke_all` wakes everybody."""
    hints = RunHints()
    woken: list[str] = []

    async def watch(name: str, run_id: RunId) -> None:
        with hints.watch(run_id) as one:
            while True:
                await one.changed()
                woken.append(name)

    async with trio.open_nursery() as nursery:
        for name, run_id in (("a", RUN), ("b", RUN), ("c", RunId("run_2"))):
            nursery.start_soon(watch, name, run_id)
        await wait_all_tasks_blocked()
        hints.poke(RUN)
        await wait_all_tasks_blocked()
        first = sorted(woken)
        hints.poke_all()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert first == ["a", "b"]
    assert sorted(woken) == ["a", "a", "b", "b", "c"]


async def test_runs_that_nobody_watches_are_not_held() -> None:
    """A hint for an unwatched run leaves nothing behind, nor does a watcher that left."""
    hints = RunHints()
    hints.poke(RUN)
    with hints.watch(RUN):
        pass

    assert hints._watches == {}


async def test_a_permit_says_how_long_it_took(autojump_clock: MockClock) -> None:
    """The permit reports the queue on arrival and the wait (C07.3)."""
    gate = AdmissionGate(
        permits=1,
        queue=5,
        wait=timedelta(seconds=10),
        retry_after=timedelta(seconds=5),
        clock=TrioTimeClock(),
    )
    seen: list[tuple[int, int]] = []

    async def hold() -> None:
        async with gate.permit() as permit:
            seen.append((permit.queue_depth, permit.wait_ms))
            await trio.sleep(3)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(hold)
            await wait_all_tasks_blocked()

    assert seen == [(0, 0), (0, 3_000), (1, 6_000)]


async def test_a_waiter_that_leaves_gives_its_place_back(autojump_clock: MockClock) -> None:
    """Cancelled waiters and holders leave no permit behind."""
    gate = AdmissionGate(
        permits=1,
        queue=1,
        wait=timedelta(seconds=10),
        retry_after=timedelta(seconds=5),
        clock=TrioTimeClock(),
    )

    async def hold() -> None:
        async with gate.permit():
            await trio.sleep_forever()

    for _ in range(3):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hold)
            nursery.start_soon(hold)
            await wait_all_tasks_blocked()
            with pytest.raises(CapacityExceeded):
                async with gate.permit():
                    pass
            nursery.cancel_scope.cancel()
    async with gate.permit() as permit:
        assert permit.queue_depth == 0


def test_run_ids_sort_by_their_time() -> None:
    """Later ids are greater, whatever chance says, and have the form of a version 7 UUID."""
    chance = random.Random(3)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    ids = [generate_run_id(start + timedelta(milliseconds=n), chance) for n in range(200)]

    assert ids == sorted(ids)
    assert len(set(ids)) == 200
    assert all(one[16] == "7" and one[20] in "89ab" and len(one) == 36 for one in ids)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("CRM_KEY", "v", id="set"),
        pytest.param("OTHER", None, id="not-set"),
        pytest.param("crm_key", None, id="another-form"),
        pytest.param("../CRM_KEY", None, id="no-name"),
    ],
)
async def test_secrets_come_from_their_own_part_of_the_environment(
    name: str, value: str | None
) -> None:
    """Only variables meant as secrets of plays can be named."""
    secrets = EnvironmentSecrets({"DEEPLINE_SECRET_CRM_KEY": "v", "CRM_KEY": "w", "PATH": "/bin"})

    assert await secrets.resolve(OrgId("alice"), name) == value


def test_settings_do_not_show_the_internal_token() -> None:
    """A logged setting shows no secret (I46)."""
    settings = GatewaySettings(base_url="http://x", internal_token="internal-token-of-tests")

    assert "internal-token-of-tests" not in repr(settings)


def test_an_internal_token_that_can_be_guessed_is_refused() -> None:
    """Gateways do not start with a token of a few characters."""
    with pytest.raises(ValueError, match="internal_token"):
        GatewaySettings(base_url="http://x", internal_token="short")


def test_a_lists_cursor_comes_back_as_it_was() -> None:
    """The place in a list is exact to the microsecond."""
    run = Run(
        run_id=RunId("a:b"),
        org_id=OrgId("alice"),
        play_name="p",
        status=RunStatus.QUEUED,
        lane=Lane("runs"),
        release_id=None,
        task_id=None,
        attempt=0,
        created_at=datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC),
    )

    assert read_list_cursor(list_cursor(run)) == (run.created_at, run.run_id)


def test_api_keys_are_looked_up_by_their_hash() -> None:
    """The store never sees a key."""
    assert hash_api_key("abc") == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )
