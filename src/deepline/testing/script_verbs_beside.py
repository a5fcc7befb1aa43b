"""Steps of a random script beside the life of runs: beats, signals, facts, cleanup, rows."""

import attrs

from deepline.core.model.stale_runner import StaleRunner
from deepline.core.model.suspension import DetachedSuspension
from deepline.ports.cleanup import CleanupJob, JobAgain, JobDone
from deepline.ports.liveness import BeatAccepted
from deepline.ports.liveness_work import WorkQuery
from deepline.ports.run_events import LiveEvent
from deepline.ports.runs import RunFilter
from deepline.ports.sheets import RowOutcome
from deepline.ports.signals import Signal
from deepline.testing.scene import PROVIDER
from deepline.testing.script_stage import LEASE, ORGS, Stage, Verb
from deepline.testing.script_verbs_runs import NOTHING

SHEET = "sheet"


async def _beat(stage: Stage) -> object:
    outcome = await stage.stores.liveness.beat(stage.key())
    if isinstance(outcome, BeatAccepted):
        stage.beats.append(outcome.identity)
    return outcome


async def _liveness(stage: Stage) -> object:
    return await stage.stores.liveness.read(stage.key())


async def _unsettled(stage: Stage) -> object:
    query = WorkQuery(after={}, limit=stage.chance.randrange(1, 4), default_timeout=LEASE)
    return (await stage.stores.liveness_work.find(query)).terminals


async def _verdict(stage: Stage) -> object:
    attempt = await stage.stores.attempts.read(stage.key())
    if attempt is None or not isinstance(attempt.suspension, DetachedSuspension):
        return NOTHING
    runner = StaleRunner(
        ref=attempt.ref,
        release_id=None,
        provider=attempt.suspension.sandbox_provider,
        suspension=attempt.suspension,
        liveness=attrs.evolve(attempt.liveness, identity=stage.pick(stage.beats)),
    )
    terminal, why = stage.terminal(), stage.why()
    return await stage.stores.liveness_work.record_verdict(runner, terminal, why)


async def _signal(stage: Stage) -> object:
    chance = stage.chance
    signal = Signal(
        event_key=chance.choice(["event", "other"]),
        boundary_id=chance.choice([None, "wait-0", "wait-1"]),
        payload={"n": chance.randrange(2)},
    )
    signal_id = chance.choice([None, f"signal-{chance.randrange(4)}"])
    return await stage.stores.signals.put(stage.run(), signal, signal_id=signal_id)


async def _take(stage: Stage) -> object:
    boundary_id = stage.chance.choice(["wait-0", "wait-1"])
    signal = await stage.stores.signals.take(stage.run(), "event", boundary_id)
    return signal if signal is None else [signal.boundary_id, signal.payload]


async def _lease_facts(stage: Stage) -> object:
    leases = await stage.stores.outbox.lease_due(
        stage.scene.owner("dispatcher"),
        runs=10,
        lease=LEASE,
        facts_per_run=stage.chance.randrange(1, 4),
    )
    stage.leases.extend(sorted(leases, key=lambda lease: lease.run_id))
    return stage.leases[-len(leases) :] if leases else []


async def _delivered(stage: Stage) -> object:
    if not stage.leases:
        return NOTHING
    lease = stage.pick(stage.leases)
    through = stage.chance.choice(lease.facts).seq
    return await stage.stores.outbox.delivered(lease, through_seq=through)


async def _failed(stage: Stage) -> object:
    if not stage.leases:
        return NOTHING
    dead = stage.chance.random() < 0.2
    return await stage.stores.outbox.failed(
        stage.pick(stage.leases), error="down", delay=stage.delay(), dead=dead
    )


async def _reserve(stage: Stage) -> object:
    if not stage.refs:
        return NOTHING
    ref = stage.pick(stage.refs)
    run = await stage.stores.runs.read(ref.run_id, None)
    assert run is not None
    reservation = await stage.stores.capacity.reserve(
        ref,
        run.run.org_id,
        PROVIDER,
        provider_limit=stage.chance.choice([None, 2]),
        org_limit=stage.chance.choice([None, 1]),
    )
    stage.operations.append(reservation.operation)
    return reservation


async def _abandon(stage: Stage) -> object:
    if not stage.operations:
        return NOTHING
    await stage.stores.capacity.abandon(stage.pick(stage.operations))
    return "done"


def _keep(stage: Stage, jobs: list[CleanupJob]) -> object:
    jobs.sort(key=lambda job: (job.key.run_id, job.key.attempt, job.sandbox_name or ""))
    stage.jobs.extend(jobs)
    return jobs


async def _claim_jobs(stage: Stage) -> object:
    owner = stage.scene.owner("cleaner")
    return _keep(
        stage, list(await stage.stores.cleanup.claim(owner, [PROVIDER], limit=99, lease=LEASE))
    )


async def _claim_jobs_for(stage: Stage) -> object:
    owner = stage.scene.owner("cleaner")
    jobs = await stage.stores.cleanup.claim_for(stage.key(), owner, lease=LEASE)
    return _keep(stage, list(jobs))


