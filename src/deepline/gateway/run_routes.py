"""Looking at runs and steering them: list, show, wait, cancel, signal, explain (C08, C09, C11)."""

from functools import partial

import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deepline.core.instants import EPOCH, MILLISECOND
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.run import Run, RunStatus
from deepline.core.model.signal import Signal
from deepline.core.model.why import Why
from deepline.core.queues import lane_of_launch
from deepline.core.signals import CancelAsked, SignalRefused, normalise_signal
from deepline.gateway.authentication import Principal, authenticate_person
from deepline.gateway.context import Gateway
from deepline.gateway.explanation import explanation_view
from deepline.gateway.presence import while_present
from deepline.gateway.problems import Problem, unknown_run
from deepline.gateway.query import LATEST_MS, query_integer, query_text, seen_organisation
from deepline.gateway.routes import json_response, route
from deepline.gateway.stranded import StrandedLanes
from deepline.gateway.views import crash_view, list_cursor, outcome_view, read_list_cursor, run_view
from deepline.ports.runs import RunFilter, RunOutcome
from deepline.ports.terminals import Cancelled
from deepline.ports.wire import fields

_SIGNAL = "absurd-runtime.signal"
_MOST_LISTED = 500
_LONGEST_REASON = 1_000
_LEAST_PAUSE_S = 0.02
"""Between two looks at a watched run, so that a chatty run does not make its watchers spin."""


