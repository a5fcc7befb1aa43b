"""Turning answers of a store into text that is the same for every store."""

import enum
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import cast

import attrs

from deepline.core.model.heartbeat import HeartbeatIdentity
from deepline.core.model.identity import LeaseToken
from deepline.core.model.launch import Launch

_IDS = frozenset(
    {
        "engine_run_id",
        "event_id",
        "job_id",
        "key",
        "mark",
        "name",
        "operation_token",
        "sandbox_name",
        "task_id",
        "token",
    }
)
_LEFT_OUT = frozenset({"payload", "created_at", "updated_at"})


@attrs.define(eq=False)
class Words:
    """Names ids by the order in which they were first seen."""

    seen: dict[str, str] = attrs.field(factory=dict[str, str])

    def tell(self, value: object) -> str:
        """Say one answer."""
        if isinstance(value, LeaseToken):
            return self._id(value.value)
        if isinstance(value, HeartbeatIdentity):
            return "never" if value.value is None else self._id(value.value)
        if isinstance(value, Launch):
            return value.run_id
        if isinstance(value, datetime):
            return "then"
        if isinstance(value, timedelta):
            return "while"
        if isinstance(value, enum.Enum):
            return str(value.value)
        kind = type(value)
        if not attrs.has(kind):
            return self._tell_plain(value)
        told = [
            self._tell_field(field.name, getattr(value, field.name))
            for field in attrs.fields(kind)
            if field.name not in _LEFT_OUT
        ]
        return f"{kind.__name__}({', '.join(told)})"

    def _tell_field(self, name: str, value: object) -> str:
        if name in _IDS and isinstance(value, str):
            return f"{name}={self._id(value)}"
        return f"{name}={self.tell(value)}"

    def _tell_plain(self, value: object) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, Mapping):
            mapping = cast("Mapping[object, object]", value)
            items = sorted((str(key), self.tell(item)) for key, item in mapping.items())
            return "{" + ", ".join(f"{key}: {item}" for key, item in items) + "}"
        if isinstance(value, Sequence):
            sequence = cast("Sequence[object]", value)
            return "[" + ", ".join(self.tell(item) for item in sequence) + "]"
        return repr(value)

    def _id(self, value: str) -> str:
        return self.seen.setdefault(value, f"#{len(self.seen) + 1}")
