"""Waiting for a store that is away before play code runs (I15, C53).

The store being away is nothing that the run did, so it costs no engine attempt. A write is repeated
for the length of one lease; then the attempt gives its slot back and waits as for any dependency,
since one step that fails while the claim can be kept would otherwise hold both for ever.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import trio

from deepline.core.backoff import Backoff
from deepline.core.limits import Limits
from deepline.ports.clock import Clock
from deepline.ports.errors import OutcomeUnknown, PreCodeUnavailable, Unavailable

STORE_PAUSES = Backoff(base=timedelta(milliseconds=100), longest=timedelta(seconds=5))

T = TypeVar("T")


async def answered(write: Callable[[], Awaitable[T]], clock: Clock, limits: Limits) -> T:
    """Ask the store until it answers, for a lease at most; the claim's loss cancels us sooner.

    `write` is fenced and may be repeated: one that was done is found done. Raises `Unavailable`
    when no answer came, and then it may have been done.
    """
    failures = 0
    with trio.move_on_after(limits.claim_lease.total_seconds()):
        while True:
            try:
                return await write()
            except (Unavailable, OutcomeUnknown):
                await clock.sleep(STORE_PAUSES.delay(failures))
                failures += 1
    raise Unavailable(f"the store gave no answer for {limits.claim_lease}")


@contextmanager
def before_play(dependency: str) -> Iterator[None]:
    """Nothing of the play can have run in this block: a store that is away may be waited for."""
    try:
        yield
    except Unavailable as error:
        raise PreCodeUnavailable(dependency, error.kind.value, str(error)) from error
