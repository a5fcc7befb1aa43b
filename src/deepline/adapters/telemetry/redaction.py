"""What may not stand in a log line, and what stands there instead (Q58).

Three nets, since each has holes: fields whose name says that they hold a secret, text of a shape
that only secrets have, and the secrets that this process was given, wherever they turn up.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from deepline.core.model.json_value import Json
from deepline.core.secret_shapes import MASK, masked

TEXT_MAX = 4_000
_DEPTH_MAX = 6
_ITEMS_MAX = 100
_KNOWN_MIN = 8
"""Shorter secrets are not looked for: they would blank out ordinary words."""

_SECRET_NAME = re.compile(
    r"token|secret|passw|authori[sz]ation|credential|cookie|api_?key|signing_?key|private_?key"
    r"|dsn|connection_?string",
    re.IGNORECASE,
)


class Redactor:
    """Masks secrets in the fields of a log line. `known` are secrets of this process."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known: tuple[str, ...] = ()
        self.learn(known)

    def learn(self, secrets: Iterable[str]) -> None:
        """Look for these secrets too from now on."""
        found = {secret for secret in secrets if len(secret) >= _KNOWN_MIN}
        # The longest first, so that no secret survives as the rest around a shorter one.
        self._known = tuple(sorted({*self._known, *found}, key=len, reverse=True))

    def fields(self, fields: Mapping[str, Json]) -> dict[str, Json]:
        """The fields as they may be shown, bounded in size and depth."""
        return {name: self._value(name, value, 0) for name, value in fields.items()}

    def text(self, text: str) -> str:
        """A text as it may be shown."""
        for secret in self._known:
            text = text.replace(secret, MASK)
        text = masked(text)
        return text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "…"

    def _value(self, name: str, value: Json, depth: int) -> Json:
        if _SECRET_NAME.search(name) and isinstance(value, str | Mapping | Sequence):
            return MASK
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if depth >= _DEPTH_MAX:
            return "…"
        if isinstance(value, Mapping):
            kept = list(value.items())[:_ITEMS_MAX]
            return {self.text(key): self._value(key, item, depth + 1) for key, item in kept}
        return [self._value("", item, depth + 1) for item in value[:_ITEMS_MAX]]
