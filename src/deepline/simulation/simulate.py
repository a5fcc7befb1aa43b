"""One seed, one world, one history: the library form of the simulator (TRIO 4.5).

A world has workers and a controller as processes, a store, a provider of sandboxes, runners in
them, and people who submit plays. For a while everything that the seed's mixture holds goes
wrong; then the world is healed, and everything that was promised must come true in bounded time.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import attrs
import trio

from deepline.adapters.memory import World
from deepline.core import placement
from deepline.core.limits import Limits
from deepline.core.model.identity import Lane, ReleaseId
from deepline.core.queues import lane_of_release
from deepline.simulation import themes
from deepline.simulation.attached import ABSENT_RELEASE, SECOND_RELEASE, Play, draw_play
from deepline.simulation.bounds import draw_limits
from deepline.simulation.clock import ProcessClock, VirtualClock
from deepline.simulation.dice import Dice
from deepline.simulation.healing import Healing
from deepline.simulation.history import History
from deepline.simulation.invariants import INVARIANTS
from deepline.simulation.isolation import sealed, shut_off
from deepline.simulation.lanes import Operator
from deepline.simulation.left_lanes import LeftLanes
from deepline.simulation.life import Life
from deepline.simulation.mixture import Mixture
from deepline.simulation.observer import Observer
from deepline.simulation.people import Person
from deepline.simulation.processes import Process, Role
from deepline.simulation.roles import SPECIALIST, Roles
from deepline.simulation.rules import Invariant, Scene
from deepline.simulation.sandboxes import PROVIDER, ProviderFactory, Site, memory_provider
from deepline.simulation.scheduling import Strategy, make_schedule, scheduled
from deepline.simulation.stage import Stage
from deepline.simulation.starting import Starting
from deepline.simulation.trouble import ABSENCE, Trouble, absence, plan, retirement

SECOND_WORKER = "w2"
ABSENT_WORKER = "late"
"""The workers of releases that have lanes of their own."""


@attrs.frozen(kw_only=True)
class WorldOptions:
    """What a world is made of; the seed draws the rest, and what is `None` here.

    `troubled_s` is how long things go wrong. `provider` makes each process's view of the provider
    under test. `only` names the faults that may strike, `left_out` the plays that nobody submits;
    both are for shrinking.
    """

    plays: int = 5
    workers: int = 2
    controllers: int | None = None
    troubled_s: float | None = None
    limits: Limits | None = None
    mixture: Mixture | None = None
    strategy: Strategy | None = None
    provider: ProviderFactory = memory_provider
    invariants: tuple[Invariant, ...] = INVARIANTS
    only: frozenset[str] | None = None
    left_out: frozenset[str] = frozenset()


def simulate(options: WorldOptions, seed: int) -> History:
    """Run one world to its end; the same seed gives the same history, word for word.

    Never raises for what goes wrong in the world: that is a violation in the history.
    """
    stage = make_stage(options, Dice(seed))
    with sealed(), scheduled(stage.schedule):
        trio.run(_live, options, stage, clock=stage.clock)
    stage.history.ended_s = stage.now_s
    return stage.history


def make_stage(options: WorldOptions, dice: Dice) -> Stage:
    """Set the stage of one world, with nobody on it yet."""
    mixture = options.mixture or themes.draw(dice)
    limits = options.limits or draw_limits(dice)
    clock = VirtualClock()
    return Stage(
        dice=dice,
        mixture=mixture,
        limits=limits,
        clock=clock,
        world=World(
            clock=ProcessClock(clock, drift=mixture.store_drift),
            chance=dice.chance("store"),
            limits=limits,
        ),
        history=History(dice.seed),
        schedule=make_schedule(options.strategy or mixture.strategy, dice.roll("schedule")),
        only=options.only,
    )


async def _live(options: WorldOptions, stage: Stage) -> None:
    with shut_off(lambda: stage.broken("X03", "nothing is due any more")):
        await _live_through(options, stage)


async def _live_through(options: WorldOptions, stage: Stage) -> None:
    site = Site()
    scene = Scene(
        stage=stage,
        site=site,
        placement=placement_of(options),
        lanes=own_lanes(options, stage.mixture),
        sandbox_limit=sandbox_limit_of(stage.dice, stage.mixture),
    )
    observer = Observer(scene, options.invariants)
    stage.world.watch = observer.step
    stage.listeners.append(observer.event)
    with stage.over:
        async with trio.open_nursery() as nursery:
            inhabit(options, stage, site, nursery, observer)
    if stage.history.held:
        observer.finish()


def inhabit(
    options: WorldOptions, stage: Stage, site: Site, nursery: trio.Nursery, observer: Observer
) -> None:
    """Start everybody: processes, people, and the troubles that come at their own times."""
    starting = Starting(stage=stage, site=site, nursery=nursery)
    site.gone = starting.gone
    roles = Roles(
        stage=stage,
        site=site,
        starting=starting,
        provider=options.provider,
        sandbox_limit=observer.scene.sandbox_limit,
    )
    until_s = options.troubled_s or stage.mixture.troubled_s
    processes = make_processes(options, stage, roles)
    plays = draw_plays(options, stage, until_s)
    for process in processes.values():
        nursery.start_soon(process.run)
    for play in plays:
        life = person_named(f"owner {play.run_id}", stage)
        nursery.start_soon(Person(stage=stage, play=play, life=life).submit)
    operator = Operator(
        stage=stage,
        life=person_named("operator", stage),
        processes=processes,
        nursery=nursery,
    )
    if stage.mixture.releases > 1:
        stage.listeners.append(operator.hear)
        nursery.start_soon(operator.look_after)
    troubles = plan(stage.dice, stage.mixture, stage.limits, struck_ones(processes), until_s)
    troubles += [one for one in lane_troubles(stage, until_s) if one.outside in processes]
    for trouble in troubles:
        nursery.start_soon(befall, stage, processes, operator, trouble)
    healing = Healing(
        stage=stage,
        site=site,
        processes=processes,
        plays=plays,
        observer=observer,
        left_lanes=LeftLanes(stage=stage),
    )
    nursery.start_soon(healing.heal_at, until_s)


def person_named(name: str, stage: Stage) -> Life:
    """The life of one who is not a process: nothing kills it."""
    chance = stage.dice.chance(name.removeprefix("owner "))
    return Life(name=name, clock=stage.store_clock, chance=chance, mortal=False)


def struck_ones(processes: Mapping[str, Process]) -> list[str]:
    """The processes that crash, pause and stop, those that are absent from the beginning aside."""
    return [name for name in processes if name != ABSENT_WORKER]


def lane_troubles(stage: Stage, until_s: float) -> Iterator[Trouble]:
    """Who leaves its lane, and who is not there yet, in a world of several releases."""
    dice, mixture = stage.dice, stage.mixture
    if mixture.releases > 1 and mixture.retires_lane:
        second = lane_of_release(ReleaseId(SECOND_RELEASE))
        yield retirement(dice, mixture, second, SECOND_WORKER, until_s)
    if has_absent_release(mixture):
        absent = lane_of_release(ReleaseId(ABSENT_RELEASE))
        yield absence(dice, mixture, absent, ABSENT_WORKER)


def has_absent_release(mixture: Mixture) -> bool:
    """Do plays ride a release whose workers are not there from the beginning?"""
    return mixture.releases > 1 and mixture.absent_release


def make_processes(options: WorldOptions, stage: Stage, roles: Roles) -> dict[str, Process]:
    """The workers and controllers by name; the first worker can run every policy."""
    programs: dict[str, Role] = {
        f"w{number}": partial(
            roles.worker,
            policies=SPECIALIST if number == 1 else placement.POLICIES,
            release_id=release_of(number, stage.mixture),
        )
        for number in range(1, options.workers + 1)
    }
    if has_absent_release(stage.mixture):
        programs[ABSENT_WORKER] = partial(
            roles.worker, policies=placement.POLICIES, release_id=ReleaseId(ABSENT_RELEASE)
        )
    controllers = options.controllers or stage.mixture.controllers
    programs |= {f"c{number}": roles.controller for number in range(1, controllers + 1)}
    processes = {
        name: Process(stage=stage, name=name, role=role) for name, role in programs.items()
    }
    if has_absent_release(stage.mixture) and (stage.only is None or ABSENCE in stage.only):
        processes[ABSENT_WORKER].be_absent()
    return processes


def release_of(number: int, mixture: Mixture) -> ReleaseId | None:
    """Which release a worker serves: the second one has the lane of its own, where there is one."""
    return ReleaseId(SECOND_RELEASE) if number == 2 and mixture.releases > 1 else None


def sandbox_limit_of(dice: Dice, mixture: Mixture) -> int | None:
    """Limit the sandboxes held in some of the worlds in which every delete is answered.

    A delete whose answer is lost leaves a not-found that proves nothing (I40), so its place stays
    taken for as long as nobody decides otherwise; with a limit such a world comes to a standstill.
    """
    struck = mixture.strikes_calls or mixture.store_outages or mixture.cuts
    denied = mixture.endless_deletes or mixture.ghosts
    died = mixture.crashes or mixture.pauses or mixture.stops
    calm = not (struck or denied or died)
    return dice.pick("sandbox limit", (None, 2, 2)) if calm else None


def placement_of(options: WorldOptions) -> dict[str, frozenset[str]]:
    """What each worker can run."""
    anything = frozenset(placement.runnable_keys(PROVIDER, placement.POLICIES))
    special = frozenset(placement.runnable_keys(PROVIDER, SPECIALIST))
    workers = {
        f"w{number}": special if number == 1 else anything
        for number in range(1, options.workers + 1)
    }
    return workers | {ABSENT_WORKER: anything}


def own_lanes(options: WorldOptions, mixture: Mixture) -> dict[str, Lane]:
    """The lane of each worker's own."""
    releases = {
        f"w{number}": release_of(number, mixture) for number in range(1, options.workers + 1)
    }
    releases[ABSENT_WORKER] = ReleaseId(ABSENT_RELEASE)
    return {name: lane_of_release(release) for name, release in releases.items()}


