"""What every `SandboxProvider` keeps (C40, C46, C51, PROVIDERS 2.3, Q30, Q39).

Asks for `subject`, a `ProviderSubject`. Every test takes operations of its own, so a provider may
be shared by tests; sandboxes left behind are the fixture's to delete.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import attrs
import trio

from deepline.core.model.identity import RunId
from deepline.core.model.result import Completed
from deepline.core.model.sandbox import Inspection, Operation, Resources, SandboxRef, Stage
from deepline.ports.cleanup import Acceptance
from deepline.ports.errors import Refused
from deepline.ports.sandbox_provider import (
    Deleted,
    DeletePending,
    GoneWithAcceptance,
    Misrouted,
    NotFoundUnproven,
    OwnedSandbox,
    RunnerStart,
    SandboxProvider,
)
from deepline.testing.refusals import refused

RESOURCES = Resources()
ACCEPTED = Acceptance(accepted_at=datetime(2026, 1, 1, tzinfo=UTC))
PATIENCE = 200
"""How many times a test pauses for something that takes the provider a while."""


@attrs.frozen(kw_only=True)
class ProviderSubject:
    """A provider with runners to start in it.

    `new_operation` answers an operation that was never used. `endless` is a runner that goes on
    until it is deleted, `finishing` one that soon exits with code 0 and leaves `result` behind,
    where the provider can read it back. `pause` lets a little time pass, in the provider's own
    terms. `alien` is a reference into another organisation, for providers that have several.
    `absence_proves` is for providers that can tell for sure that a sandbox is not there any more.
    """

    provider: SandboxProvider
    new_operation: Callable[[], Operation]
    endless: RunnerStart
    finishing: RunnerStart
    result: Completed | None
    pause: Callable[[], Awaitable[None]]
    alien: SandboxRef | None = None
    absence_proves: bool = False


async def _all_owned(provider: SandboxProvider) -> list[OwnedSandbox]:
    page = await provider.owned()
    found = list(page.sandboxes)
    while page.after is not None:
        page = await provider.owned(page.after)
        found.extend(page.sandboxes)
    return found


class SandboxProviderContract:
    """Asks for `subject`."""

    async def test_a_create_is_idempotent(self, subject: ProviderSubject) -> None:
        """Asking again for the same operation finds the sandbox it made (C46)."""
        operation = subject.new_operation()

        first = await subject.provider.create(operation, RESOURCES)
        second = await subject.provider.create(operation, RESOURCES)

        assert first == second
        assert first.provider == subject.provider.name
        assert await subject.provider.find(operation) == first

    async def test_creates_race(self, subject: ProviderSubject) -> None:
        """One operation makes one sandbox, however often it is asked for at once."""
        operation = subject.new_operation()
        made: list[SandboxRef] = []

        async def create() -> None:
            made.append(await subject.provider.create(operation, RESOURCES))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(create)

        assert len({ref.sandbox_id for ref in made}) == 1

    async def test_a_name_belongs_to_its_token(self, subject: ProviderSubject) -> None:
        """A sandbox of that name under another token is nobody's to take over (I42)."""
        operation = subject.new_operation()
        await subject.provider.create(operation, RESOURCES)
        impostor = attrs.evolve(operation, token=subject.new_operation().token)

        problem = await refused(subject.provider.create(impostor, RESOURCES), Refused)

        assert problem.code == "name_taken"

    async def test_what_another_operation_made_is_not_absence(
        self, subject: ProviderSubject
    ) -> None:
        """A name under another token or for another run is an error, never a no (C48)."""
        operation = subject.new_operation()
        made = await subject.provider.create(operation, RESOURCES)

        for impostor in (
            attrs.evolve(operation, token=subject.new_operation().token),
            attrs.evolve(operation, run_id=RunId("another-run")),
        ):
            problem = await refused(subject.provider.find(impostor), Refused)
            assert problem.code == "name_taken"
        assert await subject.provider.find(operation) == made

    async def test_what_was_never_made_is_not_found(self, subject: ProviderSubject) -> None:
        """Looking for an operation that made nothing answers an authoritative no."""
        assert await subject.provider.find(subject.new_operation()) is None

    async def test_a_sandbox_without_a_runner_proves_nothing(
        self, subject: ProviderSubject
    ) -> None:
        """Before the start no inspection says that a runner is gone (Q30)."""
        sandbox = await subject.provider.create(subject.new_operation(), RESOURCES)

        inspection = await subject.provider.inspect(sandbox, command_id=None)

        assert inspection.answered
        assert not inspection.proves_gone
        assert inspection.result is None

    async def test_a_runner_is_started_once(self, subject: ProviderSubject) -> None:
        """A second start finds the first one and answers the same names."""
        sandbox = await subject.provider.create(subject.new_operation(), RESOURCES)

        first = await subject.provider.start(sandbox, subject.endless)
        second = await subject.provider.start(sandbox, subject.endless)

        assert first == second
        inspection = await subject.provider.inspect(sandbox, command_id=first.command_id)
        assert inspection.stage is Stage.COMMAND_RUNNING

    async def test_an_exited_runner_leaves_its_result(self, subject: ProviderSubject) -> None:
        """When the runner has exited, its code and the result it wrote are read back."""
        sandbox = await subject.provider.create(subject.new_operation(), RESOURCES)
        started = await subject.provider.start(sandbox, subject.finishing)

        inspection = await self._exited(subject, sandbox, started.command_id)

        assert inspection.stage is Stage.COMMAND_EXITED
        assert inspection.exit_code == 0
        assert inspection.result == subject.result

    async def test_a_finished_runner_is_not_started_again(self, subject: ProviderSubject) -> None:
        """At most one start in a sandbox's whole life, also after its runner has exited (I11)."""
        sandbox = await subject.provider.create(subject.new_operation(), RESOURCES)
        first = await subject.provider.start(sandbox, subject.finishing)
        await self._exited(subject, sandbox, first.command_id)

        assert await subject.provider.start(sandbox, subject.endless) == first

        again = await subject.provider.inspect(sandbox, command_id=first.command_id)
        assert again.proves_gone

    async def _exited(
        self, subject: ProviderSubject, sandbox: SandboxRef, command_id: str
    ) -> Inspection:
        """Wait until an inspection says that the runner is gone."""
        for _ in range(PATIENCE):
            inspection = await subject.provider.inspect(sandbox, command_id=command_id)
            if inspection.proves_gone:
                return inspection
            await subject.pause()
        raise AssertionError("the runner that finishes did not exit in time")

    async def test_a_deleted_sandbox_is_gone(self, subject: ProviderSubject) -> None:
        """A delete ends what runs and, at once or in the end, proves the sandbox gone (Q39)."""
        operation = subject.new_operation()
        sandbox = await subject.provider.create(operation, RESOURCES)
        started = await subject.provider.start(sandbox, subject.endless)

        outcome = await subject.provider.delete(sandbox, None)
        for _ in range(PATIENCE):
            if not isinstance(outcome, DeletePending):
                break
            await subject.pause()
            outcome = await subject.provider.delete(sandbox, ACCEPTED)

        assert isinstance(outcome, Deleted | GoneWithAcceptance)
        # Some believe that nothing is there only when a later look agrees.
        assert (await self._exited(subject, sandbox, started.command_id)).proves_gone
        assert await subject.provider.find(operation) is None

    async def test_a_missing_sandbox_is_not_proven_deleted(self, subject: ProviderSubject) -> None:
        """What is not there was deleted by us only if a delete of ours was accepted (I40).

        Unless the provider knows better: then an earlier delete that nobody wrote down is done.
        """
        sandbox = await subject.provider.create(subject.new_operation(), RESOURCES)
        for _ in range(PATIENCE):
            if not isinstance(await subject.provider.delete(sandbox, ACCEPTED), DeletePending):
                break
            await subject.pause()

        unproven = Deleted() if subject.absence_proves else NotFoundUnproven()
        assert await subject.provider.delete(sandbox, None) == unproven
        assert await subject.provider.delete(sandbox, ACCEPTED) == GoneWithAcceptance()

    async def test_an_inspection_of_nothing_does_not_raise(self, subject: ProviderSubject) -> None:
        """Whatever an inspection meets, it answers with a stage."""
        sandbox = await subject.provider.create(subject.new_operation(), RESOURCES)
        nowhere = attrs.evolve(sandbox, sandbox_id="00000000-0000-4000-8000-00000000dead")

        inspection = await subject.provider.inspect(nowhere, command_id="command-1")

        assert inspection.result is None
        assert inspection.exit_code is None

    async def test_an_alien_sandbox_is_left_alone(self, subject: ProviderSubject) -> None:
        """A sandbox of another organisation is neither deleted nor judged (Q39)."""
        if subject.alien is None:
            return

        assert isinstance(await subject.provider.delete(subject.alien, None), Misrouted)
        inspection = await subject.provider.inspect(subject.alien, command_id=None)
        assert not inspection.answered

    async def test_our_sandboxes_are_found_by_their_labels(self, subject: ProviderSubject) -> None:
        """A walk over our sandboxes names each with its operation's token and its run."""
        operation = subject.new_operation()
        sandbox = await subject.provider.create(operation, RESOURCES)

        owned = await _all_owned(subject.provider)

        (mine,) = [one for one in owned if one.ref.sandbox_id == sandbox.sandbox_id]
        assert (mine.name, mine.operation_token) == (operation.name, operation.token)
        assert mine.run_id == operation.run_id
