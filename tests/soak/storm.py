"""Many runs while everything that may die does, and then an account of every one of them.

Each ends once and as it must, its play was started once for each stay in a sandbox, engine attempts
were spent for lost claims alone, and nothing is left: no sandbox, no duty, no place that nobody
uses, no process. Roles that lived through most of it hold no more files, sockets, sessions and
memory than they began with, and whoever looks at a run is told the same everywhere.
"""

import random
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
import psycopg
import trio
from psycopg import sql

from deepline.adapters.postgres.embedded import EmbeddedPostgres
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json
from tests.soak.account import Account
from tests.soak.harm import Harm
from tests.soak.partitions import Partitions
from tests.soak.places import check_places
from tests.soak.plan import BATCH, Plan
from tests.soak.plays import Script, drawn
from tests.soak.pooler import pooled, transactions
from tests.soak.views import check_views
from tests.soak.watch import Lag, Watch
from tests.support.fleet import PLAY, new_id
from tests.support.light.deployment import Deployment, with_key
from tests.support.light.world import LightWorld, light_world
from tests.support.postgres import open_directory
from tests.support.public_api import PublicApi
from tests.support.remnants import nothing_left

CLAIM_LOST = "$ClaimTimeout"


@attrs.frozen
class Storm:
    """What one storm is made of."""

    plan: Plan
    deployment: Deployment
    server: EmbeddedPostgres
    world: LightWorld
    partitions: Partitions
    through: str | None
    """How the pooler is reached that the roles use."""


def go_through(plan: Plan) -> Account:
    """Go through one storm; raises `AssertionError` for what should not have been."""
    with open_directory() as directory:
        with database_server(directory) as (server, dsn), ExitStack() as stack:
            world = stack.enter_context(light_world(directory))
            through = stack.enter_context(pooled(dsn, directory)) if plan.pgbouncer else None
            deployment = Deployment(
                dsn, directory, world, names=plan.names, settings=_settings(plan, dsn, through)
            )
            stack.callback(deployment.close)
            partitions = Partitions(
                [name for name in plan.names if name.startswith("gateway")], deployment.address_of
            )
            if plan.partitions:
                stack.enter_context(partitions.standing())
                deployment.seen_at = partitions.urls
            account = _gone_through(Storm(plan, deployment, server, world, partitions, through))
            if through is not None:
                account = attrs.evolve(account, pooled_transactions=transactions(through))
        assert nothing_left(directory), "processes are left"
        return account


def _settings(plan: Plan, dsn: str, through: str | None) -> Mapping[str, str]:
    settings = {
        "DEEPLINE_WORKER_SLOTS": str(plan.slots),
        "DEEPLINE_SANDBOX_LIMIT": str(plan.sandboxes),
        "DEEPLINE_POSTGRES_CONNECTIONS": str(plan.pool),
        "RUNTIME_CLAIM_LEASE_SECONDS": str(plan.lease_s),
        # More workers are killed than a run's usual engine attempts bear.
        "ABSURD_PLAY_RUN_MAX_ATTEMPTS": "50",
    }
    if through is not None:
        settings |= {
            "DEEPLINE_POSTGRES_POOLER": "yes",
            "DEEPLINE_POSTGRES_LISTEN": dsn,
            "WORKFLOW_RUNTIME_POSTGRES": through,
        }
    return settings


def _gone_through(storm: Storm) -> Account:
    plan, deployment = storm.plan, storm.deployment
    deployment.begin(*plan.names)
    begun = time.monotonic()
    peace_at = begun + plan.storm_s / 3
    harm = Harm(
        plan,
        deployment,
        storm.partitions,
        peace_at,
        random.Random(plan.seed),
        lambda: trio.run(storm.server.restart, "immediate"),
    )
    watch = Watch(plan, deployment, storm.through, peace_at)
    harm.begin()
    watch.begin()
    try:
        scripts = _submitted(storm, random.Random(f"{plan.seed} plays"), begun)
        while time.monotonic() < begun + plan.storm_s:
            time.sleep(0.2)
    finally:
        harm.end()
    stormed = time.monotonic()
    deployment.truth.wait_ended(list(scripts), within_s=plan.patience_s)
    ended = time.monotonic()
    deployment.assert_sound(within_s=plan.patience_s)
    sound = time.monotonic()
    statuses = deployment.truth.statuses(list(scripts))
    _check_ends(scripts, statuses)
    _check_starts(deployment, storm.world, scripts)
    check_views(
        deployment,
        {run_id: statuses[run_id] for run_id in scripts},
        random.Random(f"{plan.seed} views"),
    )
    check_places(plan, deployment, watch)
    after = watch.end()
    lag = {name: watch.lag(name) for name in plan.names if name.startswith("worker")}
    _check_leases(plan, watch, lag)
    assert not deployment.unexpected_ends(), deployment.unexpected_ends()
    return Account(
        runs=len(scripts),
        ends=Counter(statuses.values()),
        harm=harm.done,
        parted_calls=storm.partitions.held,
        engine_attempts=_spent(deployment),
        attempts=deployment.truth.value("select count(*) from deepline.attempts"),
        storm_s=stormed - begun,
        until_ended_s=ended - stormed,
        until_sound_s=sound - ended,
        places=plan.sandboxes,
        lease_s=plan.lease_s,
        lag=lag,
        before=watch.before,
        after=after,
        peaks=watch.peaks,
    )


