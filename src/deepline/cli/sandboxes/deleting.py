"""Deleting one sandbox that a person named (F66, I12, C51)."""

from collections.abc import Sequence

import attrs
import trio

from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.sandboxes.looking import Listed, Looking
from deepline.core import sandbox_deletion as rule
from deepline.core.limits import Limits
from deepline.core.model.identity import AttemptKey
from deepline.core.model.sandbox import SandboxRef
from deepline.core.orphans import Use
from deepline.ports.errors import PortError
from deepline.ports.sandbox_provider import Deleted, DeletePending, GoneWithAcceptance
from deepline.ports.sandboxes import SandboxQuery, SandboxRecord
from deepline.runtime.cleanup_controller import CleanupController

_WHY = {
    "another_deployment": "it carries the mark of another deployment",
    "identity_differs": "its token is ours and its name or run is not",
    "unmarked": "it carries nothing that shows it is ours",
    "in_use": "a run is using it",
    "not_listed": "its provider does not list it, so it may be gone or elsewhere",
}


@attrs.define(eq=False, kw_only=True)
class Deleting:
    """Decides about one sandbox, and carries that out."""

    looking: Looking
    cleanup: CleanupController
    limits: Limits

    async def decide(self, named: str, *, forced: bool) -> "Decided":
        """Look for the sandbox everywhere. Raises `CommandFailed` where it must not be deleted."""
        query = SandboxQuery(named=named, ended=True)
        records = await self.looking.records(query, 10)
        listed: list[Listed] = []

        def keep(one: Listed) -> None:
            if named in (one.sandbox.ref.sandbox_id, one.sandbox.name):
                listed.append(one)

        await self.looking.walk(keep)
        if len(listed) > 1:
            raise CommandFailed(f"{named} names {len(listed)} sandboxes; give the id of one")
        record = _newest(records)
        found = listed[0] if listed else None
        facts = rule.DeletionFacts(
            state=None if record is None else record.state,
            in_use=record is not None and record.in_use,
            listed=None if found is None else found.standing.use,
            mark=None if found is None else found.sandbox.mark,
            our_mark=await self.looking.sandboxes.mark(),
        )
        decision = rule.decide(facts, forced=forced)
        self._refuse(named, decision)
        return Decided(named=named, record=record, found=found, decision=decision)

    def _refuse(self, named: str, decision: rule.DeletionDecision) -> None:
        blind = "".join(
            f"; {name} was not asked: {why}" for name, why in self.looking.blind.items()
        )
        if isinstance(decision, rule.NothingToDelete):
            code = ExitCode.UNAVAILABLE if blind else ExitCode.REFUSED
            raise CommandFailed(f"there is no sandbox {named}{blind}", code)
        if isinstance(decision, rule.RefuseDeletion):
            name = decision.why.rule.removeprefix("sandbox_deletion.")
            advice = f"; --force {named} deletes it all the same" if name != "not_listed" else ""
            raise CommandFailed(f"{named} is left alone: {_WHY[name]}{advice}{blind}")

    async def carry_out(self, decided: "Decided") -> str:
        """Delete; says how far that is. Raises `CommandFailed` when nothing was accepted."""
        if isinstance(decided.decision, rule.ForceDeletion):
            return await self._force(decided)
        if isinstance(decided.decision, rule.OweAndDelete):
            assert decided.found is not None
            if not await self.looking.sandboxes.owe(decided.found.sandbox):
                raise CommandFailed(f"{decided.named} is in use or being deleted by now")
        query = SandboxQuery(named=decided.ref.sandbox_id, state="deleting")
        for record in await self.looking.records(query, 10):
            await self.cleanup.delete_now(AttemptKey(record.run_id, record.attempt))
        left = await self.looking.records(query, 10)
        if not left:
            return "deleted"
        told = left[0].last_event or "nothing was tried yet"
        return f"not gone yet ({told}); its deletion is owed, and workers go on with it"

    async def _force(self, decided: "Decided") -> str:
        ref = decided.ref
        provider = self.looking.providers.get(ref.provider)
        if provider is None:
            raise CommandFailed(f"{ref.provider} cannot be asked from here")
        with trio.move_on_after(self.limits.sandbox_delete.total_seconds()):
            try:
                outcome = await provider.delete(ref, None)
            except PortError as error:
                raise CommandFailed(
                    f"{ref.provider} did not delete it: {error}", ExitCode.FAILED
                ) from error
            if isinstance(outcome, Deleted | GoneWithAcceptance):
                return "deleted"
            if isinstance(outcome, DeletePending):
                return "its deletion is under way"
            raise CommandFailed(f"{ref.provider} did not delete it: {outcome}", ExitCode.FAILED)
        raise CommandFailed(f"{ref.provider} did not answer in time", ExitCode.UNAVAILABLE)


@attrs.frozen(kw_only=True)
class Decided:
    """What is to be done with the sandbox of that name."""

    named: str
    record: SandboxRecord | None
    found: Listed | None
    decision: rule.DeletionDecision

    @property
    def ref(self) -> SandboxRef:
        """Where it is, as its provider lists it, else as it was written down."""
        if self.found is not None:
            return self.found.sandbox.ref
        record = self.record
        assert record is not None
        return SandboxRef(
            provider=record.provider,
            sandbox_id=record.sandbox_id or record.name,
            routing_domain=record.routing_domain,
        )

    @property
    def run_id(self) -> str | None:
        """Whose it is, as far as anybody says."""
        if self.record is not None:
            return self.record.run_id
        return None if self.found is None else self.found.sandbox.run_id

    @property
    def costs_a_run(self) -> bool:
        """True when a run that lives loses its sandbox."""
        in_use = self.found is not None and self.found.standing.use is Use.IN_USE
        return in_use or (self.record is not None and self.record.in_use)


def _newest(records: Sequence[SandboxRecord]) -> SandboxRecord | None:
    """The record that counts: one that still holds a sandbox before one that is over."""
    open_first = sorted(records, key=lambda one: (one.gone_at is None, one.reserved_at))
    return open_first[-1] if open_first else None
