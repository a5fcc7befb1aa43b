"""Local sandboxes behind the provider port."""

import hashlib
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import trio

from deepline.adapters.local import deletion
from deepline.adapters.local.failures import translated
from deepline.adapters.local.inspection import inspect
from deepline.adapters.local.isolation import Enclosure, Isolation, Level, best_enclosure
from deepline.adapters.local.layout import Home, Root, Spec, remove_tree
from deepline.adapters.local.liveness import Life, State, read_state
from deepline.adapters.local.remains import read_remains
from deepline.adapters.local.starting import Keeping, request_for, stage_files, start_supervisor
from deepline.adapters.program_archive import build_archive
from deepline.core.crash_diagnostics import Remains
from deepline.core.model.sandbox import Inspection, Operation, Resources, SandboxRef, Stage
from deepline.ports.cleanup import Acceptance
from deepline.ports.errors import NotFound, PortError, Refused, Unavailable
from deepline.ports.sandbox_provider import (
    DeleteFailed,
    DeleteOutcome,
    Misrouted,
    OwnedPage,
    OwnedSandbox,
    RunnerStart,
    StartedRunner,
)

T = TypeVar("T")
NAME = "local"
SUPERVISION = "deepline.adapters.local.supervision"
STARTED = StartedRunner(session_id="supervisor", command_id="runner")


_PAGE = 200


