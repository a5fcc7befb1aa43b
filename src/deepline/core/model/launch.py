"""The immutable description of a run, written once with it (C05, C07, I26).

The worker reads the envelope only. The input of the play and its bundle are fetched by the
runner from the gateway, so a large input never passes through a worker.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import attrs

from deepline.core.model.identity import OrgId, ReleaseId, RunId
from deepline.core.model.json_value import Json


@attrs.frozen(kw_only=True)
class Launch:
    """One submitted execution of a play.

    `base_url` is the runtime API that mints this run's executor tokens. `release_id`,
    `runtime_backend` and `placement_policy_id` pin where it may run. `bundle_hash` names the
    stored play artifact (hex SHA-256). `table_namespaces` are the sheets the run may touch.
    `secret_names` are names only; values are resolved by the gateway for the runner alone.
    `submitted_at` is when the gateway took it, by its own clock, for measuring only;
    `trace_parent` is the place in a trace that the run belongs to (W3C).
    `retry_of` names the run a person asked to run again. `governance` is kept as received, to
    be rejected when it names a parent run (C06).
    """

    run_id: RunId
    org_id: OrgId
    play_name: str
    graph_hash: str
    base_url: str
    bundle_hash: str | None = None
    entry: str = "play"
    release_id: ReleaseId | None = None
    queue_suffix: str | None = None
    runtime_backend: str | None = None
    placement_policy_id: str | None = None
    workflow_id: str | None = None
    scheduler_schema: str | None = None
    ceiling: timedelta | None = None
    table_namespaces: Sequence[str] = ()
    secret_names: Sequence[str] = ()
    test_fault_header: str | None = None
    retry_of: RunId | None = None
    submitted_by: str | None = None
    submitted_at: datetime | None = None
    trace_parent: str | None = None
    governance: Mapping[str, Json] | None = None
