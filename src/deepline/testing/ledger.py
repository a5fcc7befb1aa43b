"""What every `Ledger` keeps (C26.4, I21).

Asks for `subject`, a `LedgerSubject`: a ledger and the means to read what it has applied.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

import attrs

from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.launch import Launch
from deepline.core.model.ledger import CREATED, Fact, created_event_id, terminal_event_id
from deepline.ports.ledger import Ledger

RUN = RunId("run-1")
AT = datetime(2026, 3, 4, 5, 6, 7, 89_000, tzinfo=UTC)


@attrs.frozen(kw_only=True)
class LedgerSubject:
    """`applied` answers the ids of a run's applied events, in order."""

    ledger: Ledger
    applied: Callable[[RunId], Awaitable[Sequence[str]]]
    base_url: str = "https://gateway.example"


class LedgerContract:
    """Asks for `subject`."""

    async def test_facts_are_applied_in_order(self, subject: LedgerSubject) -> None:
        """When a delivery returns, its facts are applied, in their order."""
        await subject.ledger.deliver(self._launch(subject), self._facts())

        assert list(await subject.applied(RUN)) == [fact.event_id for fact in self._facts()]

    async def test_a_fact_is_applied_once(self, subject: LedgerSubject) -> None:
        """A delivery repeated, whole or with more behind it, applies each event once (I21)."""
        facts, launch = self._facts(), self._launch(subject)
        await subject.ledger.deliver(launch, facts[:2])

        await subject.ledger.deliver(launch, facts)
        await subject.ledger.deliver(launch, facts)

        assert list(await subject.applied(RUN)) == [fact.event_id for fact in facts]

    async def test_nothing_to_deliver(self, subject: LedgerSubject) -> None:
        """A delivery of no facts is no error."""
        await subject.ledger.deliver(self._launch(subject), [])

        assert list(await subject.applied(RUN)) == []

    def _launch(self, subject: LedgerSubject) -> Launch:
        return Launch(
            run_id=RUN,
            org_id=OrgId("org-1"),
            play_name="play",
            graph_hash="graph",
            base_url=subject.base_url,
        )

    def _facts(self) -> Sequence[Fact]:
        kinds = [
            (created_event_id(RUN), CREATED),
            ("settled-1", "run.progress_settled"),
            (terminal_event_id(RUN), "run.failed"),
        ]
        return [
            Fact(
                run_id=RUN,
                seq=seq,
                event_id=event_id,
                kind=kind,
                payload={"n": seq},
                occurred_at=AT,
            )
            for seq, (event_id, kind) in enumerate(kinds, start=1)
        ]
