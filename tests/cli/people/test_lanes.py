"""`deepline lanes` over a registry in memory: what it shows, does, and refuses in words."""

import json
from collections.abc import Sequence
from datetime import timedelta

import attrs
import pytest

from deepline.adapters.memory import MemoryPorts, ShiftedClock, TrioTimeClock, World, open_ports
from deepline.cli.failures import CommandFailed
from deepline.cli.people.lane_keeping import LaneKeeping
from deepline.core.limits import Limits
from deepline.core.model.identity import Lane, ReleaseId
from deepline.core.queues import lane_of_release
from deepline.ports.lanes import LaneBeat, ServedLane
from tests.runtime.worlds import launch_of, submission_of

OLD, NEW = lane_of_release(ReleaseId("2026-04")), lane_of_release(ReleaseId("2026-05"))
WEEK = timedelta(days=7)
DAY = timedelta(days=1)


@attrs.define(eq=False)
class Desk:
    """A registry with two releases, the older of which holds two runs."""

    capsys: pytest.CaptureFixture[str]
    limits: Limits = attrs.field(factory=Limits)
    clock: ShiftedClock = attrs.field(factory=lambda: ShiftedClock(TrioTimeClock()))
    ports: MemoryPorts = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Open the ports."""
        self.ports = open_ports(World(clock=self.clock))

    def later(self, length: timedelta) -> None:
        """Let time pass."""
        self.clock.advance(length)

    @property
    def keeping(self) -> LaneKeeping:
        """The commands."""
        return LaneKeeping(self.ports.lanes, self.limits)

    @property
    def programs(self) -> LaneKeeping:
        """The commands with --json."""
        return attrs.evolve(self.keeping, json=True)

    async def beat(self, worker: str, *served: ServedLane, release: str = "2026-05") -> None:
        """Have a worker say what it serves."""
        beat = LaneBeat(worker=worker, release_id=ReleaseId(release), served=served)
        await self.ports.lanes.beat(beat)

    def lines(self) -> Sequence[str]:
        """What was printed since."""
        return self.capsys.readouterr().out.splitlines()

    def documents(self) -> list[dict[str, object]]:
        """The same, for programs."""
        return [json.loads(line) for line in self.lines()]


@pytest.fixture
async def desk(capsys: pytest.CaptureFixture[str]) -> Desk:
    """Nobody serves the older release; one worker serves the newer."""
    desk = Desk(capsys)
    await desk.ports.admission.ensure_lane(OLD, "2026-04")
    launches = [launch_of(run_id, release="2026-04") for run_id in ("r1", "r2")]
    await desk.ports.admission.submit([submission_of(one, desk.limits) for one in launches])
    await desk.ports.admission.ensure_lane(NEW, "2026-05")
    await desk.beat("w1", ServedLane(NEW))
    desk.later(timedelta(seconds=7))
    return desk


async def test_the_list_tells_who_serves_what(desk: Desk) -> None:
    """Each release with what it holds; below, the runs that nobody serves and what to do."""
    await desk.keeping.list(with_retired=False)

    head, old, new, blank, stranded, advice = desk.lines()
    assert head.split() == [
        *("RELEASE", "STANDING", "QUEUED", "RUNNING", "PARKED"),
        *("LAST", "SEEN", "SERVED", "BY"),
    ]
    assert old.split() == ["2026-04", "stranded", "2", "0", "0", "never"]
    assert new.split() == ["2026-05", "served", "0", "0", "0", "7", "s", "ago", "w1"]
    assert (blank, stranded) == ("", "2 runs of 2026-04 are stranded: nobody serves its lane.")
    assert "deepline lanes adopt 2026-04" in advice


async def test_retired_releases_are_shown_when_asked_for(desk: Desk) -> None:
    """Otherwise their number is."""
    desk.later(DAY)
    await desk.keeping.list(with_retired=False)
    assert "1 more hold nothing" in "\n".join(desk.lines())

    await desk.keeping.list(with_retired=True)
    assert "retired" in "\n".join(desk.lines())


async def test_an_adopted_release_names_its_adopters(desk: Desk) -> None:
    """And of which release they are; of many only the newest are named."""
    for number in range(5):
        served = (ServedLane(NEW), ServedLane(OLD, adopted=True))
        await desk.beat(f"w{number}", *served)
    await desk.keeping.list(with_retired=False)

    old = desk.lines()[1]
    assert "adopted" in old
    assert "w4 (of 2026-05), w3 (of 2026-05), w2 (of 2026-05), 2 more" in old


async def test_programs_get_one_object_a_lane(desk: Desk) -> None:
    """With everything the table says, and instants as text."""
    await desk.programs.list(with_retired=False)

    old, new = desk.documents()
    assert {name: old[name] for name in ("releaseId", "lane", "standing", "stranded")} == {
        "releaseId": "2026-04",
        "lane": OLD,
        "standing": "stranded",
        "stranded": 2,
    }
    workers = new["workers"]
    assert isinstance(workers, list)
    assert [(one["worker"], one["present"]) for one in workers] == [("w1", True)]


async def test_an_empty_registry(capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to show before anything started."""
    await Desk(capsys).keeping.list(with_retired=True)

    assert "no lanes" in capsys.readouterr().out


