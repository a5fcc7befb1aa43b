"""Places for runs: how many a worker works on at a time, and the wish to look for work (C12).

A run whose result is known holds up nothing but the commit of its end, and a claim needs as long
as a commit. So such a run passes its place on at once, and claiming and committing overlap. As
many runs as there are places may be in that state; beyond that their places stay taken, so that a
slow store is not given more and more to finish.
"""

import attrs
import trio

from deepline.core.model.claim import Claim

_Key = tuple[str, str]


@attrs.define(eq=False)
class Slots:
    """The places of one worker. A claim in hand is worked on, or about to end."""

    total: int
    _working: set[_Key] = attrs.field(init=False, factory=set)
    _ending: set[_Key] = attrs.field(init=False, factory=set)
    _wake: trio.Event = attrs.field(init=False, factory=trio.Event)

    @property
    def free(self) -> int:
        """How many more runs fit."""
        return self.total - len(self._working) - max(0, len(self._ending) - self.total)

    @property
    def in_hand(self) -> int:
        """How many runs are worked on or about to end."""
        return len(self._working) + len(self._ending)

    def take(self, claim: Claim) -> None:
        """Give a place to a claim just made."""
        self._working.add(_key(claim))

    def pass_on(self, claim: Claim) -> None:
        """Let another run be worked on: of this one only what was decided is still to be written.

        Passing it on again changes nothing.
        """
        if _key(claim) in self._working:
            self._working.remove(_key(claim))
            self._ending.add(_key(claim))
            self.wake()

    def leave(self, claim: Claim) -> None:
        """The claim is out of hand; look for work."""
        self._working.discard(_key(claim))
        self._ending.discard(_key(claim))
        self.wake()

    def wake(self) -> None:
        """Look for work now; cheap, may be called from anywhere in the event loop."""
        self._wake.set()

    async def woken(self, at_most_s: float) -> None:
        """Wait for a wish, at most so long; a wish made before is not lost."""
        with trio.move_on_after(at_most_s):
            await self._wake.wait()
        self._wake = trio.Event()


def _key(claim: Claim) -> _Key:
    return claim.engine_run_id, claim.owner
