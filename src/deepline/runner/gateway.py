"""The runner's calls to the gateway (C34): who may be told again, and who is not to be asked again.

A call that failed on the way, or that the gateway had no room for, is made again with growing
waits until somebody closes the gateway or `give_up_at` comes. "No" is not asked again.
"""

import json
import random
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from deepline.runner.bounds import ANSWER_BYTES_MAX, BUNDLE_BYTES_MAX, LAUNCH_BYTES_MAX
from deepline.runner.http_call import Answer, AnswerTooLong, Caller, CallFailed, Request
from deepline.runner.settings import Settings
from deepline.runner.storable import encode

T = TypeVar("T")
CALL_S = 30.0
TRANSFER_S = 120.0
"""For calls that carry a bundle, an input or a result."""
WAIT_S_MAX = 30.0
RETRY_AFTER_S_MAX = 120.0
UNAUTHORISED_MAX = 6
"""How often a token may be refused in a row: a fresh one may be on its way."""
TOO_LONG = "answer_too_long"
_AGAIN = frozenset({401, 408, 425, 429, 500, 502, 503, 504})
_OVER = frozenset({"attempt_over", "run_ended"})


class AttemptOver(Exception):
    """The attempt takes nothing more; stop working for it."""


class Rejected(Exception):
    """The gateway understood and said no; asking again gives the same answer."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"the gateway answered {status} {code}: {detail}")
        self.status = status
        self.code = code


class Unreachable(Exception):
    """No useful answer yet."""

    def __init__(self, why: str, retry_after_s: float = 0.0, status: int | None = None) -> None:
        super().__init__(why)
        self.retry_after_s = retry_after_s
        self.status = status


class Gateway:
    """Calls for one attempt, with the token of the moment. Safe to use from any thread."""

    def __init__(self, settings: Settings, chance: random.Random | None = None) -> None:
        self._caller = Caller(settings.api_url)
        self._token = settings.token
        self._trace_parent = settings.trace_parent
        self._began_ms = round(time.time() * 1000)
        self._chance = chance or random.Random()  # noqa: S311 - spreads retries
        self._closed = threading.Event()

    @property
    def token(self) -> str:
        """The executor token of the moment."""
        return self._token

    def close(self) -> None:
        """End all waiting between tries; they fail with their last reason."""
        self._closed.set()

    def launch(self, give_up_at: float) -> Mapping[str, object]:
        """Fetch what is to be run."""
        return self.until(
            give_up_at,
            lambda: self.once(
                "GET", "launch", limit_s=TRANSFER_S, answer_bytes_max=LAUNCH_BYTES_MAX
            ),
        )

    def bundle(self, give_up_at: float) -> bytes:
        """Fetch the play's zip."""
        return self.until(
            give_up_at,
            lambda: (
                self._answer(
                    "GET", "bundle", None, limit_s=TRANSFER_S, answer_bytes_max=BUNDLE_BYTES_MAX
                ).body
            ),
        )

    def beat(self, limit_s: float) -> None:
        """Say once that the runner lives. Raises what a single call may raise."""
        self.once("POST", "heartbeat", {}, limit_s=limit_s)

    def renew(self) -> str:
        """Take a fresh token into use and return it; one try."""
        answer = self.once("POST", "token", {})
        match answer.get("executorToken"):
            case str(token) if token:
                self._token = token
                return token
            case _:
                raise Unreachable("the answer holds no token")

    def send_events(self, events: Sequence[Mapping[str, object]]) -> None:
        """Hand log lines, progress and steps over; one try."""
        self.once("POST", "events", {"events": events})

    def push(self, body: bytes, give_up_at: float) -> None:
        """Push how the attempt ended; the first terminal stays."""
        self.until(give_up_at, lambda: self._answer("POST", "terminal", body, limit_s=TRANSFER_S))

    def ask(self, method: str, path: str, body: object = None) -> Mapping[str, object]:
        """Ask for the play, for as long as the play runs."""
        return self.until(float("inf"), lambda: self.once(method, path, body, limit_s=TRANSFER_S))

    def once(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        limit_s: float = CALL_S,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
    ) -> Mapping[str, object]:
        """Make one call that is answered with an object.

        Raises `AttemptOver`, `Rejected` or `Unreachable`.
        """
        text = None if body is None else encode(body)
        answer = self._answer(
            method, path, text, limit_s=limit_s, answer_bytes_max=answer_bytes_max
        )
        fields = _fields(answer.body)
        if fields is None:
            raise Unreachable("the answer is not understood")
        return fields

    def until(self, give_up_at: float, call: Callable[[], T]) -> T:
        """Make the call until there is an answer; the last `Unreachable` comes out in the end."""
        tries = unauthorised = 0
        while True:
            try:
                return call()
            except Unreachable as failure:
                unauthorised = unauthorised + 1 if failure.status == 401 else 0
                wait_s = self._wait_s(tries, failure.retry_after_s)
                late = time.monotonic() + wait_s >= give_up_at
                if late or unauthorised >= UNAUTHORISED_MAX or self._closed.wait(wait_s):
                    raise
                tries += 1

    def _wait_s(self, tries: int, retry_after_s: float) -> float:
        grown = min(WAIT_S_MAX, 0.2 * float(1 << min(tries, 10)))
        return max(min(retry_after_s, RETRY_AFTER_S_MAX), grown * self._chance.uniform(0.5, 1.0))

    def _answer(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        limit_s: float = CALL_S,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
    ) -> Answer:
        headers = {"authorization": f"Bearer {self._token}", "accept": "application/json"}
        if body is not None:
            headers["content-type"] = "application/json"
        if self._trace_parent is not None:
            headers["traceparent"] = self._trace_parent
            headers["x-deepline-began-ms"] = str(self._began_ms)
        try:
            answer = self._caller.call(
                Request(method, f"/api/v1/runner/{path}", headers, body),
                limit_s=limit_s,
                answer_bytes_max=answer_bytes_max,
            )
        except CallFailed as failure:
            raise Unreachable(f"the gateway does not answer ({failure})") from None
        except AnswerTooLong:
            raise Rejected(200, TOO_LONG, f"more than {answer_bytes_max} bytes") from None
        if answer.status in {200, 201, 202, 204}:
            return answer
        raise _refusal(answer)


def path_part(name: str) -> str:
    """A name as one part of a path."""
    return urllib.parse.quote(name, safe="")


def _fields(body: bytes) -> Mapping[str, object] | None:
    try:
        value: object = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refusal(answer: Answer) -> AttemptOver | Rejected | Unreachable:
    problem = _fields(answer.body) or {}
    code, detail = (str(problem.get(name, ""))[:500] for name in ("code", "detail"))
    if answer.status == 409 and code in _OVER:
        return AttemptOver(detail)
    if answer.status in _AGAIN and code != "event_quota":
        after_ms = problem.get("retryAfterMs")
        after_s = after_ms / 1000 if isinstance(after_ms, int | float) and after_ms > 0 else 0.0
        return Unreachable(f"the gateway answered {answer.status} {code}", after_s, answer.status)
    return Rejected(answer.status, code, detail)
