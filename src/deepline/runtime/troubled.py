"""The work on which an error came: the attempt in hand and where its runner stands (C19, A4)."""

import attrs

from deepline.core.model.attempt import Attempt
from deepline.core.model.claim import Claim
from deepline.core.model.launch import Launch
from deepline.core.model.suspension import DetachedSuspension
from deepline.runtime.store_time import StoreTime


@attrs.frozen(kw_only=True)
class Troubled:
    """`suspension` is the detached runner that may be alive, `None` when none was started."""

    claim: Claim
    launch: Launch
    attempt: Attempt
    suspension: DetachedSuspension | None
    time: StoreTime
