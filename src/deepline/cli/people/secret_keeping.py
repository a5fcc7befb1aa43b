"""`deepline secrets`: one question to a gateway, also where none is running."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import attrs

from deepline.adapters.http.api_client import ApiClient
from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.people.embedded_gateway import embedded_deployment
from deepline.cli.people.gateways import Gateway, answers, reached
from deepline.cli.settings.parts import masked
from deepline.core.model.json_value import Json, JsonObject
from deepline.ports.wire import encode_json


@attrs.frozen(kw_only=True)
class SecretKeeping:
    """Keeps secrets at a gateway; at this machine's own, which is started when it does not run."""

    gateway: Gateway
    environment: Mapping[str, str] = attrs.field(repr=masked)
    json: bool = False

    async def keep(self, name: str, value: str) -> ExitCode:
        """Keep a value under a name."""
        async with self._client() as client:
            await client.keep_secret(name, value)
        done: dict[str, Json] = {"name": name, "set": True}
        self._print([done], [f"{name} is set; runs use it with --secret {name}"])
        return ExitCode.DONE

    async def list(self) -> ExitCode:
        """Print the names."""
        async with self._client() as client:
            secrets = await client.secrets()
        self._print(secrets, [_line(secret) for secret in secrets] or ["no secrets are kept"])
        return ExitCode.DONE

    async def remove(self, name: str) -> ExitCode:
        """Remove one. Raises `CommandFailed` when there is none."""
        async with self._client() as client:
            removed = await client.remove_secret(name)
        if not removed:
            raise CommandFailed(f"there is no secret {name}; `deepline secrets list` shows them")
        done: dict[str, Json] = {"name": name, "removed": True}
        self._print([done], [f"{name} is removed"])
        return ExitCode.DONE

    def _print(self, documents: Sequence[JsonObject], lines: Sequence[str]) -> None:
        for line in map(encode_json, documents) if self.json else lines:
            print(line)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[ApiClient]:
        if self.gateway.configured or await answers(self.gateway):
            async with reached(self.gateway) as client:
                yield client
            return
        home = self.gateway.home
        async with (
            embedded_deployment(home, self.environment, worker=False) as ready,
            reached(attrs.evolve(self.gateway, url=ready.url)) as client,
        ):
            yield client


def _line(secret: JsonObject) -> str:
    at = secret.get("updatedAtMs")
    seconds = at / 1000 if isinstance(at, int) else 0
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}  {secret.get('name')}"
