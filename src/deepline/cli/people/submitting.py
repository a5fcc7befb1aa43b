"""From a play on disk and what a person said about it to a run in the store (C07)."""

import random
from datetime import timedelta
from pathlib import Path

import attrs
import trio

from deepline.adapters.http.api_client import ApiClient, RunReceipt, SubmitRequest
from deepline.adapters.runner_bundle import BundleRefused, PlayBundle, bundle_play
from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.people.input_files import PlayInput
from deepline.core.instants import length_ms
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json


@attrs.frozen(kw_only=True)
class Order:
    """A run as it was ordered. `run_id` is chosen here, so that submitting may be repeated."""

    bundle: PlayBundle
    given: PlayInput
    run_id: RunId
    name: str | None = None
    ceiling: timedelta | None = None
    secret_names: tuple[str, ...] = ()

    @property
    def play_name(self) -> str:
        """What the run's play is called."""
        return self.name or self.bundle.play_name

    async def submit(self, client: ApiClient) -> RunReceipt:
        """Store the bundle, then the run; doing it again changes nothing."""
        bundle_hash = await client.put_bundle(self.bundle.content)
        options: dict[str, Json] = {"entry": self.bundle.entry}
        if self.ceiling is not None:
            options["ceilingMs"] = length_ms(self.ceiling)
        if self.secret_names:
            options["secretNames"] = list(self.secret_names)
        return await client.submit(
            SubmitRequest(
                play_name=self.play_name,
                bundle_hash=bundle_hash,
                input_json=self.given.value,
                run_id=self.run_id,
                options=options,
            )
        )


def fresh_run_id(chance: random.Random) -> RunId:
    """An id that nobody has."""
    return RunId(f"run_{chance.getrandbits(128):032x}")


async def packed(path: Path) -> PlayBundle:
    """Pack the play. Raises `CommandFailed`, code USAGE, with what to change."""
    try:
        return await trio.to_thread.run_sync(bundle_play, path)
    except BundleRefused as refusal:
        raise CommandFailed(str(refusal), ExitCode.USAGE) from None
