"""The way from one process to everything outside it, where calls get lost, late, or unanswered.

Every call of every port passes here by name, such as `attempts.park` (FoundationDB's lesson: an
unknown outcome is the first fault to model). A process that crashed finds no way any more: its
code may still run to its end, as Python's `finally` does, but the world never hears of it, which
is what kill -9 means. A paused process is one whose calls all wait.
"""

import functools
from collections.abc import Callable
from datetime import timedelta

import attrs
import trio

from deepline.core.limits import Limits
from deepline.ports.errors import (
    CapacityExceeded,
    ExecutorTokenCapacity,
    ExecutorTokenUnavailable,
    OutcomeUnknown,
    PortError,
    Refused,
    Unavailable,
)
from deepline.simulation.dice import UNIT
from deepline.simulation.life import Life
from deepline.simulation.mixture import BEFORE
from deepline.simulation.stage import Stage
from deepline.simulation.trouble import LEDGER, PROVIDER, STORE, TOKENS, Cut

READS = frozenset(
    {
        "attempts.is_live",
        "attempts.key_is_live",
        "attempts.read",
        "attempts.recovery",
        "cleanup.acceptance",
        "engine.next_due",
        "lanes.all",
        "lanes.read",
        "launches.read",
        "liveness.now",
        "liveness.read",
        "liveness_work.find",
        "receipts.steps",
        "recovery.overdue",
        "recovery.stranded",
        "recovery.unreadable",
        "recovery.unsettled",
        "sheets.namespaces",
        "sheets.settled",
        "terminals.status",
        "terminals.stored",
    }
)
"""Operations that change nothing, so that a lost answer is no unknown outcome."""

UNSTRUCK = frozenset({"engine.listen"})
"""The line of hints breaks at times of its own (`lost lines`)."""

CUT = "cut"
"""Names what a cut link does to answers; the cut itself is the fault that struck."""
CLAIM = "attempts.claim"
CLAIM_JITTER_S = 0.02
HEEDS_S = 2.0
"""How soon a paused process notices that the world is healed."""

_OUTSIDES = {"executor_tokens": TOKENS, "ledger": LEDGER}
_STORE_PORTS = frozenset(
    {
        "admission",
        "api_keys",
        "attempts",
        "capacity",
        "cleanup",
        "crash_diagnostics",
        "dead_letters",
        "duties",
        "engine",
        "lanes",
        "launches",
        "liveness",
        "liveness_work",
        "outbox",
        "receipts",
        "recovery",
        "run_events",
        "runs",
        "sheets",
        "signals",
        "terminals",
        "usage",
    }
)


class Crashed(BaseException):
    """The process that made this call is dead; nothing it does reaches the world."""


@functools.cache
def outside_of(operation: str) -> str:
    """Which outside an operation goes to: the store, the tokens, the ledger, or the provider."""
    port = operation.partition(".")[0]
    return _OUTSIDES.get(port, STORE if port in _STORE_PORTS else PROVIDER)


