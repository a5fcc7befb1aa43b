"""Whether the receipt gateway is well, asked once before a worker starts (C63, Q27).

Runners in sandboxes of a provider persist receipts and sheets through it and through nothing
else, so a worker that cannot reach it would only start runs that cannot finish.
"""

from datetime import timedelta

import trio

from deepline.adapters.http.limited_client import Call, LimitedClient
from deepline.core.executor_token import host_of
from deepline.ports.clock import Clock
from deepline.ports.errors import OutcomeUnknown, Unavailable

TRIES = 3
BUDGET = timedelta(seconds=15)
_PAUSE = timedelta(seconds=2)
_ANSWER_BYTES = 64 << 10


async def check_receipt_gateway(client: LimitedClient, url: str, clock: Clock) -> None:
    """Ask `url`'s health up to three times within 15 s. Raises `Unavailable`: do not start."""
    last = "no answer in time"
    with trio.move_on_after(BUDGET.total_seconds()):
        for number in range(1, TRIES + 1):
            failure = await _failure(client, url)
            if failure is None:
                return
            last = failure
            if number < TRIES:
                await clock.sleep(_PAUSE)
    raise Unavailable(
        f"the receipt gateway at {host_of(url)} is not healthy ({last}); start the gateway, or "
        "correct DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL"
    )


async def _failure(client: LimitedClient, url: str) -> str | None:
    call = Call(method="GET", url=f"{url.rstrip('/')}/healthz", idempotent=True)
    try:
        answer = await client.request(call, answer_bytes=_ANSWER_BYTES)
    except (Unavailable, OutcomeUnknown) as error:
        return str(error)
    return None if answer.status == 200 else f"status {answer.status}"
