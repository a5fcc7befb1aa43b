"""What a controller must know before it starts."""

from collections.abc import Mapping

import attrs

from deepline.cli.settings.parts import (
    ProcessSettings,
    StoreSettings,
    masked,
    read_limits,
    read_process,
    read_store,
)
from deepline.cli.settings.reading import Reader
from deepline.cli.settings.worker import base_name
from deepline.core.limits import Limits


@attrs.frozen(kw_only=True)
class ControllerRole:
    """One controller process."""

    process: ProcessSettings
    store: StoreSettings
    limits: Limits
    internal_token: str = attrs.field(repr=masked)
    front_door_bypass: str | None = attrs.field(default=None, repr=masked)
    name: str


def read_controller(values: Mapping[str, str]) -> ControllerRole:
    """Read everything a controller needs. Raises `SettingsRefused`, naming all that is wrong."""
    reader = Reader(values)
    role = ControllerRole(
        process=read_process(reader),
        store=read_store(reader),
        limits=read_limits(reader),
        internal_token=reader.required("DEEPLINE_INTERNAL_TOKEN"),
        front_door_bypass=reader.text("DEEPLINE_FRONT_DOOR_BYPASS_SECRET"),
        name=base_name(reader),
    )
    reader.check()
    return role
