"""Reading variables one by one, and refusing what is missing or wrong all at once (C01)."""

import enum
import os
from collections.abc import Mapping
from datetime import timedelta
from typing import TypeVar

from deepline.cli.settings.variables import BY_NAME

Choice = TypeVar("Choice", bound=enum.StrEnum)

_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"0", "false", "no", "off"})
_GUIDE = "docs/operations/settings.md says what they mean"


class SettingsRefused(Exception):
    """The environment is not enough to start with; the message names everything that is wrong."""


def environment() -> Mapping[str, str]:
    """The environment of this process, read here and nowhere else."""
    return os.environ


class Reader:
    """Reads one environment. Answers go on when a value is wrong; `check` refuses in the end."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self._missing: list[str] = []
        self._invalid: list[str] = []

    def text(self, name: str) -> str | None:
        """A value without the white space around it; `None` when unset or blank."""
        assert name in BY_NAME, f"{name} is not in the table of variables"
        return self._values.get(name, "").strip() or None

    def required(self, name: str) -> str:
        """A value that must be there."""
        value = self.text(name)
        if value is None:
            self.missing(name)
            return ""
        return value

    def whole(self, name: str, default: int, *, least: int, most: int) -> int:
        """A whole number within bounds."""
        value = self.text(name)
        if value is None:
            return default
        # Not `int` alone, which takes "1_000" and digits of other scripts.
        if value.isascii() and value.isdigit() and least <= int(value) <= most:
            return int(value)
        self.invalid(name, f"must be a whole number from {least} to {most}")
        return default

    def length(self, name: str, default: timedelta, *, unit: timedelta) -> timedelta:
        """A length of time, counted in `unit`; at least one unit, at most thirty days."""
        most = timedelta(days=30) // unit
        return self.whole(name, default // unit, least=1, most=most) * unit

    def switch(self, name: str, *, default: bool = False) -> bool:
        """A yes or a no."""
        value = (self.text(name) or "").lower()
        if value in _YES or value in _NO:
            return value in _YES
        if value:
            self.invalid(name, "must be yes or no")
        return default

    def choice(self, name: str, default: Choice) -> Choice:
        """One of a few words."""
        value = self.text(name)
        if value is None:
            return default
        kind = type(default)
        try:
            return kind(value.lower())
        except ValueError:
            self.invalid(name, f"must be one of {', '.join(kind)}")
            return default

    def url(self, name: str, value: str | None) -> str | None:
        """Check a value that must be an http address; it is shown nowhere, as it may hold more."""
        if value and not value.startswith(("http://", "https://")):
            self.invalid(name, "must begin with http:// or https://")
        return value

    def missing(self, *names: str) -> None:
        """Note names without a value, each once and in order."""
        self._missing.extend(name for name in names if name not in self._missing)

    def invalid(self, name: str, advice: str) -> None:
        """Note a value that cannot be used. The value is not repeated: it may be a secret."""
        self._invalid.append(f"{name} {advice}")

    def wrong(self, sentence: str) -> None:
        """Note something else that cannot work."""
        self._invalid.append(sentence)

    def check(self) -> None:
        """Raise `SettingsRefused` with everything noted so far, if anything was."""
        said = list(self._invalid)
        if self._missing:
            said.insert(0, f"missing required environment: {', '.join(self._missing)}")
        if said:
            raise SettingsRefused(f"{'; '.join(said)} ({_GUIDE})")
