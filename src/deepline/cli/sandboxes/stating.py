"""A person's word that a sandbox is gone, where no provider ever proves it (I40, L06).

The deletion is taken from the workers for as long as that takes, the provider is asked once more,
and what was stated is written down before the deletion is closed.
"""

import contextlib
from collections.abc import Sequence
from datetime import timedelta

import attrs
import trio

from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.sandboxes.looking import Listed, Looking
from deepline.core import stated_gone as rule
from deepline.core.limits import Limits
from deepline.core.model.identity import AttemptKey
from deepline.core.model.json_value import JsonObject
from deepline.core.model.sandbox import SandboxRef
from deepline.ports.cleanup import Cleanup, CleanupJob, JobAgain, JobDone
from deepline.ports.errors import PortError
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.ports.sandboxes import SandboxQuery, SandboxRecord
from deepline.runtime.cleanup_controller import operation_of

LOOK_AGAIN_S = 5.0
LOOKS_S = 45.0
"""Longer than any provider of ours takes to believe that a sandbox is not there."""
LEASE_S = 120.0
_WHY = {
    "not_owed": "no deletion of it is owed; `deepline sandboxes delete` deletes it",
    "still_seen": "its provider still shows it",
    "not_looked": "its provider could not be asked whether it is there; --unseen states it "
    "all the same",
}


@attrs.frozen(kw_only=True)
class Statement:
    """Somebody's word about the sandbox of that name; `unseen` although nobody could look."""

    named: str
    by: str
    why: str
    unseen: bool


@attrs.define(eq=False, kw_only=True)
class Stating:
    """Looks, decides, and writes down what a person states."""

    looking: Looking
    cleanup: Cleanup
    limits: Limits
    owner: str

    async def state(self, statement: Statement) -> str:
        """State that the sandbox of that name is gone; says what was seen before.

        Raises `CommandFailed` where it must not be stated; its deletion goes on as before then.
        """
        named, unseen = statement.named, statement.unseen
        record = await self._record(named)
        if record.state != "deleting":
            self._refuse(named, rule.decide(record.state, rule.Sight.NOT_LOOKED, unseen=unseen))
        job = await self._claim(record)
        closed = False
        try:
            sight = await self._look(record, job)
            self._refuse(named, rule.decide(record.state, sight, unseen=unseen))
            fields: JsonObject = {
                "by": statement.by,
                "why": statement.why,
                "seen": sight.value,
            }
            await self.cleanup.record_event(job, rule.STATED, fields)
            closed = await self.cleanup.finish(job, JobDone())
        finally:
            if not closed:
                await self._give_back([job])  # noqa: ASYNC102 - shielded and bounded inside
        if not closed:
            raise CommandFailed(f"a worker took the deletion of {named} up meanwhile; try again")
        return "not there" if sight is rule.Sight.MISSED else "not looked at"

    def _refuse(self, named: str, decision: rule.StatementDecision) -> None:
        if isinstance(decision, rule.RefuseStatement):
            name = decision.why.rule.removeprefix("stated_gone.")
            raise CommandFailed(f"{named} is not stated gone: {_WHY[name]}")

    async def _record(self, named: str) -> SandboxRecord:
        found = await self.looking.records(SandboxQuery(named=named, ended=True), 10)
        still = [one for one in found if one.state == "deleting"] or found
        if not still:
            raise CommandFailed(f"there is no sandbox {named}")
        if len(still) > 1:
            raise CommandFailed(f"{named} names {len(still)} sandboxes; give the operation of one")
        return still[0]

    async def _claim(self, record: SandboxRecord) -> CleanupJob:
        """Take the deletion for ourselves; waits a little for a worker that is at it."""
        key = AttemptKey(record.run_id, record.attempt)
        with trio.move_on_after(self.limits.sandbox_delete.total_seconds() + LOOK_AGAIN_S):
            while True:
                lease = timedelta(seconds=LEASE_S)
                jobs = await self.cleanup.claim_for(key, self.owner, lease=lease)
                ours = [
                    job
                    for job in jobs
                    if (job.provider, job.sandbox_name) == (record.provider, record.name)
                ]
                await self._give_back([job for job in jobs if job not in ours])
                if ours:
                    return ours[0]
                await trio.sleep(LOOK_AGAIN_S / 10)
        raise CommandFailed(
            f"a worker is deleting {record.sandbox_id or record.name} right now; try again",
            ExitCode.UNAVAILABLE,
        )

    async def _look(self, record: SandboxRecord, job: CleanupJob) -> rule.Sight:
        provider = self.looking.providers.get(record.provider)
        if provider is None:
            return rule.Sight.NOT_LOOKED
        if await self._is_listed(record, job):
            return rule.Sight.SEEN
        if record.provider in self.looking.blind:
            return rule.Sight.UNCLEAR
        with trio.move_on_after(LOOKS_S):
            while True:
                sight = await _seen(provider, job)
                if sight is not rule.Sight.UNCLEAR:
                    return sight
                await trio.sleep(LOOK_AGAIN_S)
        return rule.Sight.UNCLEAR

    async def _is_listed(self, record: SandboxRecord, job: CleanupJob) -> bool:
        seen: list[Listed] = []

        def keep(one: Listed) -> None:
            of = one.sandbox
            if of.ref.provider == record.provider and (
                of.ref.sandbox_id == job.sandbox_id or of.name == record.name
            ):
                seen.append(one)

        await self.looking.walk(keep)
        return bool(seen)

    async def _give_back(self, jobs: Sequence[CleanupJob]) -> None:
        """Let workers go on with these at once; best effort, since leases run out."""
        with (
            trio.move_on_after(self.limits.last_write.total_seconds(), shield=True),
            contextlib.suppress(PortError),
        ):
            for job in jobs:
                await self.cleanup.finish(job, JobAgain(delay=timedelta(0), failed=False))


async def _seen(provider: SandboxProvider, job: CleanupJob) -> rule.Sight:
    """One look, by what is known of the sandbox; an error of it is unclear."""
    try:
        if job.sandbox_id is None:
            found = await provider.find(operation_of(job))
            return rule.Sight.MISSED if found is None else rule.Sight.SEEN
        sandbox = SandboxRef(
            provider=job.provider, sandbox_id=job.sandbox_id, routing_domain=job.routing_domain
        )
        return rule.sight_of((await provider.inspect(sandbox, command_id=None)).stage)
    except PortError:
        return rule.Sight.UNCLEAR
