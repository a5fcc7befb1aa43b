"""Many runs while everything that may die does, and then an account of every one of them.

Each ends once and as it must, its play was started once for each stay in a sandbox, engine attempts
were spent where the rules say so, and nothing is left: no sandbox, no duty, no session, no process.
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
from tests.soak.harm import Harm
from tests.soak.plan import BATCH, Plan
from tests.soak.plays import Script, drawn
from tests.soak.pooler import pooled
from tests.support.fleet import PLAY, new_id
from tests.support.light.deployment import Deployment, with_key
from tests.support.light.world import LightWorld, light_world
from tests.support.postgres import open_directory
from tests.support.public_api import PublicApi
from tests.support.remnants import nothing_left

CLAIM_LOST = "$ClaimTimeout"
DATABASE_AWAY = "database away"
"""A fresh attempt whose sandbox could not be written down: an error like any other (C19.6)."""


@attrs.frozen(kw_only=True)
class Account:
    """What came of a storm."""

    runs: int
    ends: Mapping[str, int]
    harm: Mapping[str, int]
    engine_attempts: Mapping[str, int]
    """Spent ones by why."""
    attempts: int
    storm_s: float
    until_ended_s: float
    until_sound_s: float

    def __str__(self) -> str:
        """For who waited for it."""
        times = (
            f"storm {self.storm_s:.0f} s, {self.until_ended_s:.0f} s more until all had ended,"
            f" {self.until_sound_s:.0f} s more until nothing was left"
        )
        return "\n".join(
            [
                f"{self.runs} runs, {self.attempts} attempts: {_counted(self.ends)}",
                f"harm done: {_counted(self.harm)}",
                f"engine attempts spent: {_counted(self.engine_attempts)}",
                times,
            ]
        )


def go_through(plan: Plan) -> Account:
    """Go through one storm; raises `AssertionError` for what should not have been."""
    with open_directory() as directory:
        with database_server(directory) as (server, dsn), ExitStack() as stack:
            world = stack.enter_context(light_world(directory))
            # More workers are killed than a run's usual engine attempts bear.
            settings = {
                "DEEPLINE_WORKER_SLOTS": str(plan.slots),
                "ABSURD_PLAY_RUN_MAX_ATTEMPTS": "50",
            }
            if plan.pgbouncer:
                settings |= {
                    "DEEPLINE_POSTGRES_POOLER": "yes",
                    "DEEPLINE_POSTGRES_LISTEN": dsn,
                    "WORKFLOW_RUNTIME_POSTGRES": stack.enter_context(pooled(dsn, directory)),
                }
            deployment = Deployment(dsn, directory, world, names=plan.names, settings=settings)
            try:
                account = _gone_through(plan, deployment, server, world)
            finally:
                deployment.close()
        assert nothing_left(directory), "processes are left"
        return account


def _gone_through(
    plan: Plan, deployment: Deployment, server: EmbeddedPostgres, world: LightWorld
) -> Account:
    chance = random.Random(plan.seed)
    deployment.begin(*plan.names)
    harm = Harm(plan, deployment, chance, lambda: trio.run(server.restart, "immediate"))
    begun = time.monotonic()
    harm.begin()
    try:
        scripts = _submitted(plan, deployment, random.Random(f"{plan.seed} plays"), begun)
        while time.monotonic() < begun + plan.storm_s:
            time.sleep(0.2)
    finally:
        harm.end()
    stormed = time.monotonic()
    deployment.truth.wait_ended(list(scripts), within_s=plan.patience_s)
    ended = time.monotonic()
    deployment.assert_sound(within_s=plan.patience_s)
    sound = time.monotonic()
    assert not deployment.unexpected_ends(), deployment.unexpected_ends()
    statuses = deployment.truth.statuses(list(scripts))
    _check_ends(scripts, statuses)
    _check_starts(deployment, world, scripts)
    return Account(
        runs=len(scripts),
        ends=Counter(statuses.values()),
        harm=harm.done,
        engine_attempts=_spent(deployment),
        attempts=deployment.truth.value("select count(*) from deepline.attempts"),
        storm_s=stormed - begun,
        until_ended_s=ended - stormed,
        until_sound_s=sound - ended,
    )


def _submitted(
    plan: Plan, deployment: Deployment, chance: random.Random, begun: float
) -> Mapping[RunId, Script]:
    scripts: dict[RunId, Script] = {}
    while len(scripts) < plan.runs:
        due = begun + plan.storm_s * len(scripts) / plan.runs
        time.sleep(max(0.0, due - time.monotonic()))
        batch = {
            new_id("run"): drawn(chance, len(scripts) + at)
            for at in range(min(BATCH, plan.runs - len(scripts)))
        }
        inputs: dict[RunId, Json] = {run: {"script": one.words} for run, one in batch.items()}
        api = chance.choice(deployment.apis)
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


def _spent(deployment: Deployment) -> Mapping[str, int]:
    rows: Sequence[tuple[str, int]] = deployment.truth.rows(
        "select case when failure_reason ->> 'name' = %s then %s"
        " when failure_reason ->> 'message' ~ %s then %s else failure_reason::text end,"
        " count(*) from absurd.r_runs where state = 'failed' group by 1",
        *(CLAIM_LOST, CLAIM_LOST, "database", DATABASE_AWAY),
    )
    spent = dict(rows)
    assert set(spent) <= {CLAIM_LOST, DATABASE_AWAY}, spent
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


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "none"
