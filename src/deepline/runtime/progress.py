"""Signs of life of a duty's loop, kept for who judges it (Q47, FAULTS F34)."""

from datetime import timedelta

import attrs
import trio

from deepline.core.duty_health import DutyPace


@attrs.define(eq=False)
class Progress:
    """When a loop last turned, and when it last got done what it turns for; in Trio time."""

    turned_at: float | None = attrs.field(init=False, default=None)
    succeeded_at: float | None = attrs.field(init=False, default=None)

    def turned(self) -> None:
        """Say that the loop goes on, whatever came of it."""
        self.turned_at = trio.current_time()

    def succeeded(self) -> None:
        """Say that a pass did what it is for."""
        self.turned_at = self.succeeded_at = trio.current_time()

    def pace(self, name: str, *, held_since: float | None, every: timedelta) -> DutyPace:
        """How the loop gets on; `held_since` `None` for a duty that is not this process's."""
        now = trio.current_time()
        since = now if held_since is None else held_since

        def ago(at: float | None) -> timedelta:
            return timedelta(seconds=now - max(since, since if at is None else at))

        return DutyPace(
            name=name,
            held=held_since is not None,
            turned=ago(self.turned_at),
            succeeded=ago(self.succeeded_at),
            every=every,
        )
