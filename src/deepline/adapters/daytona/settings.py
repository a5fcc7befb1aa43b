"""What an adapter of Daytona must know: whose account, where, what sandboxes are made of."""

from datetime import timedelta

import attrs

API_URL = "https://app.daytona.io/api"
OWNER = "deepline"


def _masked(_: object) -> str:
    return "***"


@attrs.frozen(kw_only=True)
class Patience:
    """For how long Daytona's word is not taken.

    A daemon that ran out of memory is silent for two or three minutes before the sandbox's state
    says so: it counts as gone after three looks, `silence_spacing` apart, over `silence`. A look-up
    that misses may be remembered for ten seconds and a listing lags: two looks `missing` apart.
    After a create said that a name is taken, its sandbox may be missed for `conflict`.
    """

    silence: timedelta = timedelta(minutes=4)
    silence_spacing: timedelta = timedelta(seconds=20)
    missing: timedelta = timedelta(seconds=15)
    conflict: timedelta = timedelta(seconds=15)


@attrs.frozen(kw_only=True)
class DaytonaSettings:
    """One account at Daytona.

    An API key belongs to one organisation; `organization_id` is who it should be, checked before
    anything is done. `target` and `snapshot` are the organisation's defaults when `None`. `owner`
    tells our sandboxes from those of another deployment in the same organisation.
    """

    api_key: str = attrs.field(repr=_masked)
    api_url: str = API_URL
    target: str | None = None
    organization_id: str | None = None
    snapshot: str | None = None
    owner: str = OWNER
    patience: Patience = attrs.field(factory=Patience)
