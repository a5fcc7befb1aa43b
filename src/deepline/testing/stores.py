"""The store-side ports over one store, as one value, with the means to let its time pass."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import attrs

from deepline.core.model.identity import RunId
from deepline.ports.admission import Admission
from deepline.ports.api_keys import ApiKeys
from deepline.ports.attempts import Attempts
from deepline.ports.capacity import Capacity
from deepline.ports.census import Census
from deepline.ports.cleanup import Cleanup
from deepline.ports.crash_diagnostics import CrashDiagnostics
from deepline.ports.dead_letters import DeadLetters
from deepline.ports.duties import Duties
from deepline.ports.engine import Engine
from deepline.ports.lanes import Lanes
from deepline.ports.launches import Launches
from deepline.ports.liveness import LivenessStore
from deepline.ports.liveness_work import LivenessWork
from deepline.ports.outbox import Outbox
from deepline.ports.receipts import Receipts
from deepline.ports.recovery import Recovery
from deepline.ports.run_events import RunEvents
from deepline.ports.runs import Runs
from deepline.ports.sandboxes import Sandboxes
from deepline.ports.secrets import Secrets
from deepline.ports.sheets import Sheets
from deepline.ports.signals import Signals
from deepline.ports.terminals import Terminals
from deepline.ports.usage import Usage


@attrs.frozen(kw_only=True, eq=False)
class Stores:
    """Every store-side port over the same empty store.

    `advance` makes durable time pass: leases end, due times come. A store on real time may move
    its stored instants into the past instead, but never a heartbeat, whose identity holds its
    time; so a contract compares no instants from before and after. `lose_task` takes the engine
    task from a run, as only damage can; `end_task` ends it beside the run (`failed`, `completed`
    or `cancelled`), as only a bug or an operator can. `holds_ledger` says that `project_created`
    is offered.
    """

    admission: Admission
    api_keys: ApiKeys
    attempts: Attempts
    capacity: Capacity
    census: Census
    cleanup: Cleanup
    crash_diagnostics: CrashDiagnostics
    dead_letters: DeadLetters
    duties: Duties
    engine: Engine
    lanes: Lanes
    launches: Launches
    liveness: LivenessStore
    liveness_work: LivenessWork
    outbox: Outbox
    receipts: Receipts
    recovery: Recovery
    run_events: RunEvents
    runs: Runs
    sandboxes: Sandboxes
    secrets: Secrets
    sheets: Sheets
    signals: Signals
    terminals: Terminals
    usage: Usage
    advance: Callable[[timedelta], Awaitable[None]]
    lose_task: Callable[[RunId], Awaitable[None]]
    end_task: Callable[[RunId, str], Awaitable[None]]
    holds_ledger: bool = True
