"""Short ways to bring a store into the situation that a contract is about."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import attrs

from deepline.core.model.checkpoint import Checkpoint, SilenceWatch
from deepline.core.model.claim import Claim, Fresh, Prepared, Wake
from deepline.core.model.identity import AttemptKey, AttemptRef, Lane, OrgId, ReleaseId, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.result import Completed, RunnerTerminal
from deepline.core.model.sandbox import Operation, SandboxRef
from deepline.core.model.suspension import DetachedSuspension, EventSuspension, SleepSuspension
from deepline.core.model.suspension import Suspension as AnySuspension
from deepline.core.model.why import Why
from deepline.ports.admission import Submission, SubmitReceipt
from deepline.ports.attempts import ClaimRequest, Parked
from deepline.ports.cleanup import CleanupJob
from deepline.ports.terminals import CommitOutcome, TerminalCommit
from deepline.testing.stores import Stores

LANE = Lane("contract")
RELEASE = ReleaseId("release-1")
LEASE = timedelta(seconds=60)
LATER = timedelta(minutes=5)
BACKOFF = timedelta(minutes=2)
"""More than the longest pause the engine makes before another attempt."""
WHY = Why("contract.rule", {"because": "it is tested"})
PROVIDER = "local"

Kind = TypeVar("Kind")


def expect(value: object, kind: type[Kind]) -> Kind:
    """The value, which must be of this kind."""
    assert isinstance(value, kind), f"{value!r} is no {kind.__name__}"
    return value


def key_of(ref: AttemptRef) -> AttemptKey:
    """An attempt without its secret."""
    return AttemptKey(ref.run_id, ref.attempt)


@attrs.frozen(kw_only=True)
class Held:
    """A live attempt with the claim that holds it, and its sandbox once it has one."""

    ref: AttemptRef
    claim: Claim
    operation: Operation | None = None
    sandbox: SandboxRef | None = None

    @property
    def key(self) -> AttemptKey:
        """The attempt without its secret."""
        return key_of(self.ref)


@attrs.define(eq=False)
class Scene:
    """A store with one lane ready. Run ids and owners are given by short names."""

    stores: Stores
    owners: int = 0

    @classmethod
    async def on(cls, stores: Stores) -> "Scene":
        """Make the lane ready."""
        await stores.admission.ensure_lane(LANE, RELEASE)
        return cls(stores)

    def submission(
        self, run: str = "run-1", *, org: str = "org-1", engine: int = 5, finaliser: int = 3
    ) -> Submission:
        """A small submission for the lane."""
        launch = Launch(
            run_id=RunId(run),
            org_id=OrgId(org),
            play_name="play",
            graph_hash="graph",
            base_url="https://gateway.example",
            release_id=RELEASE,
        )
        return Submission(
            launch=launch,
            lane=LANE,
            input_json={"rows": [1, 2]},
            placement_key="key-1",
            max_engine_attempts=engine,
            finaliser_attempts=finaliser,
        )

    def retry(self, run: str, *, of: str = "run-1", continues: bool = False) -> Submission:
        """A submission that runs another run again."""
        submission = self.submission(run)
        launch = attrs.evolve(submission.launch, retry_of=RunId(of), submitted_by="key-1")
        return attrs.evolve(submission, launch=launch, continues=continues)

    async def submit(
        self,
        run: str = "run-1",
        *,
        org: str = "org-1",
        engine: int = 5,
        finaliser: int = 3,
        acknowledged: bool = True,
    ) -> SubmitReceipt:
        """Submit one run and, unless told otherwise, have its created fact acknowledged."""
        submission = self.submission(run, org=org, engine=engine, finaliser=finaliser)
        (receipt,) = await self.stores.admission.submit([submission])
        if acknowledged:
            await self.acknowledge(run)
        return receipt

    async def acknowledge(self, run: str = "run-1") -> None:
        """Deliver the run's due facts."""
        outbox = self.stores.outbox
        lease = await outbox.lease_run(
            RunId(run), self.owner("dispatcher"), lease=LEASE, facts_per_run=50
        )
        assert lease is not None
        assert await outbox.delivered(lease, through_seq=lease.facts[-1].seq)

    def owner(self, name: str = "worker") -> str:
        """A name that was never used before."""
        self.owners += 1
        return f"{name}-{self.owners}"

    async def claim(
        self, *, quantity: int = 10, org_limit: int = 100, keys: Sequence[str] = ("key-1",)
    ) -> list[Prepared]:
        """Claim as a worker that nobody has seen before."""
        owner = self.owner()
        request = ClaimRequest(
            lane=LANE,
            owner=owner,
            worker=owner,
            lease=LEASE,
            quantity=quantity,
            org_limit=org_limit,
            placement_keys=keys,
        )
        return list(await self.stores.attempts.claim(request))

    async def jobs(self, *, limit: int = 10) -> list[CleanupJob]:
        """Lease the cleanup jobs that are due, as a controller that nobody has seen before."""
        owner = self.owner("cleaner")
        return list(await self.stores.cleanup.claim(owner, [PROVIDER], limit=limit, lease=LEASE))

    async def fresh(self) -> Held:
        """Claim the one run that is due and find a fresh attempt."""
        (prepared,) = await self.claim()
        found = expect(prepared, Fresh)
        return Held(ref=found.attempt.ref, claim=found.claim)

    async def wake(self) -> Held:
        """Claim the one run that is due and find its parked attempt."""
        (prepared,) = await self.claim()
        found = expect(prepared, Wake)
        return Held(ref=found.attempt.ref, claim=found.claim)

    async def started(self, run: str = "run-1", *, org: str = "org-1") -> Held:
        """Submit a run and claim its first attempt; nothing else may be due."""
        await self.submit(run, org=org)
        return await self.fresh()

    async def reserved(self, held: Held) -> Held:
        """Reserve a sandbox operation for the attempt."""
        run = await self.stores.runs.read(held.ref.run_id, None)
        assert run is not None
        reservation = await self.stores.capacity.reserve(
            held.ref, run.run.org_id, PROVIDER, provider_limit=None, org_limit=None
        )
        return attrs.evolve(held, operation=reservation.operation)

    async def bound(self, held: Held) -> Held:
        """Reserve an operation and bind a sandbox to the attempt: a runner may be at work."""
        if held.operation is None:
            held = await self.reserved(held)
        sandbox = self.sandbox_of(held)
        assert await self.bind(held, sandbox)
        return attrs.evolve(held, sandbox=sandbox)

    async def bind(self, held: Held, sandbox: SandboxRef, why: Why | None = None) -> bool:
        """Bind a sandbox under the attempt's fence."""
        assert held.operation is not None
        return await self.stores.attempts.bind_sandbox(
            held.ref,
            sandbox,
            self.detached(held, sandbox),
            operation_key=held.operation.key,
            why=why,
        )

    def sandbox_of(self, held: Held) -> SandboxRef:
        """The sandbox that the attempt's operation makes."""
        name = f"sandbox-{held.ref.run_id}-{held.ref.attempt}"
        return SandboxRef(provider=PROVIDER, sandbox_id=name, routing_domain="domain-1")

    def detached(self, held: Held, sandbox: SandboxRef | None = None) -> DetachedSuspension:
        """What a run waits for while a runner works in its sandbox."""
        sandbox = sandbox or held.sandbox or self.sandbox_of(held)
        return DetachedSuspension(
            boundary_id="boundary-1",
            runner_attempt=held.ref.attempt,
            sandbox_id=sandbox.sandbox_id,
            sandbox_provider=sandbox.provider,
            session_id="session-1",
            command_id="command-1",
            # Stores keep the instants of a suspension to the millisecond, as the wire has them.
            started_at=_whole_ms(held.claim.claimed_at),
            ceiling=timedelta(hours=1),
            heartbeat_timeout=LEASE,
            routing_domain=sandbox.routing_domain,
        )

    def asleep(self, held: Held) -> SleepSuspension:
        """What a run waits for while its play sleeps."""
        return SleepSuspension(
            boundary_id="nap-1",
            runner_attempt=held.ref.attempt,
            wake_at=_whole_ms(held.claim.claimed_at) + LATER,
        )

    def awaiting(self, held: Held, event_key: str = "approved") -> EventSuspension:
        """What a run waits for while its play waits for an event."""
        return EventSuspension(
            boundary_id="wait-1", runner_attempt=held.ref.attempt, event_key=event_key
        )

    async def park(
        self,
        held: Held,
        suspension: AnySuspension | None = None,
        *,
        until: datetime | None = None,
        checkpoint: Checkpoint | None = None,
        silence: SilenceWatch | None = None,
        why: Why = WHY,
    ) -> Parked:
        """Park the attempt for `LATER`, waiting for its runner unless told otherwise."""
        outcome = await self.stores.attempts.park(
            held.ref,
            held.claim,
            suspension or self.detached(held),
            until=until or held.claim.claimed_at + LATER,
            checkpoint=checkpoint or Checkpoint(),
            silence=silence,
            why=why,
        )
        return expect(outcome, Parked)

    async def parked(self, run: str = "run-1") -> Held:
        """Submit a run and bring it to where its runner works on its own."""
        held = await self.bound(await self.started(run))
        await self.park(held)
        return held

    async def commit(
        self, held: Held, result: RunnerTerminal | None = None, *, from_waiting: bool = False
    ) -> CommitOutcome:
        """End the run under the attempt's fence and claim."""
        return await self.stores.terminals.commit(
            TerminalCommit(
                ref=held.ref,
                claim=held.claim,
                result=result or Completed(output="done"),
                why=WHY,
                from_waiting=from_waiting,
            )
        )

    async def lose_claim(self, *, wait: timedelta = BACKOFF) -> None:
        """Let the lease of every claim end, have it swept, and wait for the engine's pause."""
        await self.stores.advance(LEASE + timedelta(seconds=1))
        assert await self.claim() == []
        await self.stores.advance(wait)

    async def facts(self, run: str = "run-1") -> list[tuple[int, str, str]]:
        """Sequence number, event id and kind of every fact of the run."""
        evidence = await self.stores.runs.evidence(RunId(run), None)
        assert evidence is not None
        return [(fact.seq, fact.event_id, fact.kind) for fact in evidence.facts]


def _whole_ms(at: datetime) -> datetime:
    return at - timedelta(microseconds=at.microsecond % 1_000)
