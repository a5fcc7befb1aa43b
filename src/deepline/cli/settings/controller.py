"""What a controller must know before it starts."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import attrs

from deepline.adapters.daytona import DaytonaSettings
from deepline.adapters.local import Isolation
from deepline.adapters.modal import ModalAccount
from deepline.cli.settings.daytona import read_daytona
from deepline.cli.settings.modal import read_modal
from deepline.cli.settings.orphans import read_orphans
from deepline.cli.settings.parts import (
    SECOND,
    ProcessSettings,
    StoreSettings,
    masked,
    read_limits,
    read_process,
    read_store,
)
from deepline.cli.settings.policies import read_policies
from deepline.cli.settings.reading import Reader
from deepline.cli.settings.sweep import read_sweep
from deepline.cli.settings.worker import base_name
from deepline.core import environment, placement
from deepline.core.limits import Limits
from deepline.core.model.placement import PlacementPolicy
from deepline.core.orphan_sweep import OrphanSettings
from deepline.core.sweep import SweepMode, SweepSettings
from deepline.runtime.duty import LEASE


@attrs.frozen(kw_only=True)
class ControllerRole:
    """One controller process. `providers` are those of its backend, whether it can look or not."""

    process: ProcessSettings
    store: StoreSettings
    limits: Limits
    internal_token: str = attrs.field(repr=masked)
    front_door_bypass: str | None = attrs.field(default=None, repr=masked)
    name: str
    providers: tuple[str, ...] = ()
    policies: Sequence[PlacementPolicy] = placement.POLICIES
    isolation: Isolation = Isolation.PREFER
    daytona: DaytonaSettings
    modal: ModalAccount
    sweep_mode: SweepMode = SweepMode.OBSERVE
    sweep: SweepSettings = attrs.field(factory=SweepSettings)
    orphans: OrphanSettings = attrs.field(factory=OrphanSettings)
    duty_lease: timedelta = LEASE

    @property
    def sandboxes(self) -> Path:
        """The directory of this machine's local sandboxes."""
        return self.process.home / "sandboxes"


def read_controller(values: Mapping[str, str]) -> ControllerRole:
    """Read everything a controller needs. Raises `SettingsRefused`, naming all that is wrong."""
    reader = Reader(values)
    limits = read_limits(reader)
    backend = environment.configured_backend(values)
    policies = read_policies(reader)
    role = ControllerRole(
        process=read_process(reader),
        store=read_store(reader),
        limits=limits,
        internal_token=reader.required("DEEPLINE_INTERNAL_TOKEN"),
        front_door_bypass=reader.text("DEEPLINE_FRONT_DOOR_BYPASS_SECRET"),
        name=base_name(reader),
        providers=environment.sandbox_providers(backend, policies),
        policies=policies,
        isolation=reader.choice("DEEPLINE_LOCAL_ISOLATION", Isolation.PREFER),
        daytona=read_daytona(reader),
        modal=read_modal(reader),
        sweep_mode=reader.choice("DEEPLINE_LIVENESS_SWEEP", SweepMode.OBSERVE),
        sweep=read_sweep(reader, limits.overdue_interval),
        orphans=read_orphans(reader),
        duty_lease=reader.length("DEEPLINE_DUTY_LEASE_SECONDS", LEASE, unit=SECOND),
    )
    reader.check()
    return role