@attrs.define(eq=False)
class Link:
    """A `Faults` for one life of a process."""

    stage: Stage
    life: Life
    _answer: tuple[str, str, int] | None = None
    """What befalls the answer of the call whose step is being made: its name, how, how long."""

    async def before(self, operation: str) -> None:
        """Bring a call to its outside, or not."""
        stage, life = self.stage, self.life
        if life.dead or stage.is_over:
            raise Crashed
        await self._thaw()
        outside = outside_of(operation)
        if stage.is_away(outside):
            await self._away(outside)
        self._answer = None
        if stage.cut:
            await self._cross_cut(outside)
        sent = False
        if stage.troubled:
            sent = await self._travel(operation, outside)
        elif operation == CLAIM:
            # Without any latency two workers race for the same instant and the same one always
            # wins; then a run that only the other can place would wait for ever.
            name = life.count_call(operation)
            await stage.clock.nap(stage.dice.between(name, 0.0, CLAIM_JITTER_S))
        # What was sent before a crash still arrives, with nobody left to hear the answer.
        if self._is_silent(sent=sent):
            raise Crashed
        stage.actor, stage.operation = life.name, operation

    async def after(self, operation: str) -> None:
        """Bring the answer back, or not."""
        answer, self._answer = self._answer, None
        if answer is not None:
            await self._return(operation, *answer)
        await self._thaw()
        if self.life.dead or self.stage.is_over:
            raise Crashed

    def delivers(self, hint: str) -> bool:
        """Hints get lost altogether in some worlds, now and then in others."""
        stage, life = self.stage, self.life
        if life.dead or stage.is_over:
            return False
        lost = stage.mixture.hints_lost if stage.troubled else 0.0
        if not lost:
            return True
        name = f"{life.count_call('hint ' + hint)} lost"
        return not (stage.dice.share(name) < lost and stage.strikes(name))

    async def _thaw(self) -> None:
        """Wait until the process is no longer paused; a paused process notices no cancellation."""
        while (left_s := self.life.paused_until_s - self.stage.now_s) > 0:
            with trio.move_on_after(left_s + 1, shield=True):
                await self.stage.clock.nap(min(left_s, HEEDS_S))

    async def _away(self, outside: str) -> None:
        """An outside that is away refuses at once, or after a while."""
        wait = self.life.count_call(f"{outside} away")
        await self.stage.clock.nap(self.stage.dice.pick(wait, (0.0, 0.1, 2.0)))
        raise _error_of("lost", outside, reads=True)

    async def _cross_cut(self, outside: str) -> None:
        """Where a link is cut one way, nothing arrives, or no answer to what arrived."""
        match self.stage.cut.get((self.life.name.partition(".")[0], outside)):
            case Cut.REQUESTS if self.stage.troubled:
                await self._away(outside)
            case Cut.ANSWERS if self.stage.troubled:
                self._answer = (CUT, "reply_lost", 0)
            case _:
                pass

    def _is_silent(self, *, sent: bool) -> bool:
        """Can nothing come of a call any more, as things stand now?"""
        return self.stage.is_over or (self.life.dead and not sent)

    async def _travel(self, operation: str, outside: str) -> bool:
        """Let the call suffer what the mixture holds; True when it is on its way for good."""
        stage = self.stage
        mixture = stage.mixture
        if not mixture.strikes_calls and not mixture.latency_s:
            return False
        name = self.life.count_call(operation)
        strike, answer, length, latency = stage.dice.slices(name)
        if mixture.latency_s and latency & 3 == 0:
            await stage.clock.nap(mixture.latency_s * (latency + 1) / UNIT * 2)
        hot = mixture.hot_share * UNIT if operation == mixture.hot_call else 0.0
        if strike < hot or (hot and mixture.hot_answer):
            sent = strike < hot and await self._burn(name, operation, outside, length)
            if mixture.hot_answer and answer < hot:
                self._answer = (name, mixture.hot_answer, length)
            return sent
        if operation in UNSTRUCK or not self._is_focused(operation):
            return False
        sent = False
        for kind, below in mixture.before:
            if strike < below:
                sent = await self._suffer(f"{name} {kind}", kind, operation, outside, length)
                break
        for kind, below in mixture.after:
            if answer < below:
                self._answer = (name, kind, length)
                break
        return sent

    async def _burn(self, name: str, operation: str, outside: str, length: int) -> bool:
        """Strike the world's hot call in the world's own way."""
        kind = self.stage.mixture.hot_kind
        if kind in BEFORE:
            return await self._suffer(f"{name} {kind}", kind, operation, outside, length)
        self._answer = (name, kind, length)
        return False

    def _is_focused(self, operation: str) -> bool:
        focus = self.stage.mixture.focus
        return focus >= 1 or self.stage.dice.share(f"focus on {operation}") < focus

    async def _suffer(
        self, name: str, kind: str, operation: str, outside: str, length: int
    ) -> bool:
        stage, life = self.stage, self.life
        if kind == "crash" and not life.mortal:
            return False
        if kind == "denied" and outside != TOKENS:
            return False
        if not stage.strikes(name):
            return False
        stage.note("fault", kind, actor=life.name, operation=operation)
        match kind:
            case "slow":
                await stage.clock.nap(self._wait_s(length))
            case "stuck":
                wait_s = self._wait_s(length)
                with trio.move_on_after(wait_s + 1, shield=True):
                    await stage.clock.nap(wait_s)
            case "crash":
                life.crash()
                raise Crashed
            case _:
                raise _error_of(kind, outside, reads=operation in READS)
        return kind == "stuck"

    async def _return(self, operation: str, name: str, kind: str, length: int) -> None:
        stage, life = self.stage, self.life
        if kind == "crash_after" and not life.mortal:
            return
        if name != CUT and not stage.strikes(f"{name} {kind}"):
            return
        stage.note("fault", kind, actor=life.name, operation=operation)
        match kind:
            case "reply_slow":
                await stage.clock.nap(self._wait_s(length))
            case "crash_after":
                life.crash()
                raise Crashed
            case _:
                raise _error_of("unanswered", outside_of(operation), reads=operation in READS)

    def _wait_s(self, length: int) -> float:
        """A wait of up to three leases, short in most worlds."""
        share = (length + 1) / UNIT
        power = 1 if self.stage.mixture.long_waits else 3
        return float(share**power * longest_wait_s(self.stage.limits))


def longest_wait_s(limits: Limits) -> float:
    """How long a slow or stuck call takes at most: three leases."""
    return 3 * limits.claim_lease.total_seconds()


def _error_of(kind: str, outside: str, *, reads: bool) -> PortError:
    """How a failed call looks to its caller."""
    if outside == TOKENS:
        return _TOKEN_ERRORS[kind]()
    if kind == "refused":
        return CapacityExceeded("no room (simulated)", timedelta(seconds=1), "pool")
    if kind == "unanswered" and not reads:
        return OutcomeUnknown("no answer came (simulated)")
    return Unavailable("it is away (simulated)")


_TOKEN_ERRORS: dict[str, Callable[[], PortError]] = {
    "lost": lambda: ExecutorTokenUnavailable("no answer (simulated)", None),
    "refused": lambda: ExecutorTokenCapacity(
        "no room (simulated)", timedelta(seconds=1), "token_route"
    ),
    "unanswered": lambda: ExecutorTokenUnavailable("bad gateway (simulated)", 503),
    "denied": lambda: Refused("forbidden", "no token for you (simulated)"),
}