async def _accepted(stage: Stage) -> object:
    if not stage.jobs:
        return NOTHING
    job = stage.pick(stage.jobs)
    await stage.stores.cleanup.record_event(job, "provider_delete_accepted", {})
    return await stage.stores.cleanup.acceptance(job)


async def _finish_job(stage: Stage) -> object:
    if not stage.jobs:
        return NOTHING
    done = stage.chance.random() < 0.6
    failed = stage.chance.random() < 0.5
    result = JobDone() if done else JobAgain(delay=stage.delay(), failed=failed)
    return await stage.stores.cleanup.finish(stage.pick(stage.jobs), result)


async def _usage(stage: Stage) -> object:
    run_id = stage.run()
    added = await stage.stores.usage.backfill(run_id)
    uses = await stage.stores.usage.of_run(run_id)
    return [added, sorted(f"{use.sandbox_id} {use.ended_at is None}" for use in uses)]


async def _rows(stage: Stage) -> object:
    key = stage.key()
    finished = await stage.stores.sheets.open_sheet(key, SHEET, total=5)
    rows = [
        RowOutcome(
            row_index=stage.chance.randrange(5),
            input_row=number,
            output=number,
            error=stage.chance.choice([None, "bad row"]),
        )
        for number in range(2)
    ]
    new = await stage.stores.sheets.finish_rows(key, SHEET, rows)
    return [finished, new, await stage.stores.sheets.settled(key, [SHEET])]


async def _step(stage: Stage) -> object:
    step = f"step-{stage.chance.randrange(3)}"
    number = stage.chance.randrange(9)
    return await stage.stores.receipts.save_step(stage.key(), step, number)


async def _once(stage: Stage) -> object:
    receipts, chance, key = stage.stores.receipts, stage.chance, stage.key()
    name, holder = f"receipt-{chance.randrange(3)}", f"holder-{chance.randrange(2)}"
    if chance.random() < 0.4:
        return await receipts.complete(key, name, holder, chance.randrange(9))
    return await receipts.lease(key, name, holder, redo=chance.random() < 0.2)


async def _release(stage: Stage) -> object:
    if not stage.refs:
        return NOTHING
    return await stage.stores.receipts.release(stage.pick(stage.refs), reason="fence_lost")


async def _report(stage: Stage) -> object:
    key = stage.key()
    events = [
        LiveEvent(event_id=f"event-{stage.chance.randrange(6)}", kind="log", payload={})
        for _ in range(2)
    ]
    new = await stage.stores.run_events.append(key, events)
    read = await stage.stores.run_events.read(key.run_id, after=0, limit=100)
    return [new, [event.kind for event in read]]


async def _outcome(stage: Stage) -> object:
    return await stage.stores.runs.read(stage.run(), stage.chance.choice([None, *ORGS]))


async def _list(stage: Stage) -> object:
    runs = await stage.stores.runs.list(RunFilter(org_id=stage.chance.choice([None, *ORGS])))
    return sorted(f"{run.run_id} {run.status.value}" for run in runs)


async def _evidence(stage: Stage) -> object:
    evidence = await stage.stores.runs.evidence(stage.run(), None)
    if evidence is None:
        return None
    return [
        [(one.attempt, one.status, one.ended_reason, one.heartbeats) for one in evidence.attempts],
        [(one.attempt, one.why) for one in evidence.decisions],
        [
            (fact.seq, fact.kind, fact.attempts, fact.delivered_at is None, fact.dead_at is None)
            for fact in evidence.facts
        ],
        sorted(
            f"{job.attempt} {job.cleanup_attempt} {job.failure_count} {job.done_at is None}"
            for job in evidence.cleanup
        ),
        evidence.engine is not None and (evidence.engine.state, evidence.engine.attempt),
    ]


async def _lanes(stage: Stage) -> object:
    return [
        (state.open_tasks, state.queued, state.running, state.parked)
        for state in await stage.stores.lanes.all()
    ]


VERBS_BESIDE: dict[str, Verb] = {
    "beat": Verb(4, _beat),
    "liveness": Verb(1, _liveness),
    "unsettled": Verb(1, _unsettled),
    "verdict": Verb(2, _verdict),
    "signal": Verb(4, _signal),
    "take": Verb(2, _take),
    "lease_facts": Verb(4, _lease_facts),
    "delivered": Verb(4, _delivered),
    "failed": Verb(2, _failed),
    "reserve": Verb(8, _reserve),
    "abandon": Verb(1, _abandon),
    "claim_jobs": Verb(4, _claim_jobs),
    "claim_jobs_for": Verb(1, _claim_jobs_for),
    "accepted": Verb(1, _accepted),
    "finish_job": Verb(4, _finish_job),
    "usage": Verb(2, _usage),
    "rows": Verb(2, _rows),
    "save_step": Verb(1, _step),
    "once": Verb(4, _once),
    "release": Verb(1, _release),
    "report": Verb(1, _report),
    "outcome": Verb(3, _outcome),
    "list": Verb(1, _list),
    "evidence": Verb(5, _evidence),
    "lanes": Verb(1, _lanes),
}
