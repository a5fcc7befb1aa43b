"""Ways of runs through the product, each driven to its end whatever dies meanwhile.

A path answers its runs and how each must have ended.
"""

from collections.abc import Callable, Mapping

from deepline.adapters.http.api_client import ApiClient
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json, JsonObject
from tests.support.fleet import new_id
from tests.support.light.deployment import ROLES, Deployment
from tests.support.light.roles import LINGERS

Ends = Mapping[RunId, str]
WITHOUT_WORKER = ("gateway", "controller")

WHOLE: Json = [
    ["bundle"],
    ["log", "hello"],
    ["rows", 3],
    ["step", "sum"],
    ["once", "charge"],
    ["sleep", "nap", 1.2],
    ["wait", "go"],
    ["answer", 1],
]


def usual(deployment: Deployment) -> Ends:
    """Submit, start, park, wake, settle, clean up; and everything that people ask meanwhile."""
    deployment.begin(*ROLES)
    deployment.ask(lambda client: client.keep_secret("CARD", "a secret of the tests"))
    deployment.ask(lambda client: client.secrets())
    ids = deployment.submit(
        {
            "whole": WHOLE,
            "fails": [["rows", 2], ["begun", "charge"], ["fail", "it is no use"]],
            "cancelled": [["hang"]],
        },
        {"secretNames": ["CARD"]},
    )
    deployment.truth.wait_for(
        lambda: bool(deployment.truth.attempts(ids["cancelled"])), "it does not start"
    )
    deployment.ask(lambda client: client.cancel(ids["cancelled"], "no longer needed"))
    deployment.truth.wait_for(lambda: waits_without_sandbox(deployment, ids["whole"]), "no wait")
    deployment.ask(lambda client: client.signal(ids["whole"], "go", {"by": "me"}))
    deployment.wait_ended(list(ids.values()))
    retried = retry(deployment, ids["fails"])
    look_at_everything(deployment, ids["whole"])
    deployment.wait_ended([retried])
    deployment.ask(lambda client: client.remove_secret("CARD"))
    for name in ("controller", "worker"):
        deployment.stop(name)
        deployment.bring_back(name)
    return {
        ids["whole"]: "completed",
        ids["fails"]: "failed",
        ids["cancelled"]: "cancelled",
        retried: "failed",
    }


def retry(deployment: Deployment, run_id: RunId) -> RunId:
    """Run a failed run again from where it was, under an id of our choice."""
    again = new_id("again")
    document: JsonObject = {"runId": again, "retryOf": run_id, "fromCheckpoint": True}
    deployment.ask(lambda client: client.submit_many([document]))
    return again


def waits_without_sandbox(deployment: Deployment, run_id: RunId) -> bool:
    """Whether a run waits for its event, and its sandboxes are gone."""
    return bool(
        deployment.truth.value(
            "select exists (select from deepline.attempts a where a.run_id = r.run_id"
            " and a.attempt = r.attempt and a.suspension ->> 'eventKey' = 'go'"
            " and a.status = 'waiting') and not exists (select from deepline.cleanup_jobs j"
            " where j.run_id = r.run_id and j.done_at is null)"
            " from deepline.runs r where r.run_id = %s",
            run_id,
        )
    )


def look_at_everything(deployment: Deployment, run_id: RunId) -> None:
    """What people ask about runs."""
    deployment.ask(lambda client: follow(client, run_id))
    deployment.ask(lambda client: client.list_runs())
    deployment.ask(lambda client: client.show(run_id))
    deployment.ask(lambda client: client.explain(run_id))
    deployment.ask(lambda client: client.sheets(run_id))
    deployment.ask(lambda client: client.usage())
    deployment.api.download(run_id, "squares", deployment.mark.parent / "squares.csv")


async def follow(client: ApiClient, run_id: RunId) -> int:
    """Read a run's events to their end; says how many."""
    async with client.events(run_id, retries=20) as feed:
        return len([event async for event in feed])


def token_outage(deployment: Deployment) -> Ends:
    """The gateway is away when a worker wants to start a run."""
    deployment.begin(*WITHOUT_WORKER)
    ids = deployment.submit({"waits": [["answer", 1]]})
    wait_created(deployment, ids["waits"])
    deployment.put_away("gateway")
    deployment.bring_back("worker")
    deployment.truth.wait_for(
        lambda: deployment.truth.attempts(ids["waits"]) > 1, "nothing was put off"
    )
    deployment.bring_back("gateway")
    deployment.wait_ended(list(ids.values()))
    return {ids["waits"]: "completed"}


