"""A day of trouble in fast motion: many runs at three providers that fail all the time (FAULTS J).

Time is virtual. The runners are this module's: they beat, push how they ended, or vanish. What a
provider does wrong comes from `ShareOfTrouble`; besides, creates land long after nobody waits for
them any more.
"""

import random
from collections.abc import Sequence
from datetime import timedelta

import attrs
import trio

from deepline.adapters.memory import MemorySandboxProvider
from deepline.adapters.memory.rows import CleanupJobRow
from deepline.adapters.memory.sandbox_provider import Life
from deepline.core.model.identity import AttemptKey, OrgId, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.placement import PlacementPolicy
from deepline.core.model.result import Completed, Failed
from deepline.core.model.sandbox import Operation, Resources, SandboxRef
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.orphan_sweep import OrphanSettings
from deepline.core.sweep import SweepMode
from deepline.ports.cleanup import Acceptance
from deepline.ports.errors import OutcomeUnknown
from deepline.ports.sandbox_provider import DeleteOutcome, RunnerStart, SandboxProvider
from deepline.runtime.orphan_sweep import OrphanSweep
from deepline.runtime.sandbox_backend import SandboxBackend
from deepline.runtime.sandbox_settings import SandboxSettings
from deepline.runtime.stop import Stop
from deepline.runtime.worker import Worker, WorkerSettings
from deepline.testing import FaultyProvider, ShareOfTrouble, Way
from tests.runtime.sandbox_worlds import SandboxWorld
from tests.runtime.worlds import submission_of

DELETING_FOR = {"daytona": timedelta(minutes=3), "modal": timedelta(seconds=20), "local": None}
"""How long a provider takes for an accepted delete; all but the first know what is gone."""
POLICIES = (
    *(
        PlacementPolicy(policy_id=name, backend=name, cleanup_providers=(name,))
        for name in DELETING_FOR
    ),
    PlacementPolicy(
        policy_id="trial",
        backend="trial",
        cleanup_providers=("daytona", "modal", "local"),
        canary_provider="modal",
        canary_basis_points=3_000,
        fallback_providers=("local",),
    ),
)
STRANGERS = 3
FAILURES = 4
"""Failures by which a deletion that cannot be proven is seen."""


@attrs.define(eq=False, kw_only=True)
class Site(MemorySandboxProvider):
    """A provider whose creates may land late, and who notices deletes of what still lives."""

    day: "DayOfTrouble"

    async def create(self, operation: Operation, resources: Resources) -> SandboxRef:
        """Create, now or after the caller has given up."""
        if self.day.trouble.active and self.day.is_late(operation):
            self.day.nursery.start_soon(self._land, operation, resources)
            raise OutcomeUnknown("no answer came, and it may land yet")
        return await super().create(operation, resources)

    async def _land(self, operation: Operation, resources: Resources) -> None:
        await trio.sleep(self.day.chance.uniform(0.5, 600))
        self.day.landed += 1
        await super().create(operation, resources)

    async def delete(self, sandbox: SandboxRef, acceptance: Acceptance | None) -> DeleteOutcome:
        """Delete, and note whether a live attempt had it (I12)."""
        known = self.sandboxes.get(sandbox.sandbox_id)
        if known is not None:
            key = AttemptKey(known.operation.run_id, known.operation.attempt)
            attempt = self.day.world.live_attempt(key)
            waits_for = None if attempt is None else attempt.suspension
            if isinstance(waits_for, DetachedSuspension) and (
                waits_for.sandbox_id == sandbox.sandbox_id
            ):
                self.day.wrong.append(f"{sandbox.sandbox_id} was deleted under {key}")
        return await super().delete(sandbox, acceptance)


