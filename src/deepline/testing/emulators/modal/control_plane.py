"""The emulated control plane: accounts, apps, images, and the life of sandboxes.

Of the real one it copies what a client can be hurt by: a termination is answered before it takes
effect, a name can be used again once its sandbox has ended, and a sandbox of another workspace is
not found.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence

from google.protobuf.empty_pb2 import Empty
from grpclib import GRPCError, Status
from modal_proto import api_pb2

from deepline.testing.emulators.modal.accounts import Accounts, Apps, passing_token
from deepline.testing.emulators.modal.sandboxes import (
    Ended,
    Program,
    Sandbox,
    Sandboxes,
    SandboxNotStarted,
    described,
)
from deepline.testing.emulators.modal.service import Handler, Metadata, unary
from deepline.testing.emulators.modal.temper import Temper

LOOK_S = 0.02
TIMEOUT_DEFAULT_S = 300
BUILDER = "2025.06"
_STATUSES = {
    "success": api_pb2.GenericResult.GENERIC_STATUS_SUCCESS,
    "failure": api_pb2.GenericResult.GENERIC_STATUS_FAILURE,
    "timeout": api_pb2.GenericResult.GENERIC_STATUS_TIMEOUT,
    "terminated": api_pb2.GenericResult.GENERIC_STATUS_TERMINATED,
    "internal_failure": api_pb2.GenericResult.GENERIC_STATUS_INTERNAL_FAILURE,
}


class ControlPlane:
    """Answers the calls of the control plane; `router_url` is where its command router is."""

    def __init__(
        self, accounts: Accounts, apps: Apps, sandboxes: Sandboxes, router_url: str
    ) -> None:
        self.temper = Temper()
        self._accounts = accounts
        self._apps = apps
        self._sandboxes = sandboxes
        self._router_url = router_url
        self._not_found_until: dict[tuple[str, str], float] = {}
        self._creating: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)

    def handlers(self) -> dict[str, Handler]:
        """The calls that are emulated, by their names."""
        return {
            "ClientHello": unary(self.hello),
            "AuthTokenGet": unary(self.auth_token),
            "WorkspaceNameLookup": unary(self.workspace),
            "EnvironmentGetOrCreate": unary(self.environment),
            "AppGetOrCreate": unary(self.app),
            "ImageGetOrCreate": unary(self.image),
            "ImageFromId": unary(self.image_from_id),
            "SandboxCreateV2": unary(self.create),
            "SandboxWaitV2": unary(self.wait),
            "SandboxWait": unary(self.older_kind),
            "SandboxTerminateV2": unary(self.terminate),
            "SandboxGetTaskIdV2": unary(self.task_id),
            "SandboxGetCommandRouterAccess": unary(self.router_access),
            "SandboxGetFromNameV2": unary(self.from_name),
            "SandboxGetFromName": unary(self.older_kind),
            "SandboxListV2": unary(self.list_page),
            "SandboxTagsGetV2": unary(self.tags),
        }

    async def hello(self, _request: Empty, metadata: Metadata) -> api_pb2.ClientHelloResponse:
        """Greet a caller whose token is good."""
        self._accounts.workspace_of(metadata)
        return api_pb2.ClientHelloResponse(image_builder_version=BUILDER)

    async def auth_token(
        self, _request: object, metadata: Metadata
    ) -> api_pb2.AuthTokenGetResponse:
        """Give the token that calls about sandboxes carry."""
        workspace = self._accounts.workspace_of(metadata)
        return api_pb2.AuthTokenGetResponse(token=passing_token(workspace))

    async def workspace(
        self, _request: object, metadata: Metadata
    ) -> api_pb2.WorkspaceNameLookupResponse:
        """Name the caller's workspace."""
        name = self._accounts.workspace_of(metadata)
        return api_pb2.WorkspaceNameLookupResponse(workspace_name=name, username=name)

    async def environment(
        self, request: api_pb2.EnvironmentGetOrCreateRequest, metadata: Metadata
    ) -> api_pb2.EnvironmentGetOrCreateResponse:
        """Every environment exists."""
        self._accounts.workspace_of(metadata)
        name = request.deployment_name or "main"
        return api_pb2.EnvironmentGetOrCreateResponse(
            environment_id=f"en-{name}",
            metadata=api_pb2.EnvironmentMetadata(
                name=name, settings=api_pb2.EnvironmentSettings(image_builder_version=BUILDER)
            ),
        )

    async def app(
        self, request: api_pb2.AppGetOrCreateRequest, metadata: Metadata
    ) -> api_pb2.AppGetOrCreateResponse:
        """Find an app, or make one if asked to."""
        asked = (
            self._accounts.workspace_of(metadata),
            request.environment_name,
            request.app_name,
        )
        if request.object_creation_type == api_pb2.OBJECT_CREATION_TYPE_CREATE_IF_MISSING:
            return api_pb2.AppGetOrCreateResponse(app_id=self._apps.get_or_create(*asked))
        found = self._apps.find(*asked)
        if found is None:
            raise GRPCError(Status.NOT_FOUND, f"App '{request.app_name}' not found")
        return api_pb2.AppGetOrCreateResponse(app_id=found)

    async def image(self, _request: object, metadata: Metadata) -> api_pb2.ImageGetOrCreateResponse:
        """Every image is there and is this machine: nothing is built."""
        self._accounts.workspace_of(metadata)
        built = api_pb2.GenericResult(status=_STATUSES["success"])
        return api_pb2.ImageGetOrCreateResponse(image_id="im-emulated", result=built)

    async def image_from_id(
        self, request: api_pb2.ImageFromIdRequest, metadata: Metadata
    ) -> api_pb2.ImageFromIdResponse:
        """Every image exists."""
        self._accounts.workspace_of(metadata)
        return api_pb2.ImageFromIdResponse(
            image_id=request.image_id, metadata=api_pb2.ImageMetadata()
        )

    async def create(
        self, request: api_pb2.SandboxCreateV2Request, metadata: Metadata
    ) -> api_pb2.SandboxCreateV2Response:
        """Start a sandbox, unless one of its name runs in the app."""
        workspace = self._accounts.workspace_of(metadata)
        asked = request.definition
        sandbox = described(
            workspace=workspace,
            app_id=request.app_id,
            name=asked.name,
            tags={tag.tag_name: tag.tag_value for tag in request.tags},
            time_s=asked.timeout_secs or TIMEOUT_DEFAULT_S,
        )
        program = Program(
            arguments=list(asked.entrypoint_args) or ["sleep", "86400"],
            environment=environment_of(request.secret_sources),
            directory=asked.workdir or "/",
        )
        async with self._creating[request.app_id, asked.name or sandbox.sandbox_id]:
            await self._create(sandbox, program)
        return api_pb2.SandboxCreateV2Response(
            sandbox_id=sandbox.sandbox_id,
            task_id=sandbox.task_id,
            metadata=self._metadata_of(sandbox),
            command_router_access=self._access(sandbox),
        )

    async def _create(self, sandbox: Sandbox, program: Program) -> None:
        if sandbox.name and self._alive(sandbox.app_id, sandbox.name):
            raise GRPCError(Status.ALREADY_EXISTS, f"Sandbox '{sandbox.name}' already exists")
        try:
            await asyncio.to_thread(self._sandboxes.create, sandbox, program)
        except SandboxNotStarted as failure:
            raise GRPCError(Status.INVALID_ARGUMENT, str(failure)) from failure

    async def wait(
        self, request: api_pb2.SandboxWaitRequest, metadata: Metadata
    ) -> api_pb2.SandboxWaitResponse:
        """How a sandbox ended, once it has or the time is up."""
        sandbox = self._mine(request.sandbox_id, metadata)
        ends_at = time.monotonic() + request.timeout
        while (ended := self._sandboxes.ended(sandbox.sandbox_id)) is None:
            if time.monotonic() >= ends_at:
                break
            await asyncio.sleep(LOOK_S)
        return api_pb2.SandboxWaitResponse(
            result=_result(ended), metadata=self._metadata_of(sandbox)
        )

    async def older_kind(self, request: object, metadata: Metadata) -> Empty:
        """Sandboxes of the kind before: there are none here."""
        self._accounts.workspace_of(metadata)
        raise GRPCError(Status.NOT_FOUND, "Sandbox not found.")

    async def terminate(
        self, request: api_pb2.SandboxTerminateRequest, metadata: Metadata
    ) -> api_pb2.SandboxTerminateResponse:
        """Accept a termination, which takes effect a little later."""
        sandbox = self._mine(request.sandbox_id, metadata)
        ended = self._sandboxes.ended(sandbox.sandbox_id)
        if ended is not None:
            return api_pb2.SandboxTerminateResponse(existing_result=_result(ended))
        self._sandboxes.terminate(sandbox.sandbox_id, delay_s=self.temper.terminate_delay_s)
        return api_pb2.SandboxTerminateResponse()

    async def task_id(
        self, request: api_pb2.SandboxGetTaskIdRequest, metadata: Metadata
    ) -> api_pb2.SandboxGetTaskIdResponse:
        """Name the task that a sandbox runs as."""
        sandbox = self._mine(request.sandbox_id, metadata)
        ended = self._sandboxes.ended(sandbox.sandbox_id)
        if ended is None:
            return api_pb2.SandboxGetTaskIdResponse(task_id=sandbox.task_id)
        return api_pb2.SandboxGetTaskIdResponse(task_id=sandbox.task_id, task_result=_result(ended))

    async def router_access(
        self, request: api_pb2.SandboxGetCommandRouterAccessRequest, metadata: Metadata
    ) -> api_pb2.SandboxGetCommandRouterAccessResponse:
        """Say where the command router of a sandbox is."""
        by_task = self._sandboxes.of_task(request.task_id)
        sandbox_id = request.sandbox_id or ("" if by_task is None else by_task.sandbox_id)
        access = self._access(self._mine(sandbox_id, metadata))
        return api_pb2.SandboxGetCommandRouterAccessResponse(url=access.url, jwt=access.jwt)

    async def from_name(
        self, request: api_pb2.SandboxGetFromNameRequest, metadata: Metadata
    ) -> api_pb2.SandboxGetFromNameResponse:
        """Find a sandbox by its name: the running one, or else the last one if asked to."""
        workspace = self._accounts.workspace_of(metadata)
        app_id = self._apps.find(workspace, request.environment_name, request.app_name) or ""
        found = self._named(app_id, request.sandbox_name)
        if not request.include_terminated:
            found = [one for one in found if self._sandboxes.ended(one.sandbox_id) is None]
        key = (app_id, request.sandbox_name)
        forgotten = time.monotonic() < self._not_found_until.get(key, 0)
        if not found or forgotten:
            if not forgotten:
                until = time.monotonic() + self.temper.negative_cache_s
                self._not_found_until[key] = until
            raise GRPCError(Status.NOT_FOUND, f"Sandbox '{request.sandbox_name}' not found")
        alive = [one for one in found if self._sandboxes.ended(one.sandbox_id) is None]
        sandbox = (alive or found)[0]
        return api_pb2.SandboxGetFromNameResponse(
            sandbox_id=sandbox.sandbox_id, metadata=self._metadata_of(sandbox)
        )

    async def list_page(
        self, request: api_pb2.SandboxListRequest, metadata: Metadata
    ) -> api_pb2.SandboxListResponse:
        """List sandboxes, the latest first, from a time backwards."""
        workspace = self._accounts.workspace_of(metadata)
        wanted = {tag.tag_name: tag.tag_value for tag in request.tags}
        before = request.before_timestamp or time.time() - self.temper.list_lag_s
        found = [
            one
            for one in self._sandboxes.all()
            if one.workspace == workspace
            and one.created_at < before
            and (not request.app_id or one.app_id == request.app_id)
            and wanted.items() <= one.tags.items()
            and (request.include_finished or self._sandboxes.ended(one.sandbox_id) is None)
        ]
        page = found[: self.temper.page_size]
        return api_pb2.SandboxListResponse(sandboxes=[self._listed(one) for one in page])

    async def tags(
        self, request: api_pb2.SandboxTagsGetRequest, metadata: Metadata
    ) -> api_pb2.SandboxTagsGetResponse:
        """A sandbox's tags."""
        return api_pb2.SandboxTagsGetResponse(tags=_tags(self._mine(request.sandbox_id, metadata)))

    def _mine(self, sandbox_id: str, metadata: Metadata) -> Sandbox:
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is None or sandbox.workspace != self._accounts.workspace_of(metadata):
            raise GRPCError(Status.NOT_FOUND, f"Sandbox with ID {sandbox_id} not found.")
        return sandbox

    def _named(self, app_id: str, name: str) -> list[Sandbox]:
        return [one for one in self._sandboxes.all() if (one.app_id, one.name) == (app_id, name)]

    def _alive(self, app_id: str, name: str) -> bool:
        named = self._named(app_id, name)
        return any(self._sandboxes.ended(one.sandbox_id) is None for one in named)

    def _access(self, sandbox: Sandbox) -> api_pb2.CommandRouterAccess:
        return api_pb2.CommandRouterAccess(url=self._router_url, jwt=passing_token(sandbox.task_id))

    def _metadata_of(self, sandbox: Sandbox) -> api_pb2.SandboxHandleMetadata:
        ended = self._sandboxes.ended(sandbox.sandbox_id)
        return api_pb2.SandboxHandleMetadata(
            app_id=sandbox.app_id, result=None if ended is None else _result(ended)
        )

    def _listed(self, sandbox: Sandbox) -> api_pb2.SandboxInfo:
        result = _result(self._sandboxes.ended(sandbox.sandbox_id))
        return api_pb2.SandboxInfo(
            id=sandbox.sandbox_id,
            created_at=sandbox.created_at,
            app_id=sandbox.app_id,
            name=sandbox.name,
            metadata=self._metadata_of(sandbox),
            task_info=api_pb2.TaskInfo(id=sandbox.task_id, result=result),
        )


def environment_of(sources: Sequence[api_pb2.SecretSource]) -> dict[str, str]:
    """The variables that were sent along; stored secrets there are none."""
    return {
        name: value
        for source in sources
        if source.HasField("env")
        for name, value in source.env.contents.items()
    }


def _result(ended: Ended | None) -> api_pb2.GenericResult:
    if ended is None:
        return api_pb2.GenericResult()
    return api_pb2.GenericResult(status=_STATUSES[ended.how], exitcode=ended.code)


def _tags(sandbox: Sandbox) -> list[api_pb2.SandboxTag]:
    return [
        api_pb2.SandboxTag(tag_name=name, tag_value=value) for name, value in sandbox.tags.items()
    ]
