"""The settings of the liveness sweep (C39, C43, Q22)."""

from datetime import timedelta

from deepline.cli.settings.parts import MILLISECOND
from deepline.cli.settings.reading import Reader
from deepline.core.sweep import SweepSettings

_PREFIX = "ABSURD_DETACHED_RUNNER_LIVENESS_"


def read_sweep(reader: Reader, interval: timedelta) -> SweepSettings:
    """The sweep's bounds; what cannot work together is noted sentence by sentence.

    Passes begin as often as runners past their ceiling are looked for.
    """
    base = SweepSettings()

    def length(name: str, default: timedelta) -> timedelta:
        return reader.length(_PREFIX + name, default, unit=MILLISECOND)

    def whole(name: str, default: int, *, most: int) -> int:
        return reader.whole(_PREFIX + name, default, least=1, most=most)

    settings = SweepSettings(
        interval=interval,
        pass_budget=length("PASS_BUDGET_MS", base.pass_budget),
        hard_stop=length("HARD_STOP_MS", base.hard_stop),
        reads_per_provider=whole("READS_PER_PROVIDER", base.reads_per_provider, most=1_000),
        read_deadline=length("READ_DEADLINE_MS", base.read_deadline),
        abandoned_max=whole("MAX_ABANDONED_READS", base.abandoned_max, most=1_000),
        page=whole("PAGE_LIMIT", base.page, most=10_000),
        recheck=length("RECHECK_MS", base.recheck),
    )
    for sentence in settings.violations():
        reader.wrong(sentence)
    return settings
