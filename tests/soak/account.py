"""What came of a storm, for who waited for it."""

from collections.abc import Mapping, Sequence

import attrs

from tests.soak.holdings import Holding
from tests.soak.watch import Lag


@attrs.frozen(kw_only=True)
class Account:
    """What was done, how runs ended, and what each role held before it and after it."""

    runs: int
    ends: Mapping[str, int]
    harm: Mapping[str, int]
    parted_calls: int
    """How often something between a worker and a gateway was held back."""
    engine_attempts: Mapping[str, int]
    """Spent ones by why."""
    attempts: int
    storm_s: float
    until_ended_s: float
    until_sound_s: float
    places: int
    """Sandboxes that could be had at once after the storm: all that there may be."""
    lease_s: int
    lag: Mapping[str, Lag]
    """Of workers by name; those of a steady one are those in peace."""
    before: Mapping[str, Holding]
    after: Mapping[str, Holding]
    peaks: Mapping[str, Holding]
    pooled_transactions: int | None = None
    """`None` without a pooler."""

    @property
    def _held(self) -> Sequence[tuple[str, Mapping[str, Holding]]]:
        return ("its start", self.before), ("most", self.peaks), ("its end", self.after)

    def __str__(self) -> str:
        """In lines."""
        times = (
            f"storm {self.storm_s:.0f} s, {self.until_ended_s:.0f} s more until all had ended,"
            f" {self.until_sound_s:.0f} s more until nothing was left"
        )
        pooler = (
            "no pooler"
            if self.pooled_transactions is None
            else f"{self.pooled_transactions} transactions through PgBouncer"
        )
        return "\n".join(
            [
                f"{self.runs} runs, {self.attempts} attempts: {counted(self.ends)}",
                f"harm done: {counted(self.harm)}; {self.parted_calls} calls held back",
                f"engine attempts spent: {counted(self.engine_attempts)}",
                times,
                pooler,
                f"places: none used by nobody, and all {self.places} to be had again",
                *(
                    f"{name} at {when}: {held[name]}"
                    for name in sorted(self.before)
                    for when, held in self._held
                    if name in held
                ),
                *(
                    f"{name}: {lag.beats} heartbeats of a lease of {self.lease_s} s,"
                    f" 99 in 100 late by at most {lag.p99_s:g} s"
                    for name, lag in sorted(self.lag.items())
                ),
            ]
        )


def counted(counts: Mapping[str, int]) -> str:
    """Counts in words."""
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "none"
