"""What the sweep over silent runners may do, and how much of it (I32–I39, I53, C42, C43, L09).

Watches: each pass as it begins, each read, each settlement, and every verdict as it is stored.
"""

import math

from deepline.core.model.attempt import AttemptStatus
from deepline.core.model.identity import AttemptKey
from deepline.core.model.suspension import DetachedSuspension
from deepline.core.silence import heartbeat_timeout
from deepline.core.sweep import SweepMode
from deepline.simulation.bounds import DUTY_LEASE
from deepline.simulation.history import Event
from deepline.simulation.rules import Invariant, Moment, Scene, Step, invariant
from deepline.simulation.sweep_account import SweepAccount

_ROUNDING_S = 0.01


def _of(event: Event, scene: Scene) -> SweepAccount:
    return scene.stage.sweeps[int(event.what.rpartition("-")[2])]


def _overlaps(event: Event, _: Scene) -> str | None:
    return f"{event.actor} settles two runs at once ({event.what})"


def _alone(event: Event, scene: Scene) -> str | None:
    """One that is being cut in this very instant counts as over."""
    mine = _of(event, scene)
    for other in scene.stage.sweeps:
        is_over = other.over_s is not None or scene.stage.is_over
        if other is not mine and not is_over and other.passes:
            return f"{mine.owner} sweeps while {other.owner} does"
    return None


def _settles_in_time(event: Event, scene: Scene) -> str | None:
    account = _of(event, scene)
    budget_s = account.settings.pass_budget.total_seconds()
    late_s = event.at_s - account.passes[-1] - budget_s
    return f"settled {late_s:.3f} s after its pass had ended" if late_s > _ROUNDING_S else None


def _few_reads(event: Event, scene: Scene) -> str | None:
    account, settings = _of(event, scene), _of(event, scene).settings
    deadline_s = settings.read_deadline.total_seconds()
    holding = [began for began in account.reads.values() if event.at_s - began < deadline_s]
    if len(holding) > settings.reads_per_provider:
        return f"{len(holding)} reads hold a slot"
    most = settings.abandoned_max + settings.reads_per_provider - 1
    if len(account.reads) > most:
        return f"{len(account.reads)} reads have not ended, {most} may"
    return None


def _wrote(event: Event, _: Scene) -> str | None:
    return f"{event.what} was called by a sweep that only observes"


def _read_again(event: Event, scene: Scene) -> str | None:
    account, key = _of(event, scene), ("read", event.what, event.run, event.attempt)
    before_s = scene.memory.get(key)
    scene.memory[key] = event.at_s
    recheck_s = account.settings.recheck.total_seconds()
    if isinstance(before_s, float) and event.at_s - before_s < recheck_s:
        return f"the sandbox of {event.run} was read again after {event.at_s - before_s:.3f} s"
    return None


def _few_marks(event: Event, scene: Scene) -> str | None:
    account, settings = _of(event, scene), _of(event, scene).settings
    most = settings.page * (math.ceil(settings.recheck / settings.interval) + 1)
    return f"{account.marks} sandboxes are marked, {most} may" if account.marks > most else None


def _everyone_has_a_turn(event: Event, scene: Scene) -> str | None:
    """Counts passes that got through their page; where reads still run they may not."""
    account = _of(event, scene)
    if account.reads:
        account.waiting.clear()
        return None
    silent = _silent(scene)
    account.waiting = {
        key: account.waiting.get(key, -1) + 1
        for key in silent
        if not _was_read_lately(account, key, event.at_s)
    }
    most = math.ceil(len(silent) / account.settings.page) + 3
    for key, passes in account.waiting.items():
        if passes > most:
            return f"{key.run_id} has been silent for {passes} passes and was never looked at"
    return None


def _was_read_lately(account: SweepAccount, key: AttemptKey, now_s: float) -> bool:
    read_s = account.seen.get(key)
    return read_s is not None and now_s - read_s < account.settings.recheck.total_seconds()


