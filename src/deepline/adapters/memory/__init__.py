"""Exact fakes of every port, for simulation and for consumers' tests.

The store-side ports are views of one `World`; `open_ports` gives a process all of them at once.
`deepline.testing` holds the contracts that these and the real adapters pass alike.
"""

from deepline.adapters.memory.clock import ShiftedClock, TickingClock, TrioTimeClock
from deepline.adapters.memory.executor_tokens import MemoryExecutorTokens
from deepline.adapters.memory.faults import NO_FAULTS, Faults, NoFaults
from deepline.adapters.memory.ledger import MemoryLedger
from deepline.adapters.memory.ports import MemoryPorts, open_ports
from deepline.adapters.memory.sandbox_provider import Life, MemorySandboxProvider
from deepline.adapters.memory.telemetry import MemoryTelemetry, RecordedEvent
from deepline.adapters.memory.world import World

__all__ = [
    "NO_FAULTS",
    "Faults",
    "Life",
    "MemoryExecutorTokens",
    "MemoryLedger",
    "MemoryPorts",
    "MemorySandboxProvider",
    "MemoryTelemetry",
    "NoFaults",
    "RecordedEvent",
    "ShiftedClock",
    "TickingClock",
    "TrioTimeClock",
    "World",
    "open_ports",
]
