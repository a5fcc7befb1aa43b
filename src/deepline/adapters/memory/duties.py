"""Leases of duties in memory."""

from datetime import timedelta

from deepline.adapters.memory.rows import DutyLeaseRow
from deepline.adapters.memory.world import Port
from deepline.ports.duties import DutyAnswer, DutyElsewhere, DutyHeld


class MemoryDuties(Port):
    """One lease a duty, by the store's own time."""

    async def take(self, duty: str, owner: str, *, lease: timedelta) -> DutyAnswer:
        """Take the duty if it is free, its lease has ended, or it is this owner's already."""

        def effect() -> DutyAnswer:
            now, held = self.world.now(), self.world.duty_leases.get(duty)
            if held is not None and held.owner != owner and held.expires_at > now:
                return DutyElsewhere(held.expires_at - now)
            self.world.duty_leases[duty] = DutyLeaseRow(owner, now + lease)
            return DutyHeld()

        return await self._step("duties.take", effect)

    async def renew(self, duty: str, owner: str, *, lease: timedelta) -> bool:
        """Lengthen a lease that is still this owner's."""

        def effect() -> bool:
            held = self.world.duty_leases.get(duty)
            if held is None or held.owner != owner:
                return False
            self.world.duty_leases[duty] = DutyLeaseRow(owner, self.world.now() + lease)
            return True

        return await self._step("duties.renew", effect)

    async def release(self, duty: str, owner: str) -> None:
        """Let the duty go if it is this owner's."""

        def effect() -> None:
            held = self.world.duty_leases.get(duty)
            if held is not None and held.owner == owner:
                del self.world.duty_leases[duty]

        await self._step("duties.release", effect)