def _submitted(storm: Storm, chance: random.Random, begun: float) -> Mapping[RunId, Script]:
    plan = storm.plan
    scripts: dict[RunId, Script] = {}
    while len(scripts) < plan.runs:
        due = begun + plan.storm_s * len(scripts) / plan.runs
        time.sleep(max(0.0, due - time.monotonic()))
        batch = {
            new_id("run"): drawn(chance, len(scripts) + at)
            for at in range(min(BATCH, plan.runs - len(scripts)))
        }
        inputs: dict[RunId, Json] = {run: {"script": one.words} for run, one in batch.items()}
        for run_id, script in batch.items():
            if script.slow_s:
                storm.world.ask("turn", run_id=run_id, away=False, slow_s=script.slow_s)
        api = chance.choice(storm.deployment.apis)
        api.submit(PLAY, inputs)
        for run_id, script in batch.items():
            _meddle(api, run_id, script)
        scripts |= batch
    return scripts


def _meddle(api: PublicApi, run_id: RunId, script: Script) -> None:
    if script.signalled:
        api.call(lambda client: client.signal(run_id, "go", {}))
    if script.cancelled:
        api.call(lambda client: client.cancel(run_id, "enough"))


def _check_ends(scripts: Mapping[RunId, Script], statuses: Mapping[str, str]) -> None:
    wrong = {
        run_id: statuses[run_id]
        for run_id, script in scripts.items()
        if statuses[run_id] not in script.ends
    }
    assert not wrong, wrong


def _check_starts(
    deployment: Deployment, world: LightWorld, scripts: Mapping[RunId, Script]
) -> None:
    pauses = dict(
        deployment.truth.rows(
            "select run_id, count(distinct evidence ->> 'boundary') from deepline.decisions"
            " where rule = 'runner.pushed_suspension' group by run_id"
        )
    )
    starts = world.starts()
    again = {
        run_id: starts[run_id]
        for run_id in scripts
        if starts.get(run_id, 0) > 1 + pauses.get(run_id, 0)
    }
    assert not again, f"plays that were started again: {again}"


def _check_leases(plan: Plan, watch: Watch, lag: Mapping[str, Lag]) -> None:
    """Workers left in peace keep their leases, with two thirds of each to spare."""
    if not plan.keeps_leases:
        return
    lost = watch.leases_lost()
    assert not lost, "\n".join(lost)
    late = {
        name: str(one)
        for name, one in lag.items()
        if name in plan.steady and one.p99_s > plan.lease_s / 3
    }
    assert not late, late


def _spent(deployment: Deployment) -> Mapping[str, int]:
    rows: Sequence[tuple[str, int]] = deployment.truth.rows(
        "select case failure_reason ->> 'name' when %s then %s else failure_reason::text end,"
        " count(*) from absurd.r_runs where state = 'failed' group by 1",
        *(CLAIM_LOST, CLAIM_LOST),
    )
    spent = dict(rows)
    assert set(spent) <= {CLAIM_LOST}, spent
    return spent


@contextmanager
def database_server(directory: Path) -> Iterator[tuple[EmbeddedPostgres, str]]:
    """A server that may be hurt, for the length of a block, and the DSN of a ready database."""
    server = EmbeddedPostgres(
        directory / "postgres",
        settings={"fsync": "off", "max_connections": "200", "synchronous_commit": "on"},
    )
    trio.run(server.start)
    password = secrets.token_urlsafe(24)
    try:
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            admin.execute(sql.SQL("create role storm superuser login password {}").format(password))
        dsn = server.dsn().replace("//deepline@", f"//storm:{password}@")
        trio.run(with_key, dsn)
        yield server, dsn
    finally:
        trio.run(server.stop)
