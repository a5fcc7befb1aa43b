"""When "not found" may be believed: Daytona says it also of what it only hides (#4632, #2095).

A look-up answers 404 for what another organisation owns, for what is in error and meant to go, for
ten seconds after a look-up that came too early, and a proxy answers it for reasons of its own. So a
second source is asked, the listing with what is hidden, and the key's organisation once more.
"""

import attrs

from deepline.adapters.daytona.failures import DaytonaFailure
from deepline.adapters.daytona.identity import Identity
from deepline.adapters.daytona.sdk import DaytonaSdk, SeenSandbox


@attrs.frozen(eq=False)
class Absence:
    """Confirms that a sandbox of our organisation is not there."""

    sdk: DaytonaSdk
    identity: Identity

    async def confirmed(self, sandbox_id: str, missed: DaytonaFailure) -> bool:
        """True when the API itself missed it, no listing shows it, and the key is still ours.

        Raises `DaytonaFailure` when the second source does not answer.
        """
        if not missed.authoritative or await self.listed(sandbox_id) is not None:
            return False
        return await self.identity.holds()

    async def listed(self, sandbox_id: str) -> SeenSandbox | None:
        """The sandbox as a listing shows it, hidden ones included."""
        listed, _ = await self.sdk.listed(sandbox_id=sandbox_id, errored_deleted=True)
        return next((one for one in listed if one.id == sandbox_id), None)
