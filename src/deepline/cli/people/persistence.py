"""Talking to a gateway that may go away and come back, as gateways do (C08).

A run does not need us while we wait, so nothing is lost by patience; what is lost without it is
the watching.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import attrs
import trio

from deepline.adapters.http.api_client import ApiAddress, ApiClient
from deepline.cli.failures import only
from deepline.cli.people.news import GatewayAway, GatewayBack
from deepline.cli.people.reports import Report
from deepline.ports.errors import CapacityExceeded, OutcomeUnknown, Unavailable

T = TypeVar("T")
PATIENCE_S = 600.0
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 3.0


@attrs.define(eq=False)
class Persistence:
    """Does work over one gateway, again where it broke off, for as long as `patience_s` in a row.

    `find` says where the gateway is, each time anew. Work that got an answer calls `reached`, so
    that the next outage has all the patience again.
    """

    find: Callable[[], ApiAddress]
    report: Report
    patience_s: float = PATIENCE_S
    _away_since: float | None = None
    _pause_s: float = _FIRST_PAUSE_S

    def reached(self) -> None:
        """The gateway has answered."""
        self._pause_s = _FIRST_PAUSE_S
        if self._away_since is not None:
            self._away_since = None
            self.report.tell(GatewayBack())

    async def do(self, work: Callable[[ApiClient], Awaitable[T]]) -> T:
        """Do the work, which may be begun several times. Raises what no patience would mend."""
        while True:
            try:
                async with ApiClient(self.find()) as client:
                    done = await work(client)
                    self.reached()
                    return done
            except* (Unavailable, OutcomeUnknown, CapacityExceeded) as group:
                self._note(only(group))
            await trio.sleep(self._pause_s)
            self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 2)

    def _note(self, failure: BaseException) -> None:
        now = trio.current_time()
        if self._away_since is None:
            self._away_since = now
            self.report.tell(GatewayAway(reason=str(failure)))
        elif now - self._away_since > self.patience_s:
            raise failure
