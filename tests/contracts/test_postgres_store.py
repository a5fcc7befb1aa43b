"""The store on Postgres keeps the contract of every store-side port."""

from collections.abc import AsyncIterator

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
from tests.contracts.postgres_stores import postgres_stores


@pytest.fixture
async def stores(migrated_database: str) -> AsyncIterator[Stores]:
    """An empty store on a database of the test's own."""
    async with postgres_stores(migrated_database) as opened:
        yield opened


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
