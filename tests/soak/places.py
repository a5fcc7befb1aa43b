"""Places for sandboxes after a storm: none is used by nobody, and all can be had at once (F20)."""

from functools import partial

from deepline.adapters.http.api_client import ApiClient
from deepline.core.model.json_value import Json
from tests.soak.plan import Plan
from tests.soak.watch import Watch
from tests.support.fleet import PLAY, new_id
from tests.support.light.deployment import Deployment

LONG_S = 600.0
WITHIN_S = 90.0
USED = """
select (select count(*) from deepline.sandbox_operations
         where state in ('reserved', 'bound', 'deleting')),
       (select count(*) from deepline.attempts
         where status in ('running', 'waiting') and suspension is not null)
"""


def check_places(plan: Plan, deployment: Deployment, watch: Watch) -> None:
    """Raise `AssertionError` unless places and live attempts are as many: none, all, and none."""
    truth = deployment.truth
    assert used(deployment) == (0, 0)
    script: Json = {"script": [["pause", LONG_S], ["answer", 1]]}
    run_ids = [new_id("place") for _ in range(plan.sandboxes)]
    deployment.api.submit(PLAY, dict.fromkeys(run_ids, script))
    truth.wait_for(
        lambda: used(deployment) == (plan.sandboxes, plan.sandboxes),
        f"all {plan.sandboxes} places to be had at once",
        within_s=WITHIN_S,
    )
    for run_id in run_ids:
        deployment.api.call(partial(ApiClient.cancel, run_id=run_id, reason="seen"))
    truth.wait_ended(run_ids, within_s=WITHIN_S)
    deployment.assert_sound(within_s=WITHIN_S)
    assert used(deployment) == (0, 0)
    truth.wait_for(lambda: watch.working() == 0, "workers hold runs that have ended")


def used(deployment: Deployment) -> tuple[int, int]:
    """Places that are taken, and attempts that are alive in one, at the same moment."""
    [(places, attempts)] = deployment.truth.rows(USED)
    return int(places), int(attempts)
