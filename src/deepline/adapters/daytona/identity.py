"""Whose the API key is: asked before anything is done under it (C48, Q39)."""

import trio

from deepline.adapters.daytona.failures import DaytonaFailure, problem_of_asking
from deepline.adapters.daytona.sdk import DaytonaSdk
from deepline.ports.errors import Refused


class Identity:
    """The organisation of the key; `expected` is what it must be, `None` for any."""

    def __init__(self, sdk: DaytonaSdk, expected: str | None) -> None:
        self._sdk = sdk
        self._expected = expected
        self._known: str | None = None
        self._asking = trio.Lock()

    async def organization(self) -> str:
        """The organisation, asked for once. Raises port errors; `Refused` when it is another."""
        async with self._asking:
            if self._known is None:
                try:
                    self._known = self._checked(await self._sdk.organization())
                except DaytonaFailure as failure:
                    raise problem_of_asking(failure) from failure
            return self._known

    async def holds(self) -> bool:
        """Ask again: True while it is the same. Raises `DaytonaFailure` when nobody answers."""
        found = await self._sdk.organization()
        return found is None or found == self._known

    def _checked(self, found: str | None) -> str:
        if found is None and self._expected is None:
            raise Refused(
                "organization_unknown",
                "Daytona does not say whose the key is; set DAYTONA_ORGANIZATION_ID",
            )
        if found is not None and self._expected is not None and found != self._expected:
            raise Refused(
                "wrong_organization",
                f"the key belongs to the organisation {found}, but DAYTONA_ORGANIZATION_ID says "
                f"{self._expected}; set the right one of the two",
            )
        return found or self._expected or ""
