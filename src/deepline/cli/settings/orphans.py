"""The settings of the orphan sweep (F66)."""

from deepline.cli.settings.parts import SECOND
from deepline.cli.settings.reading import Reader
from deepline.core.orphan_sweep import OrphanSettings
from deepline.core.orphans import Patience


def read_orphans(reader: Reader) -> OrphanSettings:
    """How the sweep goes; what cannot work together is noted sentence by sentence."""
    base = OrphanSettings()
    settings = OrphanSettings(
        mode=reader.choice("DEEPLINE_ORPHAN_SWEEP", base.mode),
        interval=reader.length(
            "DEEPLINE_ORPHAN_SWEEP_INTERVAL_SECONDS", base.interval, unit=SECOND
        ),
        patience=Patience(
            known=reader.length("DEEPLINE_ORPHAN_GRACE_SECONDS", base.patience.known, unit=SECOND),
            unknown=reader.length(
                "DEEPLINE_ORPHAN_UNKNOWN_SECONDS", base.patience.unknown, unit=SECOND
            ),
        ),
    )
    for sentence in settings.violations():
        reader.wrong(sentence)
    return settings
