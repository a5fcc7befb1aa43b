"""A signal for a waiting run in its one normalised shape (C11)."""

import attrs

from deepline.core.model.json_value import JsonObject


@attrs.frozen(kw_only=True)
class Signal:
    """A normalised signal: `event_key`, optionally for one suspension point, with its payload."""

    event_key: str
    boundary_id: str | None
    payload: JsonObject
