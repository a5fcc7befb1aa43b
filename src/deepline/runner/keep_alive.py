"""Beats and fresh tokens, from threads of their own that no play can hold up (C34, F30).

Beats go on until the terminal is stored, also while it cannot be pushed. `heartbeat_silence_s`
keeps the runner silent for that long after its first beat (C61).
"""

import base64
import json
import threading
import time
from collections.abc import Callable

from deepline.runner.gateway import AttemptOver, Gateway, Rejected, Unreachable

BEAT_CALL_S_MAX = 10.0
BEAT_AGAIN_S = 1.0
RENEW_AGAIN_S = 5.0
TOKEN_LIFE_S = 600.0
"""How long a token lives that does not say so."""
RENEW_S_MIN = 1.0


class KeepAlive:
    """Two threads that keep an attempt alive; `over` is called when the gateway says it is over."""

    def __init__(
        self,
        gateway: Gateway,
        *,
        period_s: float,
        silence_s: float,
        over: Callable[[], None],
        renewed: Callable[[str], None],
    ) -> None:
        self._gateway = gateway
        self._period_s = period_s
        self._silence_s = silence_s
        self._over = over
        self._renewed = renewed
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin to beat and to renew."""
        for work in (self._beat, self._renew):
            threading.Thread(target=work, name=work.__name__, daemon=True).start()

    def stop(self) -> None:
        """Begin no further call."""
        self._stopped.set()

    def _beat(self) -> None:
        silent_s = self._silence_s
        wait_s = 0.0
        while not self._stopped.wait(wait_s):
            began = time.monotonic()
            if self._beat_once():
                wait_s = max(0.0, self._period_s - (time.monotonic() - began)) + silent_s
                silent_s = 0.0
            else:
                wait_s = min(BEAT_AGAIN_S, self._period_s / 4)

    def _beat_once(self) -> bool:
        try:
            self._gateway.beat(min(BEAT_CALL_S_MAX, max(1.0, self._period_s)))
        except AttemptOver:
            self.stop()
            self._over()
        except (Unreachable, Rejected):
            return False
        return True

    def _renew(self) -> None:
        """Renew at half of each token's life, so that an outage of the other half is bearable."""
        wait_s = lifetime_s(self._gateway.token) / 2
        while not self._stopped.wait(wait_s):
            try:
                token = self._gateway.renew()
            except (AttemptOver, Unreachable, Rejected):
                # Whether the attempt is over is the beats' to say.
                wait_s = min(RENEW_AGAIN_S, wait_s)
            else:
                self._renewed(token)
                wait_s = lifetime_s(token) / 2


def lifetime_s(token: str) -> float:
    """How long a token lives from its making, by its own claims; no clock of ours is asked."""
    try:
        middle = token.split(".")[1]
        claims: object = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
    except (IndexError, ValueError):
        return TOKEN_LIFE_S
    match claims:
        case {"iat": int() | float() as made, "exp": int() | float() as ends} if ends > made:
            return max(2 * RENEW_S_MIN, float(ends - made))
        case _:
            return TOKEN_LIFE_S
