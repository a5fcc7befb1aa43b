"""Waiting for a store that is away before play code runs (I15).

The store being away is nothing that the run did, so it costs no engine attempt.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from deepline.core.backoff import Backoff
from deepline.ports.clock import Clock
from deepline.ports.errors import OutcomeUnknown, Unavailable

STORE_PAUSES = Backoff(base=timedelta(milliseconds=100), longest=timedelta(seconds=5))

T = TypeVar("T")


async def answered(write: Callable[[], Awaitable[T]], clock: Clock) -> T:
    """Ask the store until it answers, for as long as the claim lasts: its loss cancels us.

    `write` is fenced and may be repeated: one that was done is found done.
    """
    failures = 0
    while True:
        try:
            return await write()
        except (Unavailable, OutcomeUnknown):
            await clock.sleep(STORE_PAUSES.delay(failures))
            failures += 1
