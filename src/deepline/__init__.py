"""deepline: runs plays in sandboxes and ends every run exactly once, with the truth.

These are the public names. Each is loaded when it is first used (PEP 562), so that
`import deepline` costs next to nothing and brings no database or HTTP library with it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepline.adapters.http.api_client import ApiAddress as ApiAddress
    from deepline.adapters.http.api_client import ApiClient as ApiClient
    from deepline.adapters.http.api_client import RunReceipt as RunReceipt
    from deepline.adapters.http.api_client import SubmitRequest as SubmitRequest
    from deepline.adapters.http.asyncio_client import AsyncioClient as AsyncioClient
    from deepline.adapters.http.asyncio_client import AsyncioRun as AsyncioRun
    from deepline.adapters.http.blocking_client import BlockingClient as BlockingClient
    from deepline.adapters.http.blocking_client import BlockingRun as BlockingRun
    from deepline.adapters.http.executor_tokens import HttpExecutorTokens as HttpExecutorTokens
    from deepline.adapters.http.executor_tokens import TokenCredentials as TokenCredentials
    from deepline.adapters.http.ledger import HttpLedger as HttpLedger
    from deepline.adapters.http.limited_client import LimitedClient as LimitedClient
    from deepline.adapters.http.run_handle import RunHandle as RunHandle
    from deepline.adapters.local import LocalProvider as LocalProvider
    from deepline.adapters.postgres.migrate import migrate as migrate
    from deepline.adapters.postgres.pool import ConnectionPool as ConnectionPool
    from deepline.adapters.postgres.settings import ConnectionSettings as ConnectionSettings
    from deepline.adapters.postgres.settings import PoolSettings as PoolSettings
    from deepline.adapters.postgres.store import open_store as open_store
    from deepline.adapters.runner_bundle import BundleRefused as BundleRefused
    from deepline.adapters.system_clock import SystemClock as SystemClock
    from deepline.core.limits import Limits as Limits
    from deepline.core.model.attempt import Attempt as Attempt
    from deepline.core.model.claim import Claim as Claim
    from deepline.core.model.identity import AttemptRef as AttemptRef
    from deepline.core.model.identity import Lane as Lane
    from deepline.core.model.identity import OrgId as OrgId
    from deepline.core.model.identity import RunId as RunId
    from deepline.core.model.launch import Launch as Launch
    from deepline.core.model.placement import PlacementPolicy as PlacementPolicy
    from deepline.core.model.result import Completed as Completed
    from deepline.core.model.result import Failed as Failed
    from deepline.core.model.result import Suspended as Suspended
    from deepline.core.model.run import RunStatus as RunStatus
    from deepline.core.model.sandbox import Inspection as Inspection
    from deepline.core.model.sandbox import Operation as Operation
    from deepline.core.model.sandbox import Resources as Resources
    from deepline.core.model.sandbox import SandboxRef as SandboxRef
    from deepline.core.model.sandbox import Stage as Stage
    from deepline.ports.backend import Backend as Backend
    from deepline.ports.clock import Clock as Clock
    from deepline.ports.errors import CapacityExceeded as CapacityExceeded
    from deepline.ports.errors import FenceLost as FenceLost
    from deepline.ports.errors import NotFound as NotFound
    from deepline.ports.errors import OutcomeUnknown as OutcomeUnknown
    from deepline.ports.errors import PortError as PortError
    from deepline.ports.errors import Refused as Refused
    from deepline.ports.errors import Unavailable as Unavailable
    from deepline.ports.executor_tokens import ExecutorTokens as ExecutorTokens
    from deepline.ports.ledger import Ledger as Ledger
    from deepline.ports.sandbox_provider import RunnerStart as RunnerStart
    from deepline.ports.sandbox_provider import SandboxProvider as SandboxProvider
    from deepline.ports.sandbox_provider import StartedRunner as StartedRunner
    from deepline.ports.telemetry import Telemetry as Telemetry
    from deepline.runtime.cancelling import Canceller as Canceller
    from deepline.runtime.cancelling import CancelPorts as CancelPorts
    from deepline.runtime.sandbox_backend import SandboxBackend as SandboxBackend
    from deepline.runtime.sandbox_settings import SandboxSettings as SandboxSettings
    from deepline.runtime.stop import Stop as Stop
    from deepline.runtime.stop import obey_signals as obey_signals
    from deepline.runtime.worker import BadConfiguration as BadConfiguration
    from deepline.runtime.worker import Worker as Worker
    from deepline.runtime.worker import WorkerSettings as WorkerSettings
    from deepline.runtime.worker_ports import WorkerPorts as WorkerPorts

_PLACES = {
    "adapters.http.api_client": ("ApiAddress", "ApiClient", "RunReceipt", "SubmitRequest"),
    "adapters.http.asyncio_client": ("AsyncioClient", "AsyncioRun"),
    "adapters.http.blocking_client": ("BlockingClient", "BlockingRun"),
    "adapters.http.executor_tokens": ("HttpExecutorTokens", "TokenCredentials"),
    "adapters.http.ledger": ("HttpLedger",),
    "adapters.http.limited_client": ("LimitedClient",),
    "adapters.http.run_handle": ("RunHandle",),
    "adapters.local": ("LocalProvider",),
    "adapters.postgres.migrate": ("migrate",),
    "adapters.postgres.pool": ("ConnectionPool",),
    "adapters.postgres.settings": ("ConnectionSettings", "PoolSettings"),
    "adapters.postgres.store": ("open_store",),
    "adapters.runner_bundle": ("BundleRefused",),
    "adapters.system_clock": ("SystemClock",),
    "core.limits": ("Limits",),
    "core.model.attempt": ("Attempt",),
    "core.model.claim": ("Claim",),
    "core.model.identity": ("AttemptRef", "Lane", "OrgId", "RunId"),
    "core.model.launch": ("Launch",),
    "core.model.placement": ("PlacementPolicy",),
    "core.model.result": ("Completed", "Failed", "Suspended"),
    "core.model.run": ("RunStatus",),
    "core.model.sandbox": ("Inspection", "Operation", "Resources", "SandboxRef", "Stage"),
    "ports.backend": ("Backend",),
    "ports.clock": ("Clock",),
    "ports.errors": (
        "CapacityExceeded",
        "FenceLost",
        "NotFound",
        "OutcomeUnknown",
        "PortError",
        "Refused",
        "Unavailable",
    ),
    "ports.executor_tokens": ("ExecutorTokens",),
    "ports.ledger": ("Ledger",),
    "ports.sandbox_provider": ("RunnerStart", "SandboxProvider", "StartedRunner"),
    "ports.telemetry": ("Telemetry",),
    "runtime.cancelling": ("CancelPorts", "Canceller"),
    "runtime.sandbox_backend": ("SandboxBackend",),
    "runtime.sandbox_settings": ("SandboxSettings",),
    "runtime.stop": ("Stop", "obey_signals"),
    "runtime.worker": ("BadConfiguration", "Worker", "WorkerSettings"),
    "runtime.worker_ports": ("WorkerPorts",),
}
_HOME_OF = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> object:
    """Load a public name on first use."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted({*globals(), *_HOME_OF})
