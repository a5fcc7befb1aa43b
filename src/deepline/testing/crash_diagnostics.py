"""What every `CrashDiagnostics` keeps (C44)."""

from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.json_value import JsonObject
from deepline.ports.crash_diagnostics import DIAGNOSTIC_BYTES_MAX
from deepline.ports.errors import NotFound, Refused
from deepline.testing.refusals import refused
from deepline.testing.scene import Scene
from deepline.testing.stores import Stores

FOUND: JsonObject = {"exitCode": 137, "tail": ["out of memory"]}


class CrashDiagnosticsContract:
    """Asks for `stores`."""

    async def test_the_first_capture_stays(self, stores: Stores) -> None:
        """A second capture of an attempt, also after its end, changes nothing."""
        scene = await Scene.on(stores)
        held = await scene.started()
        assert await stores.crash_diagnostics.read(held.key) is None
        await scene.commit(held)

        assert await stores.crash_diagnostics.save(held.key, FOUND)
        assert not await stores.crash_diagnostics.save(held.key, {"exitCode": 1})

        kept = await stores.crash_diagnostics.read(held.key)
        assert kept is not None
        assert kept.diagnostic == FOUND

    async def test_an_unknown_attempt_has_none(self, stores: Stores) -> None:
        """Nothing is kept for an attempt that does not exist."""
        scene = await Scene.on(stores)
        await scene.submit()
        unknown = AttemptKey(RunId("run-1"), 3)

        await refused(stores.crash_diagnostics.save(unknown, FOUND), NotFound)
        assert await stores.crash_diagnostics.read(unknown) is None

    async def test_a_capture_is_bounded(self, stores: Stores) -> None:
        """What is too large or cannot be stored is refused with a code."""
        scene = await Scene.on(stores)
        held = await scene.started()
        large: JsonObject = {"tail": "x" * DIAGNOSTIC_BYTES_MAX}
        unstorable: JsonObject = {"tail": "a\x00b"}

        for diagnostic, code in ((large, "too_large"), (unstorable, "nul")):
            problem = await refused(stores.crash_diagnostics.save(held.key, diagnostic), Refused)
            assert problem.code == code
        assert await stores.crash_diagnostics.read(held.key) is None