def _silent(scene: Scene) -> list[AttemptKey]:
    """Everybody whom a sweep should look at, found without its query."""
    now, limits = scene.stage.store_clock.now(), scene.stage.limits
    found: list[AttemptKey] = []
    for key, row in scene.world.attempts.items():
        waits = row.suspension
        live = scene.world.live_attempt(key) is row and row.status is AttemptStatus.WAITING
        if not live or row.runner_terminal is not None or row.pending is not None:
            continue
        if isinstance(waits, DetachedSuspension):
            heard_at = row.heartbeat_at or waits.started_at
            if now - heard_at >= heartbeat_timeout(waits, limits):
                found.append(key)
    return found


def _names_its_provider(step: Step) -> str | None:
    terminal, waits = step.after.runner_terminal, step.after.suspension
    if not step.rule.startswith("sweep.") or terminal is None:
        return None
    provider = waits.sandbox_provider if isinstance(waits, DetachedSuspension) else None
    told = terminal.report.stats.get("sandboxProvider")
    return None if told == provider else f"a verdict about {provider} names {told}"


def _nothing_cut(scene: Scene) -> str | None:
    """A settlement is left to end, unless its whole sweep is over."""
    for account in scene.stage.sweeps:
        for at_s in account.cut:
            if account.over_s is None or account.over_s > at_s:
                return f"{account.owner} cut the write of a settlement at {at_s:.3f} s"
    return None


def _goes_on_sweeping(scene: Scene) -> str | None:
    """Long enough after the healing somebody sweeps, whatever hung before."""
    stage = scene.stage
    if stage.healed_s is None or stage.mixture.sweep is SweepMode.OFF or not stage.sweeps:
        return None
    settings = stage.sweeps[-1].settings
    within_s = (
        settings.interval.total_seconds()
        + settings.hard_stop.total_seconds()
        + 2 * DUTY_LEASE.total_seconds()
        + 3 * stage.limits.claim_lease.total_seconds()
    )
    rested = [event.at_s for event in stage.history.of("at rest")]
    until_s = rested[0] if rested else stage.now_s
    newest_s = max((one.passes[-1] for one in stage.sweeps if one.passes), default=0.0)
    if until_s - stage.healed_s > within_s and until_s - newest_s > within_s:
        return f"nobody has swept since {newest_s:.3f} s"
    return None


SWEEPS: tuple[Invariant, ...] = (
    invariant(
        "I32",
        "At most one settlement of a sweep runs in a process at any time.",
        events=[("settlements overlap", _overlaps)],
    ),
    invariant(
        "C43",
        "One process at a time sweeps.",
        events=[("sweep pass", _alone)],
    ),
    invariant(
        "I33",
        "No settlement of a sweep begins after the budget of its pass.",
        events=[("sweep settles", _settles_in_time)],
    ),
    invariant(
        "I34",
        "Few reads of a provider hold a slot, and few more have not ended.",
        events=[("sweep read", _few_reads)],
    ),
    invariant(
        "I35",
        "A sweep that observes writes nothing.",
        events=[("sweep wrote", _wrote)],
    ),
    invariant(
        "I37",
        "A sweep reads a sandbox at most once in its recheck period.",
        events=[("sweep read", _read_again)],
    ),
    invariant(
        "I38",
        "A sweep remembers no more sandboxes than it reads in a recheck period.",
        events=[("sweep pass", _few_marks)],
    ),
    invariant(
        "I39",
        "Every runner that stays silent is looked at within a bounded number of passes.",
        events=[("sweep passed", _everyone_has_a_turn)],
    ),
    invariant(
        "I53",
        "A verdict of the sweep names the provider that was read.",
        steps=[(Moment.TERMINAL, _names_its_provider)],
    ),
    invariant(
        "C42",
        "A settlement of a sweep that takes longer than its pass is left to end.",
        at_end=[_nothing_cut],
    ),
    invariant(
        "L09",
        "A read, settlement or delivery that hangs does not stop later passes.",
        at_end=[_goes_on_sweeping],
    ),
)