class LocalProvider:
    """Sandboxes that are processes of this machine; each has a supervisor that outlives us.

    `root` is a directory that only this account uses; `org` is the routing domain. Machines that
    serve one deployment each need an `org` of their own, since a sandbox can be looked up only
    where it is. `python` runs the supervisor and the runner. Blocking work has its own threads.
    Whoever kills this process's whole control group or container kills the sandboxes too.
    """

    def __init__(
        self,
        root: Path,
        org: str,
        isolation: Isolation,
        python: Path,
        *,
        keeping: Keeping | None = None,
    ) -> None:
        self._root = Root(path=root.absolute(), org=org)
        self._isolation = isolation
        self._python = python
        self._keeping = keeping or Keeping()
        self._threads = trio.CapacityLimiter(8)
        self._finding = trio.Lock()
        self._enclosure: Enclosure | None = None

    @property
    def name(self) -> str:
        return NAME

    async def isolation_level(self) -> Level:
        """How far sandboxes are kept from this host; found out once, by trying.

        Raises `Refused` with code `isolation_unavailable` when more is required than can be had.
        """
        return (await self._enclosing()).level

    async def create(self, operation: Operation, resources: Resources) -> SandboxRef:
        """Make the sandbox's directory, or find the one of the same operation."""
        if not resources.network:
            raise Refused(
                "network_needed",
                "a local sandbox shares its host's network; ask another provider for one without",
            )
        await self._enclosing()
        await self._blocking(
            lambda: self._root.create(operation, resources, time.time_ns() // 1_000_000)
        )
        return await self._ref(operation.name)

    async def find(self, operation: Operation) -> SandboxRef | None:
        spec = await self._blocking(self._root.home(operation.name).spec)
        if spec is None:
            await self._identity()
            return None
        spec.check_whose(operation)
        return await self._ref(operation.name)

    async def start(self, sandbox: SandboxRef, runner: RunnerStart) -> StartedRunner:
        """Start the supervisor detached, unless the sandbox had one before."""
        home = self._root.home(await self._name_of(sandbox))
        spec, state = await self._blocking(lambda: (home.spec(), read_state(home)))
        if spec is None:
            raise NotFound(f"there is no local sandbox {sandbox.sandbox_id}")
        if state.life is Life.NOT_STARTED:
            await self._start(home, spec, runner)
        return STARTED

    async def inspect(self, sandbox: SandboxRef, *, command_id: str | None) -> Inspection:
        """Read lock and files; the lock alone says whether something runs."""
        try:
            name = await self._name_of(sandbox)
        except Refused as refusal:
            return Inspection(stage=Stage.WRONG_ROUTING_DOMAIN, detail=refusal.detail)
        except PortError as failure:
            return Inspection(stage=Stage.SANDBOX_LOOKUP_FAILED, detail=str(failure))
        return await self._blocking(lambda: inspect(self._root, name))

    async def remains(self, sandbox: SandboxRef) -> Remains | None:
        name = await self._name_of(sandbox)
        return await self._blocking(lambda: read_remains(self._root, name))

    async def delete(self, sandbox: SandboxRef, acceptance: Acceptance | None) -> DeleteOutcome:
        """End what runs in it and take the directory away."""
        if sandbox.routing_domain not in {None, self._root.org}:
            return Misrouted(routing_domain=sandbox.routing_domain)
        try:
            name = await self._name_of(sandbox)
            return await self._delete(name, acceptance)
        except Refused as refusal:
            return DeleteFailed(code=refusal.code, detail=refusal.detail)
        except PortError as failure:
            return DeleteFailed(code="local_host", detail=str(failure))

    async def owned(self, after: str | None = None) -> OwnedPage:
        found = await self._list()
        rest = sorted(found, key=lambda one: one.name)
        page = [one for one in rest if after is None or one.name > after][: _PAGE + 1]
        more = page[_PAGE - 1].name if len(page) > _PAGE else None
        return OwnedPage(sandboxes=tuple(page[:_PAGE]), after=more)

    async def _delete(self, name: str, acceptance: Acceptance | None) -> DeleteOutcome:
        gone = await self._blocking(lambda: deletion.absence(self._root, name, acceptance))
        if gone is not None:
            return gone
        home = self._root.home(name)
        state: State = await self._blocking(lambda: read_state(home))
        if state.supervisor is not None:
            # Accepted once and still alive: it does not listen.
            hard = acceptance is not None
            await deletion.stop(state.supervisor, grace_s=self._keeping.grace_s, hard=hard)
        return await self._blocking(lambda: deletion.remove(self._root, name))

    async def _start(self, home: Home, spec: Spec, runner: RunnerStart) -> None:
        enclosure = await self._enclosing()
        stage = await self._blocking(lambda: stage_files(home, runner))
        request = request_for(
            home,
            runner,
            limits=spec.limits,
            mark=await self._blocking(lambda: self._root.mark(spec.name)),
            enclosure=enclosure,
            stage=stage,
            keeping=self._keeping,
        )
        with translated():
            started = await start_supervisor(home, request, enclosure=enclosure)
        if not started:
            await self._blocking(lambda: remove_tree(stage))

    async def _enclosing(self) -> Enclosure:
        """The root made ready, the supervisor's program in it, and the level tried out; once."""
        async with self._finding:
            if self._enclosure is None:
                program, trial = await self._blocking(self._prepare)
                self._enclosure = await best_enclosure(
                    self._isolation, python=self._python, program=program, trial=trial
                )
                await self._blocking(lambda: remove_tree(trial))
            return self._enclosure

    def _prepare(self) -> tuple[Path, Path]:
        self._root.prepare()
        self._root.sweep_trash()
        archive = build_archive(SUPERVISION)
        program = self._root.keep_program(archive, hashlib.sha256(archive).hexdigest()[:16])
        return program, self._root.trial()

    async def _list(self) -> Iterator[OwnedSandbox]:
        identity = await self._blocking(self._root.identity)
        if identity is None:  # No sandbox was made here yet.
            return iter(())
        homes = await self._blocking(
            lambda: [(home.path.name, _spec_of(home)) for home in self._root.homes()]
        )
        return (_owned(self._ref_under(identity, name), name, spec) for name, spec in homes)

    async def _identity(self) -> str:
        identity = await self._blocking(self._root.identity)
        if identity is None:
            raise Unavailable("the directory of local sandboxes is not there")
        return identity

    async def _ref(self, name: str) -> SandboxRef:
        return self._ref_under(await self._identity(), name)

    def _ref_under(self, identity: str, name: str) -> SandboxRef:
        """The id holds the root's identity: missing here, it may be alive on another machine."""
        return SandboxRef(
            provider=NAME, sandbox_id=f"{identity}.{name}", routing_domain=self._root.org
        )

    async def _name_of(self, sandbox: SandboxRef) -> str:
        """The name of a sandbox that can only be under this root; others are `Refused`."""
        if sandbox.routing_domain not in {None, self._root.org}:
            raise Refused("wrong_organisation", f"the sandbox belongs to {sandbox.routing_domain}")
        identity, _, name = sandbox.sandbox_id.partition(".")
        if identity != await self._identity():
            raise Refused("other_root", "the sandbox is on another machine or under another root")
        return name

    async def _blocking(self, work: Callable[[], T]) -> T:
        with translated():
            return await trio.to_thread.run_sync(work, limiter=self._threads)


def _spec_of(home: Home) -> Spec | None:
    """What the sandbox was made for; a damaged one hides no other."""
    try:
        return home.spec()
    except OSError:
        return None


def _owned(ref: SandboxRef, name: str, spec: Spec | None) -> OwnedSandbox:
    return OwnedSandbox(
        ref=ref,
        name=name,
        operation_token=None if spec is None else spec.token,
        run_id=None if spec is None else spec.run_id,
        created_at=None if spec is None else datetime.fromtimestamp(spec.created_at_ms / 1000, UTC),
        mark=None if spec is None else spec.mark,
    )
