"""Contract kits for ports, for consumers and for us.

A kit is a class of async tests, one for each rule that every implementation of a port keeps. It
names no test framework. With pytest and pytest-trio (`trio_mode = true`) a consumer writes

    class TestMyProvider(SandboxProviderContract):
        @pytest.fixture
        async def subject(self):
            ...
            yield ProviderSubject(provider=..., ...)

and runs it. Kits of the store-side ports ask for a fixture `stores`, a `Stores` over an empty
store; the others ask for a `subject` that their module describes.
"""

from deepline.testing.admission import AdmissionContract
from deepline.testing.api_keys import ApiKeysContract
from deepline.testing.attempts import AttemptsContract
from deepline.testing.capacity import CapacityContract
from deepline.testing.census import CensusContract
from deepline.testing.cleanup import CleanupContract
from deepline.testing.clock import ClockContract
from deepline.testing.crash_diagnostics import CrashDiagnosticsContract
from deepline.testing.dead_letters import DeadLettersContract
from deepline.testing.duties import DutiesContract
from deepline.testing.engine import EngineContract
from deepline.testing.executor_tokens import ExecutorTokensContract, TokensSubject
from deepline.testing.faulty_provider import (
    FaultyProvider,
    ProviderCall,
    ShareOfTrouble,
    Side,
    Way,
)
from deepline.testing.lanes import LanesContract
from deepline.testing.launches import LaunchesContract
from deepline.testing.ledger import LedgerContract, LedgerSubject
from deepline.testing.liveness import LivenessContract
from deepline.testing.liveness_work import LivenessWorkContract
from deepline.testing.outbox import OutboxContract
from deepline.testing.receipts import ReceiptsContract
from deepline.testing.recovery import RecoveryContract
from deepline.testing.run_events import RunEventsContract
from deepline.testing.runs import RunsContract
from deepline.testing.sandbox_provider import ProviderSubject, SandboxProviderContract
from deepline.testing.sandboxes import SandboxesContract
from deepline.testing.scene import Scene
from deepline.testing.scripts import play, write_script
from deepline.testing.secrets import SecretsContract
from deepline.testing.sheets import SheetsContract
from deepline.testing.signals import SignalsContract
from deepline.testing.stores import Stores
from deepline.testing.terminals import TerminalsContract
from deepline.testing.usage import UsageContract

__all__ = [
    "AdmissionContract",
    "ApiKeysContract",
    "AttemptsContract",
    "CapacityContract",
    "CensusContract",
    "CleanupContract",
    "ClockContract",
    "CrashDiagnosticsContract",
    "DeadLettersContract",
    "DutiesContract",
    "EngineContract",
    "ExecutorTokensContract",
    "FaultyProvider",
    "LanesContract",
    "LaunchesContract",
    "LedgerContract",
    "LedgerSubject",
    "LivenessContract",
    "LivenessWorkContract",
    "OutboxContract",
    "ProviderCall",
    "ProviderSubject",
    "ReceiptsContract",
    "RecoveryContract",
    "RunEventsContract",
    "RunsContract",
    "SandboxProviderContract",
    "SandboxesContract",
    "Scene",
    "SecretsContract",
    "ShareOfTrouble",
    "SheetsContract",
    "Side",
    "SignalsContract",
    "Stores",
    "TerminalsContract",
    "TokensSubject",
    "UsageContract",
    "Way",
    "play",
    "write_script",
]
