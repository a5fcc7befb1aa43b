"""Every store-side port over one world, as one value for one process."""

import attrs

from deepline.adapters.memory.admission import MemoryAdmission
from deepline.adapters.memory.api_keys import MemoryApiKeys
from deepline.adapters.memory.attempts import MemoryAttempts
from deepline.adapters.memory.capacity import MemoryCapacity
from deepline.adapters.memory.census import MemoryCensus
from deepline.adapters.memory.cleanup import MemoryCleanup
from deepline.adapters.memory.crash_diagnostics import MemoryCrashDiagnostics
from deepline.adapters.memory.dead_letters import MemoryDeadLetters
from deepline.adapters.memory.duties import MemoryDuties
from deepline.adapters.memory.engine import MemoryEngine
from deepline.adapters.memory.faults import NO_FAULTS, Faults
from deepline.adapters.memory.lanes import MemoryLanes
from deepline.adapters.memory.launches import MemoryLaunches
from deepline.adapters.memory.liveness import MemoryLiveness
from deepline.adapters.memory.liveness_work import MemoryLivenessWork
from deepline.adapters.memory.outbox import MemoryOutbox
from deepline.adapters.memory.receipts import MemoryReceipts
from deepline.adapters.memory.recovery import MemoryRecovery
from deepline.adapters.memory.run_events import MemoryRunEvents
from deepline.adapters.memory.runs import MemoryRuns
from deepline.adapters.memory.sandboxes import MemorySandboxes
from deepline.adapters.memory.secrets import MemorySecrets
from deepline.adapters.memory.sheets import MemorySheets
from deepline.adapters.memory.signals import MemorySignals
from deepline.adapters.memory.terminals import MemoryTerminals
from deepline.adapters.memory.usage import MemoryUsage
from deepline.adapters.memory.world import World


@attrs.frozen(kw_only=True)
class MemoryPorts:
    """The ports one process holds; all of them suffer the same `Faults`."""

    admission: MemoryAdmission
    api_keys: MemoryApiKeys
    attempts: MemoryAttempts
    capacity: MemoryCapacity
    census: MemoryCensus
    cleanup: MemoryCleanup
    crash_diagnostics: MemoryCrashDiagnostics
    dead_letters: MemoryDeadLetters
    duties: MemoryDuties
    engine: MemoryEngine
    lanes: MemoryLanes
    launches: MemoryLaunches
    liveness: MemoryLiveness
    liveness_work: MemoryLivenessWork
    outbox: MemoryOutbox
    receipts: MemoryReceipts
    recovery: MemoryRecovery
    run_events: MemoryRunEvents
    runs: MemoryRuns
    sandboxes: MemorySandboxes
    secrets: MemorySecrets
    sheets: MemorySheets
    signals: MemorySignals
    terminals: MemoryTerminals
    usage: MemoryUsage


def open_ports(world: World, faults: Faults = NO_FAULTS) -> MemoryPorts:
    """Give one process its ports over a world that it may share with others."""
    return MemoryPorts(
        admission=MemoryAdmission(world, faults),
        api_keys=MemoryApiKeys(world, faults),
        attempts=MemoryAttempts(world, faults),
        capacity=MemoryCapacity(world, faults),
        census=MemoryCensus(world, faults),
        cleanup=MemoryCleanup(world, faults),
        crash_diagnostics=MemoryCrashDiagnostics(world, faults),
        dead_letters=MemoryDeadLetters(world, faults),
        duties=MemoryDuties(world, faults),
        engine=MemoryEngine(world, faults),
        lanes=MemoryLanes(world, faults),
        launches=MemoryLaunches(world, faults),
        liveness=MemoryLiveness(world, faults),
        liveness_work=MemoryLivenessWork(world, faults),
        outbox=MemoryOutbox(world, faults),
        receipts=MemoryReceipts(world, faults),
        recovery=MemoryRecovery(world, faults),
        run_events=MemoryRunEvents(world, faults),
        runs=MemoryRuns(world, faults),
        sandboxes=MemorySandboxes(world, faults),
        secrets=MemorySecrets(world, faults),
        sheets=MemorySheets(world, faults),
        signals=MemorySignals(world, faults),
        terminals=MemoryTerminals(world, faults),
        usage=MemoryUsage(world, faults),
    )
