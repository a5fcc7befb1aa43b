"""Launches, inputs and bundles on Postgres, and the counts of launch reads (C07, C58, I26)."""

from typing import Any

import pytest

from deepline.adapters.postgres.launches import READ_DURATION, READS, PostgresLaunches
from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.json_value import Json
from deepline.ports.errors import MalformedDocument, NotFound, Unavailable
from tests.support.store import StoreBench, launch

RUN = RunId("run")
HASH = "0" * 64


class Counter:
    """Keeps what was counted."""

    def __init__(self) -> None:
        self.counted: list[tuple[str, float, dict[str, str]]] = []

    def __call__(self, name: str, amount: float = 1.0, **labels: str) -> None:
        self.counted.append((name, amount, labels))

    def reads(self) -> list[dict[str, str]]:
        """The labels of the reads, in order."""
        return [labels for name, _, labels in self.counted if name == READS]


async def test_a_launch_comes_back_as_submitted(bench: StoreBench) -> None:
    """A worker reads exactly the launch that was submitted; there is none of an unknown run."""
    await bench.submit(release="r1")

    assert await bench.store.launches.read(RUN, caller="test") == launch("run", release="r1")
    assert await bench.store.launches.read(RunId("unknown"), caller="test") is None


async def test_each_read_is_counted_by_caller_release_and_outcome(bench: StoreBench) -> None:
    """Found, missing and failed reads are told apart, each with its time (C58)."""
    await bench.submit(release="r1")
    counter = Counter()
    launches = PostgresLaunches(bench.store.steps, counter)
    await launches.read(RUN, caller="prepare")
    await launches.read(RunId("unknown"), caller="salvage")
    await bench.rows("update deepline.launches set launch = '{}'")
    with pytest.raises(MalformedDocument):
        await launches.read(RUN, caller="prepare")

    assert counter.reads() == [
        {"caller": "prepare", "launch_release_id": "r1", "outcome": "found"},
        {"caller": "salvage", "launch_release_id": "", "outcome": "missing"},
        {"caller": "prepare", "launch_release_id": "", "outcome": "error"},
    ]
    durations = [(amount, labels) for name, amount, labels in counter.counted if name != READS]
    assert [labels["caller"] for _, labels in durations] == ["prepare", "salvage", "prepare"]
    assert all(amount >= 0 and "outcome" not in labels for amount, labels in durations)
    assert {name for name, _, _ in counter.counted} == {READS, READ_DURATION}


async def test_a_read_without_a_database_is_counted(bench: StoreBench) -> None:
    """A read that the database did not answer counts as an error and fails as a port error."""
    counter = Counter()
    launches = PostgresLaunches(bench.store.steps, counter)
    await bench.pool.__aexit__(None, None, None)

    with pytest.raises(Unavailable):
        await launches.read(RUN, caller="prepare")
    assert [labels["outcome"] for labels in counter.reads()] == ["error"]


@pytest.mark.parametrize("input_json", [None, {"rows": [1, {"a": None}]}, "text", 0])
async def test_an_input_comes_back_as_submitted(bench: StoreBench, input_json: Json) -> None:
    """The runner gets the play's input as it was given, null included."""
    await bench.submit(input_json=input_json)

    assert await bench.store.launches.read_input(RUN) == input_json


async def test_an_unknown_runs_input_is_not_found(bench: StoreBench) -> None:
    """A run that never was has no input, which is not the same as null."""
    with pytest.raises(NotFound):
        await bench.store.launches.read_input(RUN)


async def test_a_bundle_is_its_organisations_own(bench: StoreBench) -> None:
    """A bundle is stored once and read by its organisation alone."""
    content: Any = bytes(range(256)) * 40
    for body in (content, content):
        await bench.store.launches.put_bundle(OrgId("org"), HASH, body)

    assert await bench.store.launches.read_bundle(OrgId("org"), HASH) == content
    for org_id, bundle_hash in (("other", HASH), ("org", "1" * 64)):
        with pytest.raises(NotFound):
            await bench.store.launches.read_bundle(OrgId(org_id), bundle_hash)


async def test_a_stored_bundle_does_not_change(bench: StoreBench) -> None:
    """What a hash names stays what it was."""
    await bench.store.launches.put_bundle(OrgId("org"), HASH, b"first")
    await bench.store.launches.put_bundle(OrgId("org"), HASH, b"second")

    assert await bench.store.launches.read_bundle(OrgId("org"), HASH) == b"first"


async def test_launches_that_come_with_a_claim_are_counted_too(bench: StoreBench) -> None:
    """Found, missing and unreadable ones, which cost no read of their own (C58)."""
    await bench.submit("run-found", release="r1")
    await bench.submit("run-missing")
    await bench.submit("run-unreadable")
    await bench.rows("delete from deepline.launches where run_id = 'run-missing'")
    await bench.rows("update deepline.launches set launch = '{}' where run_id = 'run-unreadable'")
    counter = Counter()
    bench.store.attempts._count = counter

    await bench.claim(quantity=3)

    assert sorted(labels["outcome"] for labels in counter.reads()) == ["error", "found", "missing"]
    assert {labels["caller"] for labels in counter.reads()} == {"worker_claim"}
    assert {name for name, _, _ in counter.counted} == {READS}