def draw_plays(options: WorldOptions, stage: Stage, until_s: float) -> list[Play]:
    """Draw what people submit."""
    burst = stage.dice.share("burst") < 0.3
    plays = [
        draw_play(stage.dice, number, stage.mixture, burst=burst, until_s=until_s)
        for number in range(1, options.plays + 1)
    ]
    return [play for play in plays if play.run_id not in options.left_out]


async def befall(
    stage: Stage, processes: dict[str, Process], operator: Operator, trouble: Trouble
) -> None:
    """Let one piece of trouble come at its time."""
    await stage.clock.nap_until(trouble.at_s)
    if not stage.strikes(trouble.name):
        return
    words = f"{trouble.name}: {trouble.target} for {trouble.lasts_s:.3f} s"
    stage.note("trouble", words, actor="trouble")
    match trouble.kind:
        case "crash":
            processes[trouble.target].crash(trouble.lasts_s)
        case "pause":
            processes[trouble.target].pause(trouble.lasts_s)
        case "stop":
            processes[trouble.target].stop(trouble.lasts_s)
        case "lost lines":
            stage.world.drop_listeners()
        case "cut":
            stage.cut[trouble.target, trouble.outside] = trouble.cut
            await stage.clock.nap(trouble.lasts_s)
            stage.cut.pop((trouble.target, trouble.outside), None)
            stage.note("trouble over", trouble.name, actor="trouble")
        case "retire lane" | "absent release":
            await operator.befall(trouble)
        case "token flapping":
            over_s = stage.now_s + trouble.lasts_s
            while stage.now_s < over_s:
                await be_away(stage, trouble.target, trouble.flap_s)
                await stage.clock.nap(trouble.flap_s)
        case _:
            await be_away(stage, trouble.target, trouble.lasts_s)
            stage.note("trouble over", trouble.name, actor="trouble")


async def be_away(stage: Stage, outside: str, for_s: float) -> None:
    """Take an outside away for a while; several may do so at once."""
    stage.away[outside] += 1
    await stage.clock.nap(for_s)
    stage.away[outside] -= 1
