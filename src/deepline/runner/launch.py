"""What is to be run, as the gateway tells it."""

import dataclasses
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


def _silence(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
