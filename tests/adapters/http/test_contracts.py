"""The HTTP adapters keep the contracts of their ports, with a real gateway at the other end."""

import random
from collections.abc import AsyncIterator, Sequence

import attrs
import pytest

from deepline.adapters.http.executor_tokens import HttpExecutorTokens, TokenCredentials
from deepline.adapters.http.ledger import HttpLedger
from deepline.adapters.http.limited_client import LimitedClient
from deepline.adapters.memory import MemoryTelemetry
from deepline.core.limits import Limits
from deepline.core.model.identity import LeaseToken, RunId
from deepline.testing.executor_tokens import ExecutorTokensContract, TokensSubject
from deepline.testing.ledger import LedgerContract, LedgerSubject
from tests.gateway.deployment import INTERNAL_TOKEN, deployed

CREDENTIALS = TokenCredentials(internal_token=INTERNAL_TOKEN)


class TestExecutorTokens(ExecutorTokensContract):
    """Executor tokens over HTTP."""

    @pytest.fixture
    async def subject(self) -> AsyncIterator[TokensSubject]:
        """Tokens of a gateway, for an attempt that is live and one whose lease was lost."""
        async with deployed() as gateway, LimitedClient() as client:
            fresh = await gateway.start()
            yield TokensSubject(
                tokens=HttpExecutorTokens(
                    client,
                    CREDENTIALS,
                    limits=Limits(),
                    clock=gateway.clock,
                    telemetry=MemoryTelemetry(),
                    chance=random.Random(1),
                    scheduler_schema=None,
                ),
                launch=fresh.launch,
                live=fresh.attempt.ref,
                over=attrs.evolve(fresh.attempt.ref, lease_token=LeaseToken("an-older-lease")),
            )


class TestLedger(LedgerContract):
    """The ledger over HTTP."""

    @pytest.fixture
    async def subject(self) -> AsyncIterator[LedgerSubject]:
        """The ledger of a gateway, read where it is kept."""
        async with deployed() as gateway, LimitedClient() as client:

            async def applied(run_id: RunId) -> Sequence[str]:
                events = await gateway.store.run_events.read(run_id, after=0, limit=100)
                return [event.event_id for event in events]

            yield LedgerSubject(
                ledger=HttpLedger(client, CREDENTIALS), applied=applied, base_url=gateway.url
            )