class RunRoutes:
    """Routes about runs that exist."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._ports = gateway.ports
        self._stranded = StrandedLanes(
            lanes=gateway.ports.lanes,
            clock=gateway.ports.clock,
            lost_after=gateway.settings.limits.lane_worker_lost,
        )

    def routes(self) -> list[Route]:
        """The routes."""
        one = "/api/v1/runs/{run_id}"
        return [
            route("GET", "/api/v1/runs", self.list),
            route("GET", one, self.show),
            route("GET", f"{one}/explanation", self.explain),
            route("POST", f"{one}/cancel", self.cancel),
            route("POST", f"{one}/signal", self.signal),
        ]

    async def list(self, request: Request) -> Response:
        """Runs, newest first, with the cursor of the next page."""
        principal = await authenticate_person(self._gateway, request)
        limit = query_integer(request, "limit", default=50, lowest=1, highest=_MOST_LISTED)
        before = query_text(request, "before", longest=512)
        since_ms = query_integer(request, "since", default=0, lowest=0, highest=LATEST_MS)
        runs = await self._ports.runs.list(
            RunFilter(
                org_id=seen_organisation(request, principal),
                statuses=_statuses(request),
                play_name=query_text(request, "play"),
                since=EPOCH + since_ms * MILLISECOND if since_ms else None,
                before=None if before is None else read_list_cursor(before),
                limit=limit,
            )
        )
        following = list_cursor(runs[-1]) if len(runs) == limit else None
        stranded = await self._stranded.among(runs)
        views = [run_view(run, stranded=run.run_id in stranded) for run in runs]
        return json_response({"runs": views, "next": following})

    async def show(self, request: Request) -> Response:
        """One run with its result; with `waitMs`, as soon as it has ended or that time is over."""
        principal = await authenticate_person(self._gateway, request)
        run_id = _run_id(request)
        longest = self._gateway.settings.longest_wait
        wait_ms = query_integer(
            request, "waitMs", default=0, lowest=0, highest=round(longest.total_seconds() * 1000)
        )
        outcome = await self._read(run_id, principal)
        if wait_ms and not outcome.run.status.is_terminal:
            with self._gateway.watching():
                wait = partial(self._until_terminal, run_id, wait_ms / 1000)
                await while_present(request.receive, wait, draining=self._gateway.draining)
            outcome = await self._read(run_id, principal)
        left_behind = await self._crash_view(outcome.run)
        is_stranded = bool(await self._stranded.among([outcome.run]))
        return json_response({**outcome_view(outcome, stranded=is_stranded), **left_behind})

    async def explain(self, request: Request) -> Response:
        """Why the run ended as it did, or why it is not moving."""
        principal = await authenticate_person(self._gateway, request)
        evidence = await self._ports.runs.evidence(_run_id(request), principal.sees)
        if evidence is None:
            raise unknown_run()
        left_behind = await self._crash_view(evidence.run)
        return json_response({**explanation_view(evidence), **left_behind})

    async def cancel(self, request: Request) -> Response:
        """End the run as cancelled unless it has ended; saying it again is harmless."""
        principal = await authenticate_person(self._gateway, request)
        longest = self._gateway.settings.bodies.small
        async with self._gateway.bodies.read_document(request, longest) as document:
            reason = fields.optional_text(document, "reason", "", longest=_LONGEST_REASON)
        run_id = _run_id(request)
        await self._read(run_id, principal)
        return await self._cancel(run_id, principal, reason or "cancelled by request")

    async def signal(self, request: Request) -> Response:
        """Store an integration event for the run and wake it; kind `cancel` cancels."""
        principal = await authenticate_person(self._gateway, request)
        run_id = _run_id(request)
        longest = self._gateway.settings.bodies.events
        async with self._gateway.bodies.read_document(request, longest) as document:
            await self._read(run_id, principal)
            decision = normalise_signal(
                document.get("kind"), document.get("eventKey"), document.get("data")
            )
            if isinstance(decision, SignalRefused):
                raise Problem(422, "signal_refused", f"{decision.message}.")
            if isinstance(decision, CancelAsked):
                return await self._cancel(run_id, principal, "cancelled by signal")
            signal_id = fields.optional_text(document, "signalId", "", longest=200)
            return await self._store_signal(run_id, decision.signal, signal_id)

    async def _store_signal(self, run_id: RunId, signal: Signal, signal_id: str | None) -> Response:
        stored = await self._gateway.write(
            self._ports.signals.put, run_id, signal, signal_id=signal_id
        )
        launch = await self._ports.launches.read(run_id, caller="signal")
        self._ports.telemetry.info(
            _SIGNAL,
            "event_emitted",
            runId=run_id,
            eventKey=signal.event_key,
            boundaryId=signal.boundary_id,
            releaseId=None if launch is None else launch.release_id,
            queue=None if launch is None else lane_of_launch(launch).lane,
            schema=self._gateway.settings.scheduler_schema,
        )
        return json_response({"stored": stored})

    async def _cancel(self, run_id: RunId, principal: Principal, reason: str) -> Response:
        evidence: dict[str, Json] = {"by": principal.name, "reason": reason}
        why = Why("cancel.requested", evidence)
        cancelling = self._ports.cancelling
        if cancelling is not None:
            outcome = await cancelling.cancel(run_id, by=principal.name, reason=reason, why=why)
        else:
            outcome = await self._gateway.write(
                self._ports.terminals.cancel, run_id, by=principal.name, reason=reason, why=why
            )
        self._ports.poke(run_id)
        if isinstance(outcome, Cancelled):
            status = RunStatus.CANCELLED.value
            self._ports.telemetry.count("run_terminals", status=status)
            self._ports.telemetry.count("run_ends", status=status, reason="cancel.requested")
            return json_response({"cancelled": True, "status": RunStatus.CANCELLED.value})
        if outcome.status is None:
            raise unknown_run()
        return json_response({"cancelled": False, "status": outcome.status.value})

    async def _crash_view(self, run: Run) -> JsonObject:
        """What a failed run's last sandbox left behind, where it could be read (C44)."""
        if run.status is not RunStatus.FAILED or run.attempt < 1:
            return {}
        found = await self._ports.crash_diagnostics.read(AttemptKey(run.run_id, run.attempt))
        return {} if found is None else {"crashDiagnostic": crash_view(found)}

    async def _read(self, run_id: RunId, principal: Principal) -> RunOutcome:
        outcome = await self._ports.runs.read(run_id, principal.sees)
        if outcome is None:
            raise unknown_run()
        return outcome

    async def _until_terminal(self, run_id: RunId, wait_s: float) -> None:
        poll_s = self._gateway.settings.observe_poll.total_seconds()
        with trio.move_on_after(wait_s), self._ports.hints.watch(run_id) as watch:
            while True:
                status = await self._ports.terminals.status(run_id)
                if status is None or status.is_terminal:
                    return
                await trio.sleep(_LEAST_PAUSE_S)
                with trio.move_on_after(poll_s):
                    await watch.changed()


def _run_id(request: Request) -> RunId:
    return RunId(str(request.path_params["run_id"]))


def _statuses(request: Request) -> tuple[RunStatus, ...]:
    text = query_text(request, "status")
    try:
        return tuple(RunStatus(part.strip()) for part in text.split(",")) if text else ()
    except ValueError:
        known = ", ".join(status.value for status in RunStatus)
        raise Problem(
            400, "invalid_query", f"status: name some of {known}, with commas between."
        ) from None
