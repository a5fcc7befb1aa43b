"""Submitting over HTTP: bundles first, then one run or up to a hundred (C06, C07)."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

import attrs
import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deepline.core.model.identity import AttemptKey, OrgId, RunId
from deepline.core.model.json_value import JsonObject
from deepline.gateway.authentication import Principal, authenticate_person
from deepline.gateway.boundary import TRACE_PARENT
from deepline.gateway.context import Gateway
from deepline.gateway.fault_header import HEADER, sign_fault
from deepline.gateway.launch_request import (
    LaunchRequest,
    check_continues,
    check_run_id,
    inherit,
    read_launch_request,
    reject_scheduled_child,
)
from deepline.gateway.problems import Problem, invalid, unknown_run
from deepline.gateway.routes import json_response, route
from deepline.gateway.run_ids import generate_run_id
from deepline.gateway.submitting import (
    Handle,
    Rejected,
    Submitter,
    handle_answer,
    rejected_answer,
    rejected_problem,
)
from deepline.ports.errors import NotFound
from deepline.ports.wire import fields

_BUNDLES_REMEMBERED = 4_096


class SubmitRoutes:
    """Routes that bring work in."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._submitter = Submitter(gateway)
        self._bundles: OrderedDict[tuple[OrgId, str], None] = OrderedDict()
        self._hashers = trio.CapacityLimiter(2)

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            route("PUT", "/api/v1/bundles/{sha256}", self.put_bundle),
            route("POST", "/api/v1/runs", self.submit),
        ]

    async def put_bundle(self, request: Request) -> Response:
        """Store a play's zip under its own hash; sending it again changes nothing."""
        principal = await authenticate_person(self._gateway, request)
        named = str(request.path_params["sha256"])
        longest = self._gateway.settings.bodies.bundle
        async with self._gateway.bodies.read(request, longest) as content:
            digest = await trio.to_thread.run_sync(hashlib.sha256, content, limiter=self._hashers)
            if digest.hexdigest() != named:
                raise Problem(
                    422,
                    "bundle_hash_mismatch",
                    "The path must end in the hex SHA-256 of the bytes sent; compute it again.",
                )
            await self._gateway.write(
                self._gateway.ports.launches.put_bundle, principal.org_id, named, content
            )
        self._remember(principal.org_id, named)
        return Response(status_code=204)

    async def submit(self, request: Request) -> Response:
        """Submit one launch request, or `{runs: [...]}`; once answered, the work is claimable."""
        principal = await authenticate_person(self._gateway, request)
        longest = self._gateway.settings.bodies.submit
        async with self._gateway.bodies.read_document(request, longest) as document:
            alone = "runs" not in document
            documents = [(document, "")] if alone else self._batch(document)
            for one, path in documents:
                reject_scheduled_child(one, path)
            asked = [await self._read(request, one, path, principal) for one, path in documents]
            _refuse_repetition(asked)
            await self._require_bundles(asked)
            answers = await self._submitter.submit(
                asked, principal, trace_parent=request.scope.get(TRACE_PARENT)
            )
        return self._answer_one(answers[0]) if alone else self._answer_all(answers)

    def _batch(self, document: JsonObject) -> list[tuple[JsonObject, str]]:
        items = fields.as_array(document.get("runs"), "runs")
        most = self._gateway.settings.batch_size
        if not 1 <= len(items) <= most:
            raise invalid(f"runs: give 1 to {most} at a time.")
        return [
            (fields.as_object(item, f"runs[{index}]"), f"runs[{index}]")
            for index, item in enumerate(items)
        ]

    async def _read(
        self, request: Request, document: JsonObject, path: str, principal: Principal
    ) -> LaunchRequest:
        ports, settings = self._gateway.ports, self._gateway.settings
        given = fields.optional_text(document, "runId", path)
        run_id = (
            generate_run_id(ports.clock.now(), ports.chance)
            if given is None
            else check_run_id(given)
        )
        retried = fields.optional_text(document, "retryOf", path)
        continues = check_continues(document, path)
        retried_trace = None
        if retried is not None:
            earlier = RunId(retried)
            document, retried_trace = await self._inherit(document, earlier, principal)
            if continues:
                await self._require_copyable(earlier)
        fault = None
        if settings.takes_test_faults:
            fault = sign_fault(self._gateway.keys, run_id, request.headers.get(HEADER))
        asked = read_launch_request(
            document,
            path,
            run_id=run_id,
            principal=principal,
            settings=settings,
            test_fault_header=fault,
        )
        return attrs.evolve(asked, retried_trace=retried_trace)

    async def _inherit(
        self, document: JsonObject, retried: RunId, principal: Principal
    ) -> tuple[JsonObject, str | None]:
        """What is asked for, filled in from the retried run, and that run's place in a trace."""
        ports = self._gateway.ports
        # The organisation's own runs only, for operators too: what is run again is run here.
        found = await ports.runs.read(retried, principal.org_id)
        if found is None:
            raise unknown_run()
        if not found.run.status.is_terminal:
            raise Problem(
                409,
                "run_not_ended",
                f"The run {retried} has not ended; cancel it first, or wait for its end.",
            )
        launch = await ports.launches.read(retried, caller="retry")
        if launch is None:
            raise unknown_run()
        given = document.get("input")
        kept = await ports.launches.read_input(retried) if "input" not in document else given
        return inherit(document, launch, kept), launch.trace_parent

    async def _require_copyable(self, retried: RunId) -> None:
        sheets = self._gateway.ports.sheets
        namespaces = await sheets.namespaces(retried)
        counts = await sheets.settled(AttemptKey(retried, 0), namespaces)
        rows = sum(sheet.completed for sheet in counts)
        most = self._gateway.settings.continued_rows
        if rows > most:
            raise Problem(
                422,
                "too_many_rows",
                f"The run finished {rows} rows, and at most {most} are taken over; retry it from "
                "the beginning.",
            )

    async def _require_bundles(self, asked: Sequence[LaunchRequest]) -> None:
        for request in asked:
            launch = request.launch
            assert launch.bundle_hash is not None
            known = (launch.org_id, launch.bundle_hash)
            if known in self._bundles:
                continue
            try:
                await self._gateway.ports.launches.read_bundle(*known)
            except NotFound as error:
                raise Problem(
                    422,
                    "bundle_missing",
                    "The bundle is not stored; PUT it to /api/v1/bundles/{sha256} first.",
                ) from error
            self._remember(*known)

    def _remember(self, org_id: OrgId, bundle_hash: str) -> None:
        # Bundles are named by their content and stay, so what was seen once need not be read again.
        self._bundles[org_id, bundle_hash] = None
        if len(self._bundles) > _BUNDLES_REMEMBERED:
            self._bundles.popitem(last=False)

    def _answer_one(self, answer: Handle | Rejected) -> Response:
        if isinstance(answer, Rejected):
            raise rejected_problem(answer)
        status = 201 if answer.submitted.run_created else 200
        body = handle_answer(answer, self._gateway.settings.scheduler_schema)
        return json_response(body, status, headers={"location": f"/api/v1/runs/{answer.run_id}"})

    def _answer_all(self, answers: Sequence[Handle | Rejected]) -> Response:
        schema = self._gateway.settings.scheduler_schema
        return json_response(
            {
                "receipts": [
                    rejected_answer(answer)
                    if isinstance(answer, Rejected)
                    else handle_answer(answer, schema)
                    for answer in answers
                ]
            }
        )


def _refuse_repetition(asked: Sequence[LaunchRequest]) -> None:
    if len({request.launch.run_id for request in asked}) < len(asked):
        raise invalid("runs: the same runId stands twice; give each run its own.")
