"""What an adapter of Daytona must know: whose account, where, what sandboxes are made of."""

import attrs

API_URL = "https://app.daytona.io/api"
OWNER = "deepline"


def _masked(_: object) -> str:
    return "***"


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
