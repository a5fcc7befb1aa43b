"""What a role works with once everything outside is open."""

import random

import attrs

from deepline.adapters.http.limited_client import LimitedClient
from deepline.cli.observability import Observed
from deepline.cli.opened_store import OpenedStore


@attrs.frozen(kw_only=True, eq=False)
class Outside:
    """An open store, an open HTTP client, this process's telemetry, and chance."""

    store: OpenedStore
    client: LimitedClient
    seen: Observed
    chance: random.Random
