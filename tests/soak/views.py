"""What people are told of a run after a storm: lists, details, cancels agree with it (F18)."""

import random
from collections.abc import Mapping
from functools import partial

from deepline.adapters.http.api_client import ApiClient
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json
from tests.support.light.deployment import Deployment

PAGE = 500
LOOKED_AT = 25


def check_views(
    deployment: Deployment, statuses: Mapping[RunId, str], chance: random.Random
) -> None:
    """Raise `AssertionError` unless each run stands the same wherever somebody looks.

    All are listed; some by chance are shown and, though they have ended, cancelled.
    """
    listed = deployment.ask(_listed)
    assert {run_id: listed[run_id] for run_id in statuses} == statuses
    for run_id in chance.sample(sorted(statuses), min(LOOKED_AT, len(statuses))):
        told = deployment.ask(partial(_told, run_id))
        assert told == (statuses[run_id], False, statuses[run_id]), (run_id, told)


async def _listed(client: ApiClient) -> Mapping[str, Json]:
    found: dict[str, Json] = {}
    before: str | None = None
    while True:
        page = await client.list_runs(limit=PAGE, before=before)
        found |= {str(run["runId"]): run["status"] for run in page.runs}
        before = page.following
        if before is None:
            return found


async def _told(run_id: RunId, client: ApiClient) -> tuple[Json, Json, Json]:
    shown = await client.show(run_id)
    answer = await client.cancel(run_id, "too late")
    return shown["status"], answer["cancelled"], answer["status"]
