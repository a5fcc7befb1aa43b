"""Signals on Postgres: the row first, and the wake with it (C11, I23, Q10)."""

from deepline.adapters.postgres.steps import Steps
from deepline.core.model.identity import RunId
from deepline.ports.errors import NotFound, Refused
from deepline.ports.signals import Signal

UNCLAIMED_MAX = 1_000
"""How many signals of one run may wait to be taken."""

_REFUSALS = {
    "run_ended": "the run has ended and takes no more signals",
    "signal_quota": f"{UNCLAIMED_MAX} signals of this run wait already; it must take some first",
}


class PostgresSignals:
    """Implements `Signals`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def put(self, run_id: RunId, signal: Signal, *, signal_id: str | None) -> bool:
        """Store the signal and wake a run that waits for it."""
        answer = await self._steps.write(
            "put_signals",
            {
                "run_id": run_id,
                "signal_id": signal_id,
                "event_key": signal.event_key,
                "boundary_id": signal.boundary_id,
                "payload": signal.payload,
            },
            UNCLAIMED_MAX,
        )
        assert isinstance(answer, dict)
        refused = answer.get("refused")
        if refused == "not_found":
            raise NotFound(f"there is no run {run_id}")
        if refused is not None:
            raise Refused(str(refused), _REFUSALS[str(refused)])
        return bool(answer["stored"])

    async def take(self, run_id: RunId, event_key: str, boundary_id: str) -> Signal | None:
        """Claim the oldest matching signal for this wait."""
        answer = await self._steps.write(
            "take_signals",
            {"run_id": run_id, "event_key": event_key, "waiting_boundary_id": boundary_id},
        )
        if answer is None:
            return None
        assert isinstance(answer, dict)
        boundary, payload = answer["boundary_id"], answer["payload"]
        assert isinstance(payload, dict)
        return Signal(
            event_key=event_key,
            boundary_id=None if boundary is None else str(boundary),
            payload=payload,
        )