async def test_draining_says_what_will_happen(desk: Desk) -> None:
    """To the release's own workers, or to what it holds where it has none."""
    await desk.keeping.drain("2026-05", undo=False)
    await desk.keeping.drain("2026-04", undo=False)
    own, none = desk.lines()
    assert "1 worker of its own will end with code 0" in own
    assert "holds 2 queued, 0 running, 0 parked; workers of other releases" in none
    marked = [state.draining for state in await desk.ports.lanes.all()]

    await desk.programs.drain("2026-05", undo=True)
    [said] = desk.documents()
    assert marked == [True, True]
    assert (said["draining"], said["standing"]) == (False, "served")


async def test_handing_a_release_over(desk: Desk) -> None:
    """Only one that its own workers do not serve, and that holds something."""
    await desk.keeping.adopt("2026-04")
    assert "is handed over and holds 2 queued" in desk.lines()[0]
    assert [one.handed_over for one in await desk.ports.lanes.all()] == [True, False]

    with pytest.raises(CommandFailed, match=r"such as w1.*deepline lanes drain 2026-05"):
        await desk.keeping.adopt("2026-05")

    desk.later(DAY)
    await desk.keeping.adopt(NEW)
    assert "nothing to adopt" in desk.lines()[0]


async def test_an_unknown_release_is_told_with_what_is_near(desk: Desk) -> None:
    """A typo finds its way."""
    with pytest.raises(CommandFailed, match="did you mean 2026-04"):
        await desk.keeping.drain("2026-4", undo=False)
    with pytest.raises(CommandFailed, match="lanes list --all"):
        await desk.keeping.adopt("zzz")


async def test_pruning_removes_what_is_over(desk: Desk) -> None:
    """After a dry run that only says so; what is in use stays, and says why when it was named."""
    await desk.keeping.prune((), unused_for=WEEK, dry_run=False)
    assert "nothing to remove" in desk.lines()[0]
    with pytest.raises(CommandFailed, match="2026-04 stays, since it is stranded"):
        await desk.keeping.prune(("2026-04",), unused_for=WEEK, dry_run=False)

    desk.later(8 * DAY)
    await desk.keeping.prune((), unused_for=WEEK, dry_run=True)
    assert desk.lines() == ["2026-05 would be removed"]
    await desk.programs.prune(("2026-05",), unused_for=WEEK, dry_run=False)
    [said] = desk.documents()

    assert said["said"] == "is removed"
    assert [state.lane for state in await desk.ports.lanes.all()] == [OLD]


async def test_what_came_back_meanwhile_is_not_pruned(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registry has the last word."""

    async def refuse(lane: Lane, *, lost_after: timedelta) -> bool:
        return False

    desk.later(8 * DAY)
    monkeypatch.setattr(desk.ports.lanes, "prune", refuse)
    with pytest.raises(CommandFailed, match="came back to it meanwhile"):
        await desk.keeping.prune(("2026-05",), unused_for=WEEK, dry_run=False)
