"""What a runner is told by its environment (C34)."""

import dataclasses
import os
from collections.abc import Mapping, MutableMapping

TOKEN = "DEEPLINE_EXECUTOR_TOKEN"  # noqa: S105 - the name of the variable
NAMES = ("DEEPLINE_API_URL", TOKEN, "DEEPLINE_RUN_ID", "DEEPLINE_ATTEMPT")


class SettingsMissing(Exception):
    """The runner cannot know whom it works for; the message names every variable."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Whom the runner works for, and the token that proves it."""

    api_url: str
    token: str = dataclasses.field(repr=False)
    run_id: str
    attempt: int
    trace_parent: str | None = None
    """The place in a trace that calls to the gateway are made from; passed on as it is."""


def take_settings(environment: MutableMapping[str, str] = os.environ) -> Settings:
    """Read the settings, and take the token away so that the play does not inherit it.

    Raises `SettingsMissing`.
    """
    settings = _read(environment)
    del environment[TOKEN]
    return settings


def _read(environment: Mapping[str, str]) -> Settings:
    missing = [name for name in NAMES if not environment.get(name)]
    if missing:
        raise SettingsMissing(f"set in the environment: {', '.join(missing)}")
    api_url, token, run_id, attempt = (environment[name] for name in NAMES)
    if not api_url.startswith(("http://", "https://")):
        raise SettingsMissing("set DEEPLINE_API_URL to an http or https address")
    if not (attempt.isascii() and attempt.isdigit()):
        raise SettingsMissing("set DEEPLINE_ATTEMPT to a whole number")
    return Settings(
        api_url=api_url,
        token=token,
        run_id=run_id,
        attempt=int(attempt),
        trace_parent=environment.get("TRACEPARENT") or None,
    )
