"""One event of the catalogue: its names, its fields, and how a line of log begins (C62).

Names and fields are interface: people search for them and machines read them. An event is said
with all its fields, whatever their values; those named `optional` may be left out.
"""

from collections.abc import Collection, Sequence

import attrs

from deepline.core.model.log_event import Level

HOST = "absurd-runtime.host"
WORKER = "absurd-runtime.worker"
SUBMIT = "absurd-runtime.submit"
SIGNAL = "absurd-runtime.signal"
CLEANUP = "absurd"
LEDGER = "run-ledger-outbox"
TOKENS = "runtime-attempt-token"
CANARY = "play-runner"
GATEWAY = "gateway"
PERFORMANCE = "perf"
_DOTTED = frozenset({CLEANUP, LEDGER, TOKENS, CANARY})
"""Channels whose bracketed name holds the event's too."""
RUN = "runId attempt"


@attrs.frozen(kw_only=True)
class Event:
    """One event: where and how loud it is said, its fields, and what it means."""

    channel: str
    name: str
    levels: Collection[Level]
    fields: Sequence[str]
    optional: Sequence[str]
    says: str

    def problem(self, level: Level, fields: Collection[str]) -> str | None:
        """What about an event that was said differs from the catalogue; `None` if nothing does."""
        if level not in self.levels:
            return f"{self.name} is not said as {level.value}"
        missing = set(self.fields) - set(fields)
        unknown = set(fields) - set(self.fields) - set(self.optional)
        if missing or unknown:
            return f"{self.name} lacks {sorted(missing)} and has {sorted(unknown)} beyond it"
        return None


def title(channel: str, name: str) -> str:
    """An event's name as a line of log begins: `[channel] name`, or all of it in brackets."""
    return f"[{channel}.{name}]" if channel in _DOTTED else f"[{channel}] {name}"


def event(
    channel: str, level: str, name: str, fields: str, says: str, *, optional: str = ""
) -> Event:
    """Build one; `level` may name several with `|` between, fields are words."""
    return Event(
        channel=channel,
        name=name,
        levels=frozenset(Level(one) for one in level.split("|")),
        fields=tuple(fields.split()),
        optional=tuple(optional.split()),
        says=says,
    )


def worker(level: str, name: str, fields: str, says: str, *, optional: str = "") -> Event:
    """One of the channel that everything around runs has."""
    return event(WORKER, level, name, fields, says, optional=optional)


def sweep(level: str, name: str, fields: str, says: str) -> Event:
    """One of the liveness sweep."""
    return worker(level, f"detached_runner_liveness_{name}", fields, says)
