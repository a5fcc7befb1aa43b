"""Bugs in what the world is told."""

from deepline.simulation.mutants import bug

RUNTIME = "deepline.runtime"
MEMORY = "deepline.adapters.memory"

LEDGER_BUGS = (
    bug(
        "delivered-before-applied",
        "Facts count as delivered before the ledger has them.",
        f"{RUNTIME}.dispatcher:Dispatcher.deliver",
        "        await self.ledger.deliver(lease.launch, facts)",
        "        await self.outbox.delivered(lease, through_seq=facts[-1].seq)\n"
        "        await self.ledger.deliver(lease.launch, facts)",
    ),
    bug(
        "outbox-shared",
        "Two dispatchers deliver one run at once.",
        f"{MEMORY}.outbox:MemoryOutbox._first_due",
        "held is not None and held.expires_at > now",
        "False",
    ),
    bug(
        "facts-out-of-order",
        "The newest fact of a batch is applied first.",
        f"{MEMORY}.run_events:apply_facts",
        "for fact in facts:",
        "for fact in reversed(list(facts)):",
    ),
)
