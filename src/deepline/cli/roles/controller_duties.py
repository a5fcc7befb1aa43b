"""Wires what a controller does for runs that no worker ends (C35, C37, C43)."""

from collections.abc import Mapping

import trio

from deepline.adapters.http.executor_tokens import TokenCredentials
from deepline.adapters.http.ledger import HttpLedger
from deepline.cli.outside import Outside
from deepline.cli.settings.controller import ControllerRole
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.runtime.controller_role import ControllerPorts, Controllers, ControllerSettings
from deepline.runtime.dispatcher import Dispatcher
from deepline.runtime.orphan_sweep import OrphanSweep
from deepline.runtime.sweep import LivenessSweep, Sweeping, SweepPorts, provider_inspector


def make_recovery(role: ControllerRole, name: str, outside: Outside) -> Controllers:
    """Wire the duties toward runs that no worker ends."""
    ports, seen = outside.store.ports, outside.seen
    credentials = TokenCredentials(
        internal_token=role.internal_token, front_door_bypass=role.front_door_bypass
    )
    return Controllers(
        ports=ControllerPorts(
            recovery=ports.recovery,
            attempts=ports.attempts,
            terminals=ports.terminals,
            launches=ports.launches,
            admission=ports.admission,
            sheets=ports.sheets,
            receipts=ports.receipts,
            usage=ports.usage,
            outbox=ports.outbox,
            telemetry=seen.telemetry,
            clock=seen.clock,
            ledger=HttpLedger(outside.client, credentials),
        ),
        settings=ControllerSettings(
            name=name,
            limits=role.limits,
            policies=role.policies,
            production=role.process.production,
        ),
        chance=outside.chance,
    )


def make_orphan_sweep(
    role: ControllerRole, outside: Outside, providers: Mapping[str, SandboxProvider]
) -> OrphanSweep:
    """Looks for sandboxes at these providers that are nobody's any more."""
    return OrphanSweep(
        sandboxes=outside.store.ports.sandboxes,
        providers=providers,
        telemetry=outside.seen.telemetry,
        clock=outside.seen.clock,
        settings=role.orphans,
    )


def make_sweep(
    role: ControllerRole,
    outside: Outside,
    dispatcher: Dispatcher,
    providers: Mapping[str, SandboxProvider],
) -> LivenessSweep:
    """Looks after silent runners at these providers, in the mode that the role asks for."""
    ports, seen = outside.store.ports, outside.seen
    swept = SweepPorts(
        work=ports.liveness_work,
        attempts=ports.attempts,
        terminals=ports.terminals,
        launches=ports.launches,
        sheets=ports.sheets,
        receipts=ports.receipts,
        usage=ports.usage,
        telemetry=seen.telemetry,
        clock=seen.clock,
        inspectors={name: provider_inspector(one) for name, one in providers.items()},
    )

    def begin(reads: trio.Nursery, writes: trio.Nursery) -> Sweeping:
        return Sweeping(
            ports=swept,
            mode=role.sweep_mode,
            policies=role.policies,
            settings=role.sweep,
            limits=role.limits,
            production=role.process.production,
            dispatcher=dispatcher,
            reads=reads,
            writes=writes,
        )

    return LivenessSweep(begin)
