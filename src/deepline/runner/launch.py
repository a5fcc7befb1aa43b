"""What is to be run, as the gateway tells it."""

import dataclasses
import time
from collections.abc import Mapping

HEARTBEAT_MS_LEAST = 50


class LaunchUnusable(Exception):
    """The launch lacks what is needed to run it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Launch:
    """The parts of a launch that a runner needs. Secrets and input are in no `repr`."""

    run_id: str
    attempt: int
    entry: str
    bundle_hash: str
    input: object = dataclasses.field(repr=False)
    secrets: Mapping[str, str] = dataclasses.field(repr=False)
    heartbeat_ms: int
    ceiling_ms: int
    silence_ms: int
    graph_hash: str = ""
    state: Mapping[str, object] = dataclasses.field(default_factory=dict, repr=False)
    told_at_ms: int = 0
    read_at: float = 0.0

    @property
    def answers(self) -> Mapping[str, object]:
        """What the play was answered at the points at which it was suspended, by their names."""
        answers = self.state.get("resumed")
        return answers if isinstance(answers, dict) else {}

    @property
    def changed(self) -> bool:
        """True when another version of the play was suspended than this one."""
        before = self.state.get("graphHash")
        return before is not None and before != self.graph_hash

    def now_ms(self) -> int:
        """The gateway's time at this moment, whatever the clock of this sandbox says."""
        return self.told_at_ms + round((time.monotonic() - self.read_at) * 1000)


def read_launch(fields: Mapping[str, object]) -> Launch:
    """Read a launch; raises `LaunchUnusable`."""
    match fields:
        case {
            "runId": str(run_id),
            "attempt": int(attempt),
            "entry": str(entry),
            "bundleHash": str(bundle_hash),
            "heartbeatMs": int(heartbeat_ms),
            "ceilingMs": int(ceiling_ms),
        } if ceiling_ms > 0:
            return Launch(
                run_id=run_id,
                attempt=attempt,
                entry=entry,
                bundle_hash=bundle_hash,
                input=fields.get("input"),
                secrets=_secrets(fields.get("secrets")),
                heartbeat_ms=max(HEARTBEAT_MS_LEAST, heartbeat_ms),
                ceiling_ms=ceiling_ms,
                silence_ms=_silence(fields.get("heartbeatSilenceMs")),
                graph_hash=_text(fields.get("graphHash")),
                state=_state(fields.get("checkpoint")),
                told_at_ms=_told_at_ms(fields.get("nowMs")),
                read_at=time.monotonic(),
            )
        case {"bundleHash": None}:
            raise LaunchUnusable("the launch names no bundle; submit the run with a play")
        case _:
            raise LaunchUnusable("the launch is not understood by this runner; update it")


def _secrets(value: object) -> Mapping[str, str]:
    fields = value if isinstance(value, dict) else {}
    return {
        name: secret
        for name, secret in fields.items()
        if isinstance(name, str) and isinstance(secret, str)
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _state(checkpoint: object) -> Mapping[str, object]:
    state = checkpoint.get("state") if isinstance(checkpoint, dict) else None
    return state if isinstance(state, dict) else {}


def _told_at_ms(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else time.time_ns() // 1_000_000


def _silence(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
