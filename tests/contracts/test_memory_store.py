"""The memory store keeps the contract of every store-side port."""

import pytest

from deepline.testing import (
    AdmissionContract,
    ApiKeysContract,
    AttemptsContract,
    CapacityContract,
    CensusContract,
    CleanupContract,
    CrashDiagnosticsContract,
    DeadLettersContract,
    DutiesContract,
    EngineContract,
    LanesContract,
    LaunchesContract,
    LivenessContract,
    LivenessWorkContract,
    OutboxContract,
    ReceiptsContract,
    RecoveryContract,
    RunEventsContract,
    RunsContract,
    SandboxesContract,
    SecretsContract,
    SheetsContract,
    SignalsContract,
    Stores,
    TerminalsContract,
    UsageContract,
)
from tests.contracts.memory_stores import memory_stores


@pytest.fixture
async def stores() -> Stores:
    """An empty store in memory."""
    return memory_stores()


class TestAdmission(AdmissionContract):
    pass


class TestApiKeys(ApiKeysContract):
    pass


class TestAttempts(AttemptsContract):
    pass


class TestCapacity(CapacityContract):
    pass


class TestCensus(CensusContract):
    pass


class TestCleanup(CleanupContract):
    pass


class TestCrashDiagnostics(CrashDiagnosticsContract):
    pass


class TestDeadLetters(DeadLettersContract):
    pass


class TestDuties(DutiesContract):
    pass


class TestEngine(EngineContract):
    pass


class TestLanes(LanesContract):
    pass


class TestLaunches(LaunchesContract):
    pass


class TestLiveness(LivenessContract):
    pass


class TestLivenessWork(LivenessWorkContract):
    pass


class TestOutbox(OutboxContract):
    pass


class TestReceipts(ReceiptsContract):
    pass


class TestRecovery(RecoveryContract):
    pass


class TestRunEvents(RunEventsContract):
    pass


class TestRuns(RunsContract):
    pass


class TestSandboxes(SandboxesContract):
    pass


class TestSecrets(SecretsContract):
    pass


class TestSheets(SheetsContract):
    pass


class TestSignals(SignalsContract):
    pass


class TestTerminals(TerminalsContract):
    pass


class TestUsage(UsageContract):
    pass
