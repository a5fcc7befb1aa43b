"""What every `Launches` keeps (C07, C12, I26)."""

from datetime import timedelta

import attrs

from deepline.core.model.identity import OrgId, RunId
from deepline.core.model.json_value import Json
from deepline.ports.errors import NotFound
from deepline.testing.refusals import refused
from deepline.testing.scene import Scene
from deepline.testing.stores import Stores

RUN = RunId("run-1")
ORG = OrgId("org-1")
HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


class LaunchesContract:
    """Asks for `stores`."""

    async def test_a_launch_keeps_all_its_fields(self, stores: Stores) -> None:
        """Whatever a launch says is read back as it was submitted (I26)."""
        scene = await Scene.on(stores)
        submission = scene.submission()
        full = attrs.evolve(
            submission.launch,
            bundle_hash=HASH,
            entry="main",
            queue_suffix="blue",
            runtime_backend="local",
            placement_policy_id="local",
            workflow_id="workflow-1",
            scheduler_schema="deepline",
            ceiling=timedelta(minutes=90),
            table_namespaces=("enrich", "score"),
            secret_names=("API_TOKEN",),
            test_fault_header="signed",
            retry_of=RunId("run-0"),
            submitted_by="ann",
        )
        await stores.admission.submit([attrs.evolve(submission, launch=full)])

        read = await stores.launches.read(RUN, caller="contract")

        assert read is not None
        assert (
            attrs.evolve(
                read,
                table_namespaces=tuple(read.table_namespaces),
                secret_names=tuple(read.secret_names),
            )
            == full
        )

    async def test_an_input_is_read_as_given(self, stores: Stores) -> None:
        """Any JSON is an input, nothing at all among them, and an unknown run has none."""
        scene = await Scene.on(stores)
        inputs: list[Json] = [None, 0, "text", [1, {"deep": [None, True, 1.5]}], {"ä": "ö", "": []}]
        for number, given in enumerate(inputs):
            submission = attrs.evolve(scene.submission(f"run-{number}"), input_json=given)
            await stores.admission.submit([submission])

        for number, given in enumerate(inputs):
            assert await stores.launches.read_input(RunId(f"run-{number}")) == given
        await refused(stores.launches.read_input(RunId("run-unknown")), NotFound)
        assert await stores.launches.read(RunId("run-unknown"), caller="contract") is None

    async def test_a_bundle_is_its_organisations(self, stores: Stores) -> None:
        """A bundle is stored once under its hash and read by its own organisation only."""
        for _ in range(2):
            await stores.launches.put_bundle(ORG, HASH, b"zip\x00bytes")

        assert await stores.launches.read_bundle(ORG, HASH) == b"zip\x00bytes"
        await refused(stores.launches.read_bundle(OrgId("org-2"), HASH), NotFound)
        await refused(stores.launches.read_bundle(ORG, HASH[::-1]), NotFound)
