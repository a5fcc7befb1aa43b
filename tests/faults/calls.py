"""Every call of the store's ports, read from the ports themselves.

A call that is added to a port is in this list the same moment, on the usual path unless `PATHS`
says how it is reached, or `OFF_THE_PATHS` why it is on none.
"""

import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from deepline.adapters.postgres.store import PostgresStore

NO_PORTS = frozenset({"steps"})
"""What a store holds beside its ports."""
USUAL = "usual"

PATHS: Mapping[str, str] = {
    "admission.recover_task": "lost_task",
    "attempts.defer": "ledger_silent",
    "attempts.fail": "stranger",
    "attempts.prepare": "unacknowledged",
    "attempts.recovery": "no_sandboxes",
    "attempts.retire": "no_sandboxes",
    "attempts.retire_for_outage": "token_outage",
    "attempts.token_obtained": "token_outage",
    "cleanup.acceptance": "late_sandbox",
    "cleanup.record_found": "late_sandbox",
    "cleanup.claim_for": "stranger",
    "crash_diagnostics.read": "noticed",
    "crash_diagnostics.save": "noticed",
    "engine.extend": "slow_sandbox",
    "capacity.abandon": "no_sandboxes",
    "liveness_work.record_verdict": "vanished",
    "outbox.failed": "ledger_away",
    "recovery.claim_overdue": "overdue",
    "terminals.stored": "noticed",
}
"""Which path comes to a call that the usual one does not come to."""

_OPERATOR = "a command of an operator, in a process of its own that holds nothing"
_RACE = (
    "asked by who lost a race for a run's end, after it; tests/runtime/test_claims.py and"
    " tests/processes/test_paused_worker.py"
)
_ORPHANS = "asked by the sweep for orphans, minutes apart; tests/runtime/test_orphan_sweep.py"
_CANCELS = (
    "asked by a gateway that was given a provider, beside a cancel;"
    " tests/runtime/test_cancelling.py dies on each side of it"
)
_NOBODY = "no role asks it; it is there for who embeds the store"
_DAMAGE = "made only for a run or a launch that is gone, which the audit calls damage"
OFF_THE_PATHS: Mapping[str, str] = {
    "engine.complete": _DAMAGE,
    "engine.fail": _DAMAGE,
    "liveness.read": _NOBODY,
    "terminals.status": _RACE,
    "usage.backfill": _RACE,
    "usage.of_organisation": _NOBODY,
    "usage.of_run": _NOBODY,
    "api_keys.add": _OPERATOR,
    "api_keys.all": _OPERATOR,
    "api_keys.revoke": _OPERATOR,
    "terminals.cancel_unstarted": "asked for a run that the engine gives up before it could begin,"
    " a minute later at the earliest; tests/runtime/test_stranded.py",
    "dead_letters.list": _OPERATOR,
    "dead_letters.revive": _OPERATOR,
    "lanes.all": _OPERATOR,
    "lanes.drain": _OPERATOR,
    "lanes.hand_over": _OPERATOR,
    "lanes.prune": _OPERATOR,
    "lanes.read": "asked by a worker that leaves once its lane is empty;"
    " tests/processes/test_rolling_upgrade.py",
    "cleanup.claim_sandboxes": _CANCELS,
    "sandboxes.mark": _ORPHANS,
    "sandboxes.owe": _ORPHANS,
    "sandboxes.records": _OPERATOR,
    "sandboxes.resources": _CANCELS,
    "sandboxes.standing": _ORPHANS,
}
"""Calls that no run makes, and why."""

NO_ANSWER = frozenset({"engine.listen"})
"""Calls that never return, so that there is no moment after them."""


def store_calls() -> Sequence[str]:
    """All of them, as `port.method`."""
    return [
        f"{field.name}.{name}"
        for field in attrs.fields(PostgresStore)
        if field.name not in NO_PORTS
        for name in _methods(field.name)
    ]


def _methods(port: str) -> Sequence[str]:
    module = importlib.import_module(f"deepline.ports.{port}")
    [protocol] = [
        kind
        for kind in vars(module).values()
        if inspect.isclass(kind) and kind.__module__ == module.__name__ and _is_protocol(kind)
    ]
    return [name for name, value in vars(protocol).items() if inspect.iscoroutinefunction(value)]


def _is_protocol(kind: Any) -> bool:
    return bool(getattr(kind, "_is_protocol", False))
