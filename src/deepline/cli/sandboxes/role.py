"""The store and the providers that the commands about sandboxes work with."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from deepline.adapters.daytona import DaytonaSettings
from deepline.adapters.local import Isolation
from deepline.adapters.modal import ModalAccount
from deepline.cli.found_store import found_store
from deepline.cli.settings.daytona import read_daytona
from deepline.cli.settings.modal import read_modal
from deepline.cli.settings.orphans import read_orphans
from deepline.cli.settings.parts import ProcessSettings, StoreSettings, read_limits, read_process
from deepline.cli.settings.policies import read_policies
from deepline.cli.settings.reading import Reader
from deepline.core import environment
from deepline.core.environment import BACKEND_VARIABLE
from deepline.core.limits import Limits
from deepline.core.orphan_sweep import OrphanSettings

_OF_UP = "local"


@attrs.frozen(kw_only=True)
class SandboxesRole:
    """Where the store is, and which providers can be asked from here."""

    process: ProcessSettings
    store: StoreSettings
    limits: Limits
    orphans: OrphanSettings
    providers: Sequence[str]
    isolation: Isolation = Isolation.PREFER
    daytona: DaytonaSettings
    modal: ModalAccount

    @property
    def sandboxes(self) -> Path:
        """The directory of this machine's local sandboxes."""
        return self.process.home / "sandboxes"


def read_sandboxes_role(values: Mapping[str, str]) -> SandboxesRole:
    """Read what the commands need; the database of `deepline up` has local sandboxes.

    Raises `SettingsRefused`, and `CommandFailed` where there is no database yet.
    """
    reader = Reader(values)
    is_of_up = reader.text("WORKFLOW_RUNTIME_POSTGRES") is None
    chosen = reader.text(BACKEND_VARIABLE)
    backend = _OF_UP if is_of_up and chosen is None else environment.configured_backend(values)
    role = SandboxesRole(
        process=read_process(reader),
        store=found_store(values),
        limits=read_limits(reader),
        orphans=read_orphans(reader),
        providers=environment.sandbox_providers(backend, read_policies(reader)),
        isolation=reader.choice("DEEPLINE_LOCAL_ISOLATION", Isolation.PREFER),
        daytona=read_daytona(reader),
        modal=read_modal(reader),
    )
    reader.check()
    return role
