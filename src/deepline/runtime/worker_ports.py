"""Everything a worker needs from outside, as one value (C02)."""

from collections.abc import Mapping

import attrs

from deepline.ports.admission import Admission
from deepline.ports.attempts import Attempts
from deepline.ports.backend import Backend
from deepline.ports.cleanup import Cleanup
from deepline.ports.clock import Clock
from deepline.ports.crash_diagnostics import CrashDiagnostics
from deepline.ports.engine import Engine
from deepline.ports.lanes import Lanes
from deepline.ports.launches import Launches
from deepline.ports.ledger import Ledger
from deepline.ports.outbox import Outbox
from deepline.ports.receipts import Receipts
from deepline.ports.recovery import Recovery
from deepline.ports.sandbox_provider import SandboxProvider
from deepline.ports.sheets import Sheets
from deepline.ports.signals import Signals
from deepline.ports.telemetry import Telemetry
from deepline.ports.terminals import Terminals
from deepline.ports.tracing import NO_TRACING, Tracing
from deepline.ports.usage import Usage


@attrs.frozen(kw_only=True)
class WorkerPorts:
    """The adapters of one worker.

    `providers` are those this worker can delete from, by name. `ledger` is `None` where another
    process delivers the outbox; then created facts must be acknowledged by whoever submits.
    With `recovery` and `launches` the worker settles what was left unsettled on its lane (C35);
    reaping stranded runs needs `admission` too. With `crash_diagnostics` it keeps what dead
    sandboxes left behind, at the providers that are a `CrashReader` (C44). Without `lanes` it
    adopts none and is not seen.
    """

    attempts: Attempts
    terminals: Terminals
    engine: Engine
    outbox: Outbox
    cleanup: Cleanup
    sheets: Sheets
    receipts: Receipts
    signals: Signals
    usage: Usage
    backend: Backend
    telemetry: Telemetry
    clock: Clock
    ledger: Ledger | None = None
    recovery: Recovery | None = None
    launches: Launches | None = None
    admission: Admission | None = None
    crash_diagnostics: CrashDiagnostics | None = None
    tracing: Tracing = NO_TRACING
    lanes: Lanes | None = None
    providers: Mapping[str, SandboxProvider] = attrs.field(factory=dict)