def no_sandboxes(deployment: Deployment) -> Ends:
    """The provider of sandboxes is away when a worker wants one."""
    deployment.begin(*WITHOUT_WORKER)
    ids = deployment.submit({"waits": [["answer", 1]]})
    deployment.world.ask("turn", run_id=ids["waits"], away=True)
    try:
        deployment.bring_back("worker")
        deployment.truth.wait_for(
            lambda: deployment.truth.attempts(ids["waits"]) > 1, "nothing was put off"
        )
    finally:
        deployment.world.ask("turn", run_id=ids["waits"], away=False)
    deployment.wait_ended(list(ids.values()))
    return {ids["waits"]: "completed"}


def stranger(deployment: Deployment) -> Ends:
    """A worker whose word the gateway does not take, and then one whose it takes."""
    deployment.begin(*WITHOUT_WORKER)
    ids = deployment.submit({"waits": [["answer", 1]]})
    deployment.bring_back("worker", {"DEEPLINE_INTERNAL_TOKEN": "a-word-that-nobody-knows"})
    deployment.truth.wait_for(
        lambda: engine_attempt(deployment, ids["waits"]) > 1, "no engine attempt was spent"
    )
    deployment.bring_back("worker")
    deployment.wait_ended(list(ids.values()))
    return {ids["waits"]: "completed"}


def unacknowledged(deployment: Deployment) -> Ends:
    """The ledger does not know of a run when a worker comes to it."""
    deployment.begin("gateway")
    ids = deployment.submit({"fresh": [["answer", 1]]})
    forget_created(deployment)
    deployment.bring_back("worker")
    deployment.wait_ended(list(ids.values()))
    deployment.bring_back("controller")
    return {ids["fresh"]: "completed"}


def ledger_silent(deployment: Deployment) -> Ends:
    """The ledger does not know of a run, and cannot be told when a worker comes to it."""
    deployment.begin(*WITHOUT_WORKER)
    ids = deployment.submit({"fresh": [["answer", 1]]})
    wait_created(deployment, ids["fresh"])
    deployment.put_away("gateway")
    forget_created(deployment)
    deployment.bring_back("worker")
    deployment.truth.wait_for(
        lambda: any("created" in rule for rule in deployment.truth.rules(ids["fresh"])),
        "nothing was put off",
    )
    deployment.bring_back("gateway")
    deployment.wait_ended(list(ids.values()))
    return {ids["fresh"]: "completed"}


def forget_created(deployment: Deployment) -> None:
    """As if nobody had delivered what was made."""
    deployment.truth.rows("update deepline.runs set created_projected_at = null")
    deployment.truth.rows("update deepline.outbox set delivered_at = null")


def wake_outage(deployment: Deployment) -> Ends:
    """The gateway is away when a run is to go on after a pause."""
    deployment.begin(*ROLES)
    ids = deployment.submit({"naps": [["sleep", "nap", 2.0], ["answer", 1]]})
    wait_parked(deployment, ids["naps"])
    deployment.truth.wait_for(
        lambda: bool(
            deployment.truth.value(
                "select suspension ->> 'kind' = 'sleep' from deepline.attempts"
                " where run_id = %s order by attempt desc limit 1",
                ids["naps"],
            )
        ),
        "it does not pause",
    )
    deployment.put_away("gateway")
    deployment.truth.wait_for(
        lambda: any("outage" in rule for rule in deployment.truth.rules(ids["naps"])),
        "nothing was put off",
    )
    deployment.bring_back("gateway")
    deployment.wait_ended(list(ids.values()))
    return {ids["naps"]: "completed"}


def ledger_away(deployment: Deployment) -> Ends:
    """The gateway is away when a run ends."""
    deployment.begin(*ROLES)
    ids = deployment.submit({"endless": [["hang"]]}, {"ceilingMs": 3_000})
    wait_parked(deployment, ids["endless"])
    deployment.put_away("gateway")
    deployment.wait_ended(list(ids.values()))
    deployment.truth.wait_for(
        lambda: bool(
            deployment.truth.value(
                "select max(attempts) > 0 from deepline.outbox where run_id = %s and seq > 1",
                ids["endless"],
            )
        ),
        "nobody tried to deliver",
    )
    deployment.bring_back("gateway")
    return {ids["endless"]: "failed"}


