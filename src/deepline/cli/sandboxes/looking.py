"""Listing sandboxes by what the store knows of them and by what providers list (F66, C50)."""

from collections.abc import Callable, Mapping, Sequence

import attrs
import trio

from deepline.core.orphan_sweep import OrphanSettings
from deepline.core.orphans import OrphanDecision, OrphanFacts, judge
from deepline.ports.errors import PortError
from deepline.ports.sandbox_provider import OwnedSandbox, SandboxProvider
from deepline.ports.sandboxes import Sandboxes, SandboxQuery, SandboxRecord, Standing

PAGES_MAX = 10_000


@attrs.frozen(kw_only=True)
class Listed:
    """One sandbox that a provider lists, with what the store and the rule say of it."""

    sandbox: OwnedSandbox
    standing: Standing
    decision: OrphanDecision


@attrs.define(eq=False, kw_only=True)
class Looking:
    """Looks; changes nothing. `blind` gathers providers whose list could not be read, with why."""

    sandboxes: Sandboxes
    providers: Mapping[str, SandboxProvider]
    settings: OrphanSettings
    blind: dict[str, str] = attrs.field(init=False, factory=dict[str, str])

    async def records(self, query: SandboxQuery, most: int) -> Sequence[SandboxRecord]:
        """At most so many records, however many pages that takes."""
        found: list[SandboxRecord] = []
        while len(found) < most:
            page = await self.sandboxes.records(attrs.evolve(query, limit=min(500, most)))
            found.extend(page[: most - len(found)])
            if len(page) < min(500, most):
                break
            query = attrs.evolve(query, after=page[-1].operation_key)
        return found

    async def walk(self, tell: Callable[[Listed], None]) -> None:
        """Tell of everything that the providers list, in the order of their lists."""
        our_mark = await self.sandboxes.mark()
        for name in sorted(self.providers):
            after: str | None = None
            for _ in range(PAGES_MAX):
                page = await self._page(name, after)
                if page is None:
                    break
                found, after = page
                standings = await self.sandboxes.standing(found)
                for one, standing in zip(found, standings, strict=True):
                    decision = judge(_facts(one, standing, our_mark), self.settings.patience)
                    tell(Listed(sandbox=one, standing=standing, decision=decision))
                if after is None:
                    break

    async def _page(
        self, name: str, after: str | None
    ) -> tuple[Sequence[OwnedSandbox], str | None] | None:
        with trio.move_on_after(self.settings.page_limit.total_seconds()):
            try:
                page = await self.providers[name].owned(after)
            except PortError as error:
                self.blind[name] = str(error)
                return None
            return page.sandboxes, page.after
        self.blind[name] = "no answer in time"
        return None


def _facts(sandbox: OwnedSandbox, standing: Standing, our_mark: str) -> OrphanFacts:
    return OrphanFacts(
        use=standing.use,
        mark=sandbox.mark,
        our_mark=our_mark,
        age=standing.age,
        ended_for=standing.ended_for,
    )
