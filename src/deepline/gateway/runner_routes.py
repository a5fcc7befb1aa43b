"""What a runner needs to begin and to stay alive: launch, bundle, beats, token, events (C34).

A token that verifies says for whom a runner speaks. Whether that attempt is live is the store's
word: nothing is written, and no secret is handed out, for one that is over.
"""

import attrs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deepline.core.instants import length_ms, to_ms
from deepline.core.model.attempt import Attempt
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.launch import Launch
from deepline.core.parking import carry_over
from deepline.gateway.authentication import authenticate_runner
from deepline.gateway.context import Gateway
from deepline.gateway.executor_tokens import RunnerIdentity
from deepline.gateway.fault_header import signed_silence_ms
from deepline.gateway.problems import ATTEMPT_OVER, Problem, invalid
from deepline.gateway.routes import json_response, route
from deepline.ports.errors import FenceLost, NotFound
from deepline.ports.liveness import BeatRefused
from deepline.ports.run_events import LiveEvent
from deepline.ports.wire import checkpoint_to_json, fields

_MOST_EVENTS = 1_000
_LONGEST_EVENT_ID = 200
_EVENT_KINDS = ("log", "progress", "step")


class RunnerRoutes:
    """Routes behind an executor token."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._ports = gateway.ports

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            route("GET", "/api/v1/runner/launch", self.launch),
            route("GET", "/api/v1/runner/bundle", self.bundle),
            route("POST", "/api/v1/runner/heartbeat", self.heartbeat),
            route("POST", "/api/v1/runner/token", self.renew_token),
            route("POST", "/api/v1/runner/events", self.events),
        ]

    async def launch(self, request: Request) -> Response:
        """Everything the play needs, its secrets resolved for this one answer."""
        runner = authenticate_runner(self._gateway, request)
        await self._require_live(runner)
        launch = await self._read_launch(runner)
        attempt = await self._ports.attempts.read(runner.key)
        if attempt is None:
            raise FenceLost("the attempt is gone")
        if launch.retry_of is not None:
            begun = await self._ports.launches.read_checkpoint(launch.run_id)
            carried = carry_over(begun, attempt.checkpoint)
            attempt = attrs.evolve(attempt, checkpoint=carried)
        answer = self._launch_answer(launch, attempt)
        answer["input"] = await self._ports.launches.read_input(runner.key.run_id)
        answer["nowMs"] = to_ms(await self._ports.liveness.now())
        answer["secrets"] = await self._resolve_secrets(launch)
        return json_response(answer)

    async def bundle(self, request: Request) -> Response:
        """The play's zip."""
        runner = authenticate_runner(self._gateway, request)
        await self._require_live(runner)
        launch = await self._read_launch(runner)
        if launch.bundle_hash is None:
            raise NotFound("this run has no bundle")
        content = await self._ports.launches.read_bundle(launch.org_id, launch.bundle_hash)
        return Response(content, media_type="application/zip")

    async def heartbeat(self, request: Request) -> Response:
        """Accept one beat; refused beats tell the runner to stop."""
        runner = authenticate_runner(self._gateway, request)
        async with self._gateway.bodies.read(request, self._gateway.settings.bodies.heartbeat):
            pass
        outcome = await self._gateway.write(self._ports.liveness.beat, runner.key)
        if isinstance(outcome, BeatRefused):
            raise Problem(
                409, ATTEMPT_OVER, f"This attempt takes no more beats ({outcome.reason}); stop."
            )
        return json_response({"heartbeatIdentity": outcome.identity.value})

    async def renew_token(self, request: Request) -> Response:
        """Another token for the same attempt, while it is live."""
        runner = authenticate_runner(self._gateway, request)
        async with self._gateway.bodies.read(request, self._gateway.settings.bodies.heartbeat):
            pass
        await self._require_live(runner)
        return json_response(self._gateway.issuer.mint(runner))

    async def events(self, request: Request) -> Response:
        """Take log lines, progress and steps into the ledger.

        The runner's event ids are kept apart from all others: none of them can take the place of
        the run's own facts, such as its terminal.
        """
        runner = authenticate_runner(self._gateway, request)
        longest = self._gateway.settings.bodies.events
        async with self._gateway.bodies.read_document(request, longest) as document:
            items = fields.as_array(document.get("events"), "events")
            if len(items) > _MOST_EVENTS:
                raise invalid(f"events: at most {_MOST_EVENTS} at a time.")
            events = [
                _live_event(runner, item, f"events[{index}]") for index, item in enumerate(items)
            ]
            accepted = 0
            if events:
                accepted = await self._gateway.write(
                    self._ports.run_events.append, runner.key, events
                )
        self._ports.poke(runner.key.run_id)
        return json_response({"accepted": accepted})

    async def _require_live(self, runner: RunnerIdentity) -> None:
        if not await self._ports.attempts.key_is_live(runner.key):
            raise FenceLost("the attempt is not live")

    async def _read_launch(self, runner: RunnerIdentity) -> Launch:
        launch = await self._ports.launches.read(runner.key.run_id, caller="runner")
        if launch is None or launch.org_id != runner.org_id:
            raise NotFound("the launch of this run is missing")
        return launch

    def _launch_answer(self, launch: Launch, attempt: Attempt) -> dict[str, Json]:
        limits = self._gateway.settings.limits
        ceiling = limits.detached_ceiling if launch.ceiling is None else launch.ceiling
        answer: dict[str, Json] = {
            "runId": launch.run_id,
            "attempt": attempt.ref.attempt,
            "orgId": launch.org_id,
            "playName": launch.play_name,
            "entry": launch.entry,
            "graphHash": launch.graph_hash,
            "bundleHash": launch.bundle_hash,
            "heartbeatMs": length_ms(limits.heartbeat_period),
            "leaseMs": length_ms(limits.claim_lease),
            "ceilingMs": length_ms(ceiling),
            "checkpoint": checkpoint_to_json(attempt.checkpoint),
        }
        silence_ms = 0
        if self._gateway.settings.takes_test_faults:
            silence_ms = signed_silence_ms(
                self._gateway.keys, launch.run_id, launch.test_fault_header
            )
        if silence_ms > 0:
            answer["heartbeatSilenceMs"] = silence_ms
        return answer

    async def _resolve_secrets(self, launch: Launch) -> JsonObject:
        found: dict[str, Json] = {}
        missing: list[str] = []
        for name in launch.secret_names:
            value = await self._ports.secrets.resolve(launch.org_id, name)
            if value is None:
                missing.append(name)
            else:
                found[name] = value
        if missing:
            raise Problem(
                422,
                "secret_missing",
                f"The launch names secrets that are not set: {', '.join(missing)}; set "
                "them with `deepline secrets set NAME`.",
            )
        return found


def _live_event(runner: RunnerIdentity, item: Json, path: str) -> LiveEvent:
    document = fields.as_object(item, path)
    kind = fields.text(document, "kind", path)
    if kind not in _EVENT_KINDS:
        raise invalid(f"{path}.kind: must be one of {', '.join(_EVENT_KINDS)}.")
    event_id = fields.text(document, "eventId", path, longest=_LONGEST_EVENT_ID)
    payload = fields.optional_object(document, "payload", path)
    return LiveEvent(
        event_id=f"runner:{runner.key.attempt}:{event_id}",
        kind=kind,
        payload={} if payload is None else payload,
    )
