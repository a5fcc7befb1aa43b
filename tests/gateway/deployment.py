"""A gateway on a real socket over a store in memory, and the hands that work with it."""

import hashlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import attrs
import httpx
import trio
from starlette.applications import Starlette

from deepline.adapters.memory import (
    MemoryPorts,
    MemoryTelemetry,
    ShiftedClock,
    TrioTimeClock,
    World,
    open_ports,
)
from deepline.core.model.claim import Fresh
from deepline.core.model.identity import AttemptKey, OrgId, RunId
from deepline.core.model.json_value import Json
from deepline.core.model.result import Completed, RunnerTerminal
from deepline.core.model.why import Why
from deepline.core.queues import lane_of_release
from deepline.gateway import (
    EnvironmentSecrets,
    GatewayPorts,
    GatewaySettings,
    RunHints,
    Sealer,
    SecretVault,
    ServerLimits,
    SigningKeys,
    create_app,
    generate_signing_key,
    hash_api_key,
    open_gateway_listeners,
    serve_bound,
)
from deepline.ports.attempts import ClaimRequest
from deepline.ports.engine import Wakeups
from deepline.ports.terminals import Committed, TerminalCommit

INTERNAL_TOKEN = "internal-token-of-tests"
ALICE = "key-of-alice"
BOB = "key-of-bob"
OPERATOR = "key-of-the-operator"
BUNDLE = b"PK\x05\x06" + bytes(18)
BUNDLE_HASH = hashlib.sha256(BUNDLE).hexdigest()
KEYS = SigningKeys.from_pem([generate_signing_key()])


@attrs.define(kw_only=True)
class Deployment:
    """One gateway with its store, its log, and an HTTP client that speaks to it."""

    url: str
    app: Starlette
    world: World
    store: MemoryPorts
    settings: GatewaySettings
    telemetry: MemoryTelemetry
    hints: RunHints
    clock: ShiftedClock
    client: httpx.AsyncClient
    stopped: trio.Event

    async def submit(self, key: str = ALICE, **fields: Json) -> httpx.Response:
        """Submit a run with a stored bundle."""
        document = {"playName": "enrich", "bundleHash": BUNDLE_HASH, "input": {"n": 1}, **fields}
        return await self.client.post("/api/v1/runs", json=document, headers=bearer(key))

    async def start(self, run_id: str = "run_1", key: str = ALICE, **fields: Json) -> Fresh:
        """Submit a run and claim it, as a worker would."""
        answer = await self.submit(key, runId=run_id, **fields)
        assert answer.status_code == 201, answer.text
        return await self.claim(run_id)

    async def claim(self, run_id: str) -> Fresh:
        """Claim the one run that is due, as a worker would."""
        claimed = await self.store.attempts.claim(
            ClaimRequest(
                lane=lane_of_release(None),
                owner=f"worker of {run_id}",
                worker="worker-1",
                lease=timedelta(seconds=60),
                quantity=1,
                org_limit=100,
                placement_keys=["backend:"],
            )
        )
        (fresh,) = claimed
        assert isinstance(fresh, Fresh)
        return fresh

    async def mint(self, fresh: Fresh, **changes: Json) -> httpx.Response:
        """Ask for an executor token as the worker of this attempt."""
        ref = fresh.attempt.ref
        document: dict[str, Json] = {
            "runId": ref.run_id,
            "attempt": ref.attempt,
            "leaseToken": ref.lease_token.value,
            "schedulerSchema": None,
            "terminalReducerContract": "DIRECT_COMPLETED_TERMINAL_CONTRACT",
            **changes,
        }
        return await self.client.post(
            "/api/internal/runtime/attempt-executor-token", json=document, headers=internal()
        )

    async def runner(self, fresh: Fresh) -> dict[str, str]:
        """The headers of this attempt's runner."""
        answer = await self.mint(fresh)
        assert answer.status_code == 200, answer.text
        return bearer(answer.json()["executorToken"])

    async def end(self, fresh: Fresh, result: RunnerTerminal | None = None) -> None:
        """End the run, as its worker would, and deliver its facts to the ledger."""
        outcome = await self.store.terminals.commit(
            TerminalCommit(
                ref=fresh.attempt.ref,
                claim=fresh.claim,
                result=Completed(output={"done": True}) if result is None else result,
                why=Why("terminal.committed"),
            )
        )
        assert isinstance(outcome, Committed)
        await self.deliver(fresh.attempt.ref.run_id)

    async def deliver(self, run_id: RunId) -> None:
        """Deliver what the outbox holds for a run."""
        lease = await self.store.outbox.lease_run(
            run_id, "tests", lease=timedelta(seconds=30), facts_per_run=50
        )
        if lease is not None:
            await self.store.run_events.apply(lease.facts)
            await self.store.outbox.delivered(lease, through_seq=lease.facts[-1].seq)
        self.hints.poke(run_id)

    def logged(self) -> str:
        """Everything that was logged, as one text to search for what must not be there."""
        return repr(self.telemetry.events)


