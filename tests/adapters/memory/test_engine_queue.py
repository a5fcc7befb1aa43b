"""The engine's queue in memory means what the real engine means (ENGINE 2)."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from deepline.adapters.memory.engine_queue import EngineQueue, EngineRun
from deepline.core.limits import Limits
from deepline.core.model.claim import Claim
from deepline.core.model.identity import Lane, RunId

LANE = Lane("runs")
START = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = timedelta(seconds=60)


def queue(*, retry_base: timedelta = timedelta(seconds=2)) -> EngineQueue:
    """A queue with one lane."""
    made = EngineQueue(Limits(retry_base=retry_base))
    made.add_lane(LANE)
    return made


def spawn(made: EngineQueue, run: str = "run-1", *, engine: int = 5) -> EngineRun:
    """A task whose first engine run is due."""
    task = made.spawn_held(LANE, RunId(run), engine=engine, finaliser=0)
    made.make_due(task.current, START)
    return task.current


def claim_of(run: EngineRun, owner: str) -> Claim:
    """The claim under which an owner holds an engine run."""
    return Claim(
        run_id=run.task.run_id,
        lane=LANE,
        task_id=run.task.task_id,
        engine_run_id=run.engine_run_id,
        owner=owner,
        engine_attempt=run.attempt,
        max_engine_attempts=None,
        claimed_at=START,
    )


def test_a_held_back_run_is_never_claimed() -> None:
    """Without admission a run is not due, however late it is."""
    made = queue()
    made.spawn_held(LANE, RunId("run-1"), engine=1, finaliser=0)

    assert made.claim(LANE, "a", LEASE, 10, START + timedelta(days=9)) == []
    assert made.next_event(LANE) is None


def test_runs_are_claimed_in_the_order_of_their_due_times() -> None:
    """First due, first claimed; a run that sleeps longer comes later."""
    made = queue()
    first, second = spawn(made, "run-1"), spawn(made, "run-2")
    made.claim(LANE, "a", LEASE, 10, START)
    made.sleep(first, START + timedelta(seconds=20))
    made.sleep(second, START + timedelta(seconds=10))

    assert made.claim(LANE, "b", LEASE, 10, START + timedelta(seconds=30)) == [second, first]


def test_a_parked_run_is_the_same_engine_run() -> None:
    """Sleeping keeps engine run and attempt, and the old owner does not hold it any more."""
    made = queue()
    run = spawn(made)
    made.claim(LANE, "a", LEASE, 1, START)
    made.sleep(run, START)
    assert made.held_by(claim_of(run, "a")) is None

    (again,) = made.claim(LANE, "b", LEASE, 1, START)

    assert again is run
    assert (run.attempt, run.claimed_by) == (1, "b")
    assert made.held_by(claim_of(run, "a")) is None
    assert made.held_by(claim_of(run, "b")) is run


def test_a_sweep_is_bounded_by_the_claim() -> None:
    """A claim of one sweeps one expired lease (ENGINE 2)."""
    made = queue()
    for number in range(3):
        spawn(made, f"run-{number}")
    made.claim(LANE, "a", LEASE, 3, START)
    later = START + LEASE

    made.claim(LANE, "b", LEASE, 1, later)

    states = sorted(run.state for run in made.runs.values())
    assert states == ["failed", "running", "running", "sleeping"]


def test_a_lease_that_was_extended_is_not_swept() -> None:
    """Only the newest end of a lease counts."""
    made = queue()
    run = spawn(made)
    made.claim(LANE, "a", LEASE, 1, START)
    made.extend(run, LEASE, START + timedelta(seconds=50))

    made.claim(LANE, "b", LEASE, 5, START + timedelta(seconds=70))

    assert made.held_by(claim_of(run, "a")) is run
    assert made.next_event(LANE) == START + timedelta(seconds=110)


def test_pauses_double_up_to_their_bound() -> None:
    """2, 4, 8, 16, 32, then 60 s and no more (Q02)."""
    made = queue()
    run = spawn(made, engine=9)
    now, pauses = START, []
    for _ in range(8):
        (run,) = made.claim(LANE, "a", LEASE, 1, now)
        made.fail(run, "broken", now)
        due = made.next_event(LANE)
        assert due is not None
        pauses.append((due - now).total_seconds())
        now = due

    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]


def test_without_a_pause_the_next_attempt_is_due_at_once() -> None:
    """A base of nothing means no waiting."""
    made = queue(retry_base=timedelta(0))
    run = spawn(made)
    made.claim(LANE, "a", LEASE, 1, START)

    made.fail(run, "broken", START)

    (again,) = made.claim(LANE, "b", LEASE, 1, START)
    assert again.attempt == 2


def test_a_cancelled_task_stays_cancelled() -> None:
    """Whatever is over cannot be cancelled, completed or woken again."""
    made = queue()
    run = spawn(made)
    made.cancel(run.task.task_id)
    made.cancel(run.task.task_id)
    made.cancel("unknown")
    made.cancel(None)

    assert (run.task.state, made.open_tasks(LANE)) == ("cancelled", 0)
    assert not made.wake(run.task.task_id, START)
    assert made.claim(LANE, "a", LEASE, 1, START) == []


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "sleep", "fail", "complete", "cancel", "wake", "extend", "wait"]),
        st.integers(0, 5),
    ),
    max_size=60,
)


@given(ACTIONS)
def test_a_task_has_one_engine_run_that_is_not_over(actions: list[tuple[str, int]]) -> None:
    """Whatever happens, no task has two engine runs alive, and counts add up."""
    made = queue()
    tasks = [spawn(made, f"run-{number}", engine=3).task for number in range(3)]
    now = START
    for action, number in actions:
        run = tasks[number % 3].current
        held = run.state == "running"
        match action:
            case "claim":
                made.claim(LANE, f"owner-{number}", LEASE, 1 + number % 2, now)
            case "sleep" if held:
                made.sleep(run, now + timedelta(seconds=number * 7))
            case "fail" if held:
                made.fail(run, "broken", now)
            case "complete" if held:
                made.complete(run)
            case "extend" if held:
                made.extend(run, LEASE, now)
            case "cancel" if number == 5:
                made.cancel(run.task.task_id)
            case "wake":
                made.wake(run.task.task_id, now)
            case _:
                now += timedelta(seconds=number * 13)
        for task in tasks:
            alive = [
                each
                for each in made.runs.values()
                if each.task is task and each.state in ("pending", "sleeping", "running")
            ]
            assert alive == ([task.current] if task.open else [])
        assert made.open_tasks(LANE) == sum(task.open for task in tasks)
        due = sum(
            task.current.state in ("pending", "sleeping")
            and task.current.available_at is not None
            and task.current.available_at <= now
            for task in tasks
        )
        assert made.due_count(LANE, now, at_most=9) == due