def lost_task(deployment: Deployment) -> Ends:
    """A run whose engine task was lost, submitted once more."""
    deployment.begin(*WITHOUT_WORKER)
    run_id = new_id("lost")
    deployment.submit_as({run_id: [["answer", 1]]})
    deployment.truth.rows("delete from absurd.r_runs")
    deployment.truth.rows("delete from absurd.t_runs")
    deployment.submit_as({run_id: [["answer", 1]]})
    deployment.bring_back("worker")
    deployment.wait_ended([run_id])
    return {run_id: "completed"}


def late_sandbox(deployment: Deployment) -> Ends:
    """A run is cancelled while its sandbox is being created, and deleting one takes a while."""
    deployment.begin(*WITHOUT_WORKER)
    run_id = new_id("late")
    deployment.world.ask("turn", run_id=run_id, away=False, slow_s=1.5)
    deployment.bring_back("worker", {LINGERS: "yes"})
    deployment.submit_as({run_id: [["answer", 1]]})
    deployment.truth.wait_for(
        lambda: bool(
            deployment.truth.value(
                "select count(*) from deepline.sandbox_operations where run_id = %s", run_id
            )
        ),
        "no sandbox is asked for",
    )
    deployment.ask(lambda client: client.cancel(run_id, "no longer needed"))
    deployment.wait_ended([run_id])
    return {run_id: "cancelled"}


def slow_sandbox(deployment: Deployment) -> Ends:
    """A create that takes so long that the claim must be extended more than once."""
    deployment.begin(*WITHOUT_WORKER)
    run_id = new_id("slow")
    deployment.world.ask("turn", run_id=run_id, away=False, slow_s=1.5)
    deployment.bring_back("worker")
    deployment.submit_as({run_id: [["answer", 1]]})
    deployment.wait_ended([run_id])
    return {run_id: "completed"}


def overdue(deployment: Deployment) -> Ends:
    """A runner past its limit, and no worker there to end it."""
    deployment.begin(*ROLES)
    ids = deployment.submit({"endless": [["hang"]]}, {"ceilingMs": 4_000})
    wait_parked(deployment, ids["endless"])
    deployment.put_away("worker")
    deployment.wait_ended(list(ids.values()))
    deployment.bring_back("worker")
    return {ids["endless"]: "failed"}


def vanished(deployment: Deployment) -> Ends:
    """A runner that ends without a word, and no worker there to notice."""
    deployment.begin(*ROLES)
    ids = deployment.submit({"vanishes": [["pause", 1.5], ["vanish"]]})
    wait_parked(deployment, ids["vanishes"])
    deployment.put_away("worker")
    deployment.wait_ended(list(ids.values()))
    deployment.bring_back("worker")
    return {ids["vanishes"]: "failed"}


def noticed(deployment: Deployment) -> Ends:
    """A runner that ends without a word, and workers alone to notice."""
    deployment.begin("gateway", "worker")
    ids = deployment.submit({"vanishes": [["vanish"]]})
    deployment.wait_ended(list(ids.values()))
    deployment.bring_back("controller")
    return {ids["vanishes"]: "failed"}


def wait_created(deployment: Deployment, run_id: RunId) -> None:
    """Wait until the ledger knows that a run was made."""
    deployment.truth.wait_for(
        lambda: bool(
            deployment.truth.value(
                "select created_projected_at is not null from deepline.runs where run_id = %s",
                run_id,
            )
        ),
        "the ledger does not know of the run",
    )


def wait_parked(deployment: Deployment, run_id: RunId) -> None:
    """Wait until a run waits for its runner, or has ended already."""
    deployment.truth.wait_for(
        lambda: bool(
            deployment.truth.value(
                "select status = 'waiting' or terminal_at is not null"
                " from deepline.runs where run_id = %s",
                run_id,
            )
        ),
        "the run does not wait",
    )


def engine_attempt(deployment: Deployment, run_id: RunId) -> int:
    """At which of its attempts the engine is with a run."""
    found = deployment.truth.value(
        "select coalesce(max(e.attempt), 0) from deepline.runs r"
        " left join absurd.r_runs e on e.task_id = r.task_id where r.run_id = %s",
        run_id,
    )
    return int(found)


PATHS: Mapping[str, Callable[[Deployment], Ends]] = {
    path.__name__: path
    for path in (
        usual,
        token_outage,
        unacknowledged,
        ledger_silent,
        wake_outage,
        no_sandboxes,
        stranger,
        ledger_away,
        lost_task,
        late_sandbox,
        slow_sandbox,
        overdue,
        vanished,
        noticed,
    )
}