def bearer(key: str) -> dict[str, str]:
    """Headers with a bearer credential."""
    return {"authorization": f"Bearer {key}"}


def internal(token: str = INTERNAL_TOKEN) -> dict[str, str]:
    """Headers of a worker."""
    return {"x-deepline-internal-token": token}


async def eventually(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Look again and again until something holds that nothing tells of; the caller bounds it."""
    while True:
        answer = holds()
        if answer if isinstance(answer, bool) else await answer:
            return
        await trio.sleep(0.01)


def key_of(fresh: Fresh) -> AttemptKey:
    """The attempt without its secret."""
    return AttemptKey(fresh.attempt.ref.run_id, fresh.attempt.ref.attempt)


@attrs.frozen(kw_only=True)
class Options:
    """How a deployment differs from the usual one."""

    settings: Callable[[GatewaySettings], GatewaySettings] = lambda settings: settings
    ports: Callable[[GatewayPorts], GatewayPorts] = lambda ports: ports
    limits: ServerLimits = attrs.field(factory=ServerLimits)
    secrets: dict[str, str] = attrs.field(factory=dict)
    sealer: Sealer | None = attrs.field(factory=lambda: Sealer([bytes(range(32))]))
    probe: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
    shutdown: trio.Event = attrs.field(factory=trio.Event)
    keys: SigningKeys = KEYS


@asynccontextmanager
async def deployed(options: Options | None = None) -> AsyncIterator[Deployment]:
    """Serve a gateway on a free port of loopback for the block."""
    chosen = Options() if options is None else options
    clock = ShiftedClock(TrioTimeClock())
    world = World(clock=clock)
    store = open_ports(world)
    telemetry, hints = MemoryTelemetry(), RunHints()
    await _add_keys(store)
    await store.launches.put_bundle(OrgId("alice"), BUNDLE_HASH, BUNDLE)
    bound = await open_gateway_listeners("127.0.0.1", 0)
    settings = chosen.settings(GatewaySettings(base_url=bound.url, internal_token=INTERNAL_TOKEN))
    ports = GatewayPorts(
        launches=store.launches,
        admission=store.admission,
        attempts=store.attempts,
        terminals=store.terminals,
        liveness=store.liveness,
        run_events=store.run_events,
        runs=store.runs,
        lanes=store.lanes,
        crash_diagnostics=store.crash_diagnostics,
        sheets=store.sheets,
        receipts=store.receipts,
        signals=store.signals,
        usage=store.usage,
        api_keys=store.api_keys,
        secrets=SecretVault(
            store=store.secrets,
            sealer=chosen.sealer,
            otherwise=EnvironmentSecrets(chosen.secrets),
        ),
        hints=hints,
        poke=hints.poke,
        probe=chosen.probe,
        metrics=lambda: b"deepline_up 1\n",
        clock=clock,
        telemetry=telemetry,
        chance=random.Random(7),
    )
    app = create_app(chosen.ports(ports), settings, chosen.keys)
    wakeups = Wakeups(
        lane_woken=lambda _: None,
        run_cancelled=hints.poke,
        run_ended=hints.poke,
        rescan=hints.poke_all,
    )
    stopped = trio.Event()

    async def serve(  # noqa: ASYNC128 - serve_bound reports for it
        *, task_status: trio.TaskStatus[str]
    ) -> None:
        await serve_bound(
            app,
            bound,
            shutdown_trigger=chosen.shutdown.wait,
            limits=chosen.limits,
            task_status=task_status,
        )
        stopped.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.engine.listen, wakeups)
        url = await nursery.start(serve)
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=20) as client:
            yield Deployment(
                url=url,
                app=app,
                world=world,
                store=store,
                settings=settings,
                telemetry=telemetry,
                hints=hints,
                clock=clock,
                client=client,
                stopped=stopped,
            )
        nursery.cancel_scope.cancel()


async def _add_keys(store: MemoryPorts) -> None:
    for key, org, operator in (
        (ALICE, "alice", False),
        (BOB, "bob", False),
        (OPERATOR, "ops", True),
    ):
        await store.api_keys.add(
            hash_api_key(key), OrgId(org), label=f"{org}'s key", operator=operator
        )