@attrs.define(eq=False, kw_only=True)
class DayOfTrouble(SandboxWorld):
    """`each` is the share of calls that fail in each way, `late` that of creates landing late."""

    runs: int
    each: float = 0.05
    late: float = 0.05
    chance: random.Random = attrs.field(factory=lambda: random.Random(1))
    trouble: ShareOfTrouble = attrs.field(init=False)
    sites: dict[str, Site] = attrs.field(init=False)
    nursery: trio.Nursery = attrs.field(init=False)
    landed: int = 0
    wrong: list[str] = attrs.field(factory=list[str])

    _salt: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Open the providers."""
        super().__attrs_post_init__()
        self._salt = self.chance.random()
        self.trouble = ShareOfTrouble(chance=self.chance, share=self.each * len(Way))
        self.sites = {
            name: Site(
                name=name,
                day=self,
                clock=self.clock,
                routing_domain=f"org-at-{name}",
                life_of=self._begin,
                absence_proves=name != "daytona",
                before_start=Life(deleting_for=length or timedelta(0)),
            )
            for name, length in DELETING_FOR.items()
        }

    async def pass_by(self) -> None:
        """Live through the day, then let everything heal and come to rest."""
        async with trio.open_nursery() as self.nursery:
            for number in range(STRANGERS):
                for site in self.sites.values():
                    await MemorySandboxProvider.create(
                        site, _strange(site.name, number), Resources()
                    )
            for name in ("w1", "w2"):
                await self.nursery.start(self._worker(name).serve, Stop())
            self.nursery.start_soon(self._sweep().run, Stop())
            run_ids = await self._submit_all()
            await self.until_ended(*run_ids, every=timedelta(minutes=1))
            self.trouble.active = False
            # By now no create can land any more, and what landed last is found by then.
            await trio.sleep(timedelta(hours=1).total_seconds())
            for _ in range(2_000):
                if all(self._is_unprovable(job) for job in self.world.open_cleanup.values()):
                    break
                await trio.sleep(60)
            self.nursery.cancel_scope.cancel()

    def is_late(self, operation: Operation) -> bool:
        """Whether a create lands late: of the same attempts whoever comes first at the dice."""
        dice = random.Random(f"{self._salt} {operation.run_id} {operation.attempt}")
        return dice.random() < self.late

    def _is_unprovable(self, job: CleanupJobRow) -> bool:
        """True when the sandbox went while no answer about that came through (I40)."""
        known = self.sites[job.provider].sandboxes.get(job.sandbox_id or "")
        accepted_at = None if known is None else known.delete_accepted_at
        if known is None or accepted_at is None or job.failure_count < FAILURES:
            return False
        return self.clock.now() >= accepted_at + known.life.deleting_for

    async def _submit_all(self) -> Sequence[str]:
        """Submit the runs one after the other; some of them are cancelled at some time."""
        run_ids = [f"r{number}" for number in range(self.runs)]
        await self.ports.admission.ensure_lane(
            submission_of(_launch("r", "local"), self.limits).lane, None
        )
        for number, run_id in enumerate(run_ids):
            policy = POLICIES[number % len(POLICIES)].policy_id
            await self.ports.admission.submit([submission_of(_launch(run_id, policy), self.limits)])
            if self.chance.random() < 0.1:
                self.nursery.start_soon(self._cancel, run_id)
            await trio.sleep(self.chance.expovariate(0.5))
        return run_ids

    async def _cancel(self, run_id: str) -> None:
        await trio.sleep(self.chance.uniform(0, 200))
        await self.cancel(run_id)

    def _begin(self, operation: Operation, _: RunnerStart) -> Life:
        """What becomes of a runner that was started."""
        runs_for = timedelta(seconds=self.chance.uniform(10, 240))
        vanishes = self.chance.random() < 0.05
        self.nursery.start_soon(self._runner, operation, runs_for, vanishes)
        return Life(
            runs_for=runs_for if vanishes else None,
            exit_code=137,
            deleting_for=DELETING_FOR[operation.provider] or timedelta(0),
        )

    async def _runner(self, operation: Operation, runs_for: timedelta, vanishes: bool) -> None:
        """Beat until done, then say how it went, unless there is nobody left to say it."""
        key = AttemptKey(operation.run_id, operation.attempt)
        with trio.move_on_after(runs_for.total_seconds()):
            while True:
                await self.ports.liveness.beat(key)
                await trio.sleep(self.limits.claim_lease.total_seconds() / 4)
        if not vanishes:
            failed = Failed(error="the play said so")
            done = Completed(output="done") if self.chance.random() < 0.9 else failed
            await self.push(key.run_id, key.attempt, done)

    def _worker(self, name: str) -> Worker:
        providers: dict[str, SandboxProvider] = {
            site: FaultyProvider(inner=inner, trouble=self.trouble)
            for site, inner in self.sites.items()
        }
        backend = SandboxBackend(
            tokens=self.tokens,
            capacity=self.ports.capacity,
            attempts=self.ports.attempts,
            providers=providers,
            clock=self.clock,
            limits=self.limits,
            settings=SandboxSettings(
                default_provider="trial", runner_pyz=b"", policies=POLICIES, production=True
            ),
        )
        worker = self.worker(backend, name=name, providers=providers, recovers=True)
        settings = WorkerSettings(
            name=name, backend="trial", policies=POLICIES, slots=20, limits=self.limits
        )
        return Worker(ports=worker.ports, settings=settings, chance=self.chance)

    def _sweep(self) -> OrphanSweep:
        return OrphanSweep(
            sandboxes=self.ports.sandboxes,
            providers={
                name: FaultyProvider(inner=site, trouble=self.trouble)
                for name, site in self.sites.items()
            },
            telemetry=self.telemetry,
            clock=self.clock,
            settings=OrphanSettings(mode=SweepMode.ENFORCE),
        )

    async def problems(self) -> list[str]:
        """Everything that is not as it should be after such a day."""
        found = list(self.wrong)
        unprovable = {
            job.operation_key
            for job in self.world.open_cleanup.values()
            if self._is_unprovable(job)
        }
        if len(unprovable) > self.runs / 100:
            found.append(f"{len(unprovable)} deletions were not proven")
        for site in self.sites.values():
            page = await MemorySandboxProvider.owned(site)
            found += [
                f"{one.ref.sandbox_id} of {one.run_id} is left"
                for one in page.sandboxes
                if one.mark == self.world.mark
            ]
            strangers = sum(one.mark != self.world.mark for one in page.sandboxes)
            if strangers != STRANGERS:
                found.append(f"only {strangers} of {STRANGERS} strangers are left at {site.name}")
            for one in site.sandboxes.values():
                row = self.world.operations.get(one.operation.key)
                if row is not None and row.state == "abandoned":
                    found.append(f"{one.ref.sandbox_id} came of an abandoned operation (I44)")
        found += [
            f"{row.operation.key} is held"
            for row in self.world.operations.values()
            if row.held and row.operation.key not in unprovable
        ]
        for number in range(self.runs):
            found += await self._problems_of(f"r{number}")
        return found

    async def _problems_of(self, run_id: str) -> list[str]:
        found: list[str] = []
        facts = await self.terminal_facts(run_id)
        if len(facts) != 1:
            found.append(f"{run_id} ended {len(facts)} times")
        events = self.world.cleanup_events.get(RunId(run_id), ())
        accepted = {
            one.sandbox_id: one.at
            for one in reversed(events)
            if one.kind == "provider_delete_accepted" and one.key.attempt
        }
        open_ids = {job.sandbox_id for job in self.world.open_cleanup.values()}
        for use in self.world.usage.get(RunId(run_id), ()):
            if use.sandbox_id in open_ids and use.ended_at is None:
                continue
            at = accepted.get(use.sandbox_id)
            if use.ended_at is None or at not in {None, use.ended_at}:
                found.append(f"{use.sandbox_id} is billed until {use.ended_at}, not {at}")
        return found


def _launch(run_id: str, policy: str) -> Launch:
    return Launch(
        run_id=RunId(run_id),
        org_id=OrgId("org"),
        play_name="play",
        graph_hash="0" * 64,
        base_url="http://gateway.invalid",
        placement_policy_id=policy,
    )


def _strange(provider: str, number: int) -> Operation:
    token = f"{number}" * 40
    return Operation(
        key=f"strange-{number}",
        token=token,
        name=f"dl-{token}",
        provider=provider,
        org_id=OrgId("org"),
        run_id=RunId(f"r{number}"),
        attempt=1,
        mark="st-another",
    )
