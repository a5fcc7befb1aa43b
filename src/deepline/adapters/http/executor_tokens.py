"""The executor-token request, exactly as the contract has it (C16, A2, Q36, Q41, Q08).

The worker proves a live attempt to the gateway pinned in the launch and gets a token for it. What
an answer means is `core.executor_token`'s to say; here is only the asking. The whole request,
waiting for a connection and the body included, has one budget, after which what has been seen
until then is classified.
"""

import random
from typing import assert_never

import attrs
import trio

from deepline.adapters.http.limited_client import Call, LimitedClient, read_bounded
from deepline.core.capacity_deferral import DEFAULT_RETRY_AFTER
from deepline.core.executor_token import (
    TRANSPORT,
    NotJson,
    ResponseBody,
    TokenAnswer,
    TokenCapacity,
    TokenMinted,
    TokenRefused,
    TokenUnavailable,
    classify,
    host_of,
    observe_body,
)
from deepline.core.limits import Limits
from deepline.core.model.identity import AttemptRef
from deepline.core.model.launch import Launch
from deepline.ports.clock import Clock
from deepline.ports.errors import (
    ExecutorTokenCapacity,
    ExecutorTokenUnavailable,
    MalformedDocument,
    OutcomeUnknown,
    Refused,
    Unavailable,
)
from deepline.ports.executor_tokens import ExecutorToken
from deepline.ports.telemetry import Telemetry
from deepline.ports.wire import encode_json, parse_json

PATH = "/api/internal/runtime/attempt-executor-token"
TERMINAL_REDUCER_CONTRACT = "DIRECT_COMPLETED_TERMINAL_CONTRACT"
_CHANNEL = "runtime-attempt-token"
_ANSWER_BYTES = 64 << 10


def _masked(_: str | None) -> str:
    return "***"


@attrs.frozen(kw_only=True)
class TokenCredentials:
    """What the worker proves itself with; never shown.

    `front_door_bypass` is the front door's protection secret, for deployments behind one (Q08).
    """

    internal_token: str = attrs.field(repr=_masked)
    front_door_bypass: str | None = attrs.field(default=None, repr=_masked)

    def headers(self) -> dict[str, str]:
        """The headers of a call to the app."""
        headers = {
            "content-type": "application/json",
            "x-deepline-internal-token": self.internal_token,
        }
        if self.front_door_bypass:
            headers["x-vercel-protection-bypass"] = self.front_door_bypass
        return headers


@attrs.define
class _Seen:
    """What has been seen of an answer so far."""

    status: int | None = None
    body: ResponseBody = attrs.field(factory=NotJson)
    error: str | None = None


class HttpExecutorTokens:
    """Mints tokens over HTTP; holds no signing key (I45)."""

    def __init__(
        self,
        client: LimitedClient,
        credentials: TokenCredentials,
        *,
        limits: Limits,
        clock: Clock,
        telemetry: Telemetry,
        chance: random.Random,
        scheduler_schema: str | None,
    ) -> None:
        self._client = client
        self._credentials = credentials
        self._limits = limits
        self._clock = clock
        self._telemetry = telemetry
        self._chance = chance
        self._scheduler_schema = scheduler_schema

    async def mint(self, launch: Launch, ref: AttemptRef) -> ExecutorToken:
        """Ask within the budget and classify what was heard last (C16)."""
        trace_id = f"{self._chance.getrandbits(128):032x}"
        started_at = self._clock.monotonic()
        seen = _Seen()
        with trio.move_on_after(self._limits.token_request.total_seconds()) as budget:
            await self._ask(launch, ref, trace_id, seen)
        if budget.cancelled_caught and seen.status is None:
            seen.error = "no answer within the budget"
        answer = classify(seen.status, seen.body, host=host_of(launch.base_url))
        duration_ms = round((self._clock.monotonic() - started_at) * 1000)
        self._log(ref, trace_id, duration_ms, seen, answer)
        return _token(answer)

    async def _ask(self, launch: Launch, ref: AttemptRef, trace_id: str, seen: _Seen) -> None:
        body = encode_json(
            {
                "runId": ref.run_id,
                "attempt": ref.attempt,
                "leaseToken": ref.lease_token.value,
                "schedulerSchema": self._scheduler_schema,
                "terminalReducerContract": TERMINAL_REDUCER_CONTRACT,
            }
        )
        call = Call(
            method="POST",
            url=launch.base_url.rstrip("/") + PATH,
            headers={**self._credentials.headers(), "x-deepline-runtime-trace-id": trace_id},
            content=body.encode(),
            idempotent=True,
        )
        try:
            async with self._client.stream(call) as reply:
                seen.status = reply.status_code
                seen.body = _observe(await read_bounded(reply, _ANSWER_BYTES))
        except (Unavailable, OutcomeUnknown) as error:
            seen.error = str(error)

    def _log(
        self, ref: AttemptRef, trace_id: str, duration_ms: int, seen: _Seen, answer: TokenAnswer
    ) -> None:
        if isinstance(answer, TokenMinted):
            self._telemetry.info(
                _CHANNEL,
                "request_succeeded",
                runId=ref.run_id,
                attempt=ref.attempt,
                traceId=trace_id,
                durationMs=duration_ms,
                status=seen.status,
            )
            return
        self._telemetry.warn(
            _CHANNEL,
            "request_failed",
            runId=ref.run_id,
            attempt=ref.attempt,
            traceId=trace_id,
            durationMs=duration_ms,
            status=seen.status,
            code=_code(answer),
            error=answer.message if seen.error is None else seen.error,
        )


def _observe(body: bytes | None) -> ResponseBody:
    if body is None:
        return NotJson()
    try:
        return observe_body(parse_json(body, _ANSWER_BYTES))
    except MalformedDocument:
        return NotJson()


def _token(answer: TokenAnswer) -> ExecutorToken:
    match answer:
        case TokenMinted():
            return ExecutorToken(answer.executor_token, answer.expires_at)
        case TokenCapacity():
            retry_after = answer.failure.retry_after
            raise ExecutorTokenCapacity(
                answer.message,
                DEFAULT_RETRY_AFTER if retry_after is None else retry_after,
                "token_route",
            )
        case TokenUnavailable():
            raise ExecutorTokenUnavailable(answer.message, answer.status)
        case TokenRefused():
            raise Refused(answer.code, answer.message)
        case _:
            assert_never(answer)


def _code(answer: TokenCapacity | TokenUnavailable | TokenRefused) -> str:
    code = answer.why.evidence.get("code")
    return code if isinstance(code, str) else TRANSPORT
