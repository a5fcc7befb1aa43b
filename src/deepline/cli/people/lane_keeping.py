"""What operators do with lanes: look, drain, hand over, remove (C56, C57, F53 to F55)."""

import difflib
from collections.abc import Sequence
from datetime import timedelta

import attrs

from deepline.cli.failures import CommandFailed
from deepline.cli.people.lane_lists import holds, lane_json, lane_table, name_of
from deepline.core.lane_standing import Kept, Standing, may_prune, own_workers, standing_of
from deepline.core.limits import Limits
from deepline.core.model.lane import LaneState
from deepline.ports.lanes import Lanes
from deepline.ports.wire import encode_json


@attrs.frozen
class LaneKeeping:
    """The commands below `deepline lanes`, over a registry; each prints what came of it."""

    lanes: Lanes
    limits: Limits
    json: bool = False

    async def list(self, *, with_retired: bool) -> None:
        """Show what each lane holds and who serves it."""
        states = await self.lanes.all()
        lost_after = self.limits.lane_worker_lost
        if self.json:
            for state in states:
                print(encode_json(lane_json(state, lost_after=lost_after)))
            return
        for line in lane_table(states, lost_after=lost_after, with_retired=with_retired):
            print(line)

    async def drain(self, release: str, *, undo: bool) -> None:
        """Have the workers of a release leave, and others take what it holds; or not any more."""
        state = await self._find(release)
        await self.lanes.drain(state.lane, draining=not undo)
        if undo:
            text = "is no longer draining; workers that were told to leave still do"
        elif own := own_workers(state, self.limits.lane_worker_lost):
            text = (
                f"is draining and holds {holds(state)}: {_counted(len(own), 'worker')} of its own "
                "will end with code 0 once that is done or others have adopted it"
            )
        else:
            text = f"is draining and holds {holds(state)}; {self._when_adopted()}"
        await self._tell(state, text)

    async def adopt(self, release: str) -> None:
        """Let workers of other releases take a lane at once. Refused where its own serve it."""
        state = await self._find(release)
        name = name_of(state)
        standing = standing_of(state, self.limits.lane_worker_lost)
        if standing is Standing.SERVED:
            [first, *_] = own_workers(state, self.limits.lane_worker_lost)
            raise CommandFailed(
                f"{name} has workers of its own, such as {first.worker}; to have them leave and "
                f"others take over: `deepline lanes drain {name}`"
            )
        if standing is Standing.RETIRED:
            await self._tell(state, "holds nothing, so there is nothing to adopt")
            return
        await self.lanes.hand_over(state.lane)
        await self._tell(state, f"is handed over and holds {holds(state)}; {self._when_adopted()}")

    async def prune(self, releases: Sequence[str], *, unused_for: timedelta, dry_run: bool) -> None:
        """Remove lanes that are over, all or those named; a named one that stays is a refusal."""
        states = await self.lanes.all()
        chosen = [_named(states, release) for release in releases] or states
        kept: list[str] = []
        pruned = 0
        for state in chosen:
            reason = await self._prune(state, unused_for, dry_run=dry_run)
            if reason is None:
                pruned += 1
                await self._tell(state, "would be removed" if dry_run else "is removed")
            elif releases:
                kept.append(f"{name_of(state)} stays, since {reason}")
        if kept:
            raise CommandFailed("; ".join(kept))
        if not pruned and not self.json:
            print("nothing to remove: `deepline lanes list --all` shows what there is")

    async def _prune(self, state: LaneState, unused_for: timedelta, *, dry_run: bool) -> str | None:
        """Remove one lane; why it stays, or `None`."""
        lost_after = self.limits.lane_worker_lost
        decision = may_prune(state, unused_for=unused_for, lost_after=lost_after)
        if isinstance(decision, Kept):
            return decision.reason
        if dry_run or await self.lanes.prune(state.lane, lost_after=lost_after):
            return None
        return "work or a worker came back to it meanwhile"

    async def _find(self, release: str) -> LaneState:
        return _named(await self.lanes.all(), release)

    async def _tell(self, state: LaneState, text: str) -> None:
        if not self.json:
            print(f"{name_of(state)} {text}")
            return
        now = await self.lanes.read(state.lane) or state
        shown = lane_json(now, lost_after=self.limits.lane_worker_lost)
        print(encode_json({**shown, "said": text}))

    def _when_adopted(self) -> str:
        seconds = self.limits.adoption_interval.total_seconds()
        return (
            f"workers of other releases take it within {seconds:.0f} s, unless "
            "DEEPLINE_LANE_ADOPTION is off there"
        )


def _named(states: Sequence[LaneState], release: str) -> LaneState:
    """The lane of this release, or of this name. Raises `CommandFailed`."""
    for state in states:
        if release in (state.release_id, state.lane):
            return state
    near = difflib.get_close_matches(release, [name_of(state) for state in states], n=1)
    hint = f"did you mean {near[0]}?" if near else "`deepline lanes list --all` shows them"
    raise CommandFailed(f"there is no release or lane {release}; {hint}")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
