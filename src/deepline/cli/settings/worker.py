"""What a worker must know before it starts (C01). It never reads a signing key (I45)."""

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from deepline.adapters.daytona import DaytonaSettings
from deepline.adapters.local import Isolation
from deepline.adapters.modal import ModalAccount
from deepline.cli.settings.daytona import read_daytona
from deepline.cli.settings.modal import read_modal
from deepline.cli.settings.parts import (
    ProcessSettings,
    StoreSettings,
    masked,
    read_limits,
    read_process,
    read_store,
)
from deepline.cli.settings.policies import read_policies
from deepline.cli.settings.reading import Reader
from deepline.core import environment, placement
from deepline.core.environment import (
    BackendUnknown,
    EnvironmentIncomplete,
    EnvironmentReady,
    SigningKeyRequired,
)
from deepline.core.lane_adoption import AdoptionPolicy
from deepline.core.limits import Limits
from deepline.core.model.placement import PlacementPolicy
from deepline.core.queues import choose_lane

_NAME_MAX = 60


@attrs.frozen(kw_only=True)
class WorkerRole:
    """One worker process. `providers` are those it can delete sandboxes from."""

    process: ProcessSettings
    store: StoreSettings
    limits: Limits
    backend: str
    providers: tuple[str, ...]
    internal_token: str = attrs.field(repr=masked)
    receipt_gateway_url: str
    front_door_bypass: str | None = attrs.field(default=None, repr=masked)
    name: str
    release_id: str | None = None
    queue_suffix: str | None = None
    slots: int = 10
    org_limit: int = 1_000
    isolation: Isolation = Isolation.PREFER
    daytona: DaytonaSettings
    modal: ModalAccount
    policies: Sequence[PlacementPolicy] = placement.POLICIES
    sandbox_limit: int | None = None
    sandbox_org_limit: int | None = None
    adoption: AdoptionPolicy = AdoptionPolicy.BEGUN
    drain_exit: bool = False

    @property
    def sandboxes(self) -> Path:
        """The directory of this machine's local sandboxes."""
        return self.process.home / "sandboxes"


def read_worker(values: Mapping[str, str]) -> WorkerRole:
    """Read everything a worker needs. Raises `SettingsRefused`, naming all that is wrong."""
    reader = Reader(values)
    policies = read_policies(reader)
    backend, providers = _backend(reader, values, policies)
    role = WorkerRole(
        process=read_process(reader),
        store=read_store(reader),
        limits=read_limits(reader),
        backend=backend,
        providers=providers,
        internal_token=reader.required("DEEPLINE_INTERNAL_TOKEN"),
        receipt_gateway_url=_gateway_url(reader),
        front_door_bypass=reader.text("DEEPLINE_FRONT_DOOR_BYPASS_SECRET"),
        name=base_name(reader),
        release_id=reader.text("DEEPLINE_RELEASE_ID"),
        queue_suffix=reader.text("DEEPLINE_QUEUE_SUFFIX"),
        slots=reader.whole("DEEPLINE_WORKER_SLOTS", 10, least=1, most=10_000),
        org_limit=reader.whole("DEEPLINE_ORG_LIMIT", 1_000, least=1, most=1_000_000),
        isolation=reader.choice("DEEPLINE_LOCAL_ISOLATION", Isolation.PREFER),
        daytona=read_daytona(reader),
        modal=read_modal(reader),
        policies=policies,
        sandbox_limit=_bound(reader, "DEEPLINE_SANDBOX_LIMIT"),
        sandbox_org_limit=_bound(reader, "DEEPLINE_SANDBOX_ORG_LIMIT"),
        adoption=reader.choice("DEEPLINE_LANE_ADOPTION", AdoptionPolicy.BEGUN),
        drain_exit=reader.switch("DEEPLINE_DRAIN_EXIT"),
    )
    reader.check()
    return role


def base_name(reader: Reader) -> str:
    """What a process's name begins with; the rest makes it unique per start (F16)."""
    return (reader.text("DEEPLINE_WORKER_NAME") or socket.gethostname() or "host")[:_NAME_MAX]


def lane_of(role: WorkerRole) -> tuple[str, str | None]:
    """The lane this worker serves, and the release it belongs to (C05)."""
    choice = choose_lane(role.release_id, None, role.queue_suffix)
    return choice.lane, choice.release_id


def _bound(reader: Reader, name: str) -> int | None:
    """How many sandboxes at most; `None` for no bound."""
    return reader.whole(name, 0, least=1, most=1_000_000) or None


def _backend(
    reader: Reader, values: Mapping[str, str], policies: Sequence[PlacementPolicy]
) -> tuple[str, tuple[str, ...]]:
    """Let the boot contract judge first, so that missing names come in its order."""
    match environment.check_environment(values, policies):
        case EnvironmentReady(backend=backend, providers=providers):
            return backend, providers
        case EnvironmentIncomplete(missing=missing):
            reader.missing(*missing)
        case BackendUnknown(message=message) | SigningKeyRequired(message=message):
            reader.wrong(message)
    return environment.configured_backend(values), ()


def _gateway_url(reader: Reader) -> str:
    name = "DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL"
    return reader.url(name, reader.required(name)) or ""
