"""What settings of the orphan sweep can work (F66)."""

from datetime import timedelta

import pytest

from deepline.core.orphan_sweep import OrphanSettings
from deepline.core.orphans import Patience

STRANGERS = (
    "a sandbox that the store does not know must be waited for at least as long as one that it does"
)
HASTY = Patience(known=timedelta(hours=2), unknown=timedelta(hours=1))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        pytest.param(OrphanSettings(), (), id="F66-as-they-come"),
        pytest.param(
            OrphanSettings(patience=HASTY),
            (STRANGERS,),
            id="F66-less-patient-with-strangers",
        ),
        pytest.param(
            OrphanSettings(pages=0),
            ("the orphan sweep's pages must be at least 1",),
            id="F66-no-page",
        ),
    ],
)
def test_what_settings_cannot_work(settings: OrphanSettings, said: tuple[str, ...]) -> None:
    """Each sentence says what is wrong; settings that can work say nothing."""
    assert settings.violations() == said
