"""Keeping secrets out of everything a run leaves behind (Q58, F74).

A secret is looked for as it is and as it is commonly written: in JSON, in a `repr`, in a URL and
in base64. Very short values are left alone: hiding them would hide everything.
"""

import base64
import json
import threading
import urllib.parse
from collections.abc import Iterable

HIDDEN = "[secret]"
SHORTEST = 4
SHORTEST_LINE = 8
SHORTEST_IN_VALUES = 8
"""In results and rows, shorter secrets stay: hiding them would spoil what is no secret."""


class Redactor:
    """Replaces known secrets in text. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._needles: tuple[str, ...] = ()

    def learn(self, secrets: Iterable[str]) -> None:
        """Hide these from now on."""
        with self._lock:
            needles = {*self._needles, *(form for secret in secrets for form in _forms(secret))}
            self._needles = tuple(sorted(needles, key=len, reverse=True))

    @property
    def longest(self) -> int:
        """Characters of the longest thing that is hidden."""
        return len(self._needles[0]) if self._needles else 0

    def clean(self, text: str, shortest: int = SHORTEST) -> str:
        """The text without secrets."""
        for needle in self._needles:
            if len(needle) < shortest:
                break
            if needle in text:
                text = text.replace(needle, HIDDEN)
        return text

    def clean_all(self, value: object, shortest: int = SHORTEST) -> object:
        """A plain JSON value whose texts hold no secret of that length or more."""
        if isinstance(value, str):
            return self.clean(value, shortest)
        if isinstance(value, dict):
            return {
                self.clean(key, shortest): self.clean_all(item, shortest)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.clean_all(item, shortest) for item in value]
        return value

    def clean_value(self, value: object) -> object:
        """What a play returned, or a row of it, without its secrets."""
        return self.clean_all(value, SHORTEST_IN_VALUES)


def _forms(secret: str) -> set[str]:
    """The ways in which a secret may stand in a text; those of a long line one by one too."""
    if len(secret) < SHORTEST:
        return set()
    lines = [line.strip() for line in secret.splitlines()] if "\n" in secret else []
    parts = [secret, *(line for line in lines if len(line) >= SHORTEST_LINE)]
    forms = {form for part in parts for form in (part, json.dumps(part)[1:-1], repr(part)[1:-1])}
    raw = secret.encode(errors="replace")
    forms |= {urllib.parse.quote(secret, safe=""), urllib.parse.quote_plus(secret)}
    forms.add(base64.b64encode(raw).decode().rstrip("="))
    return {form for form in forms if len(form) >= SHORTEST}
