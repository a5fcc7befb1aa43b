"""Launches as JSON, as they are stored once with their run (C05, C07, I26).

Keys that are none are left out. The play's input is not part of a launch.
"""

from deepline.core.instants import length_ms, to_ms
from deepline.core.model.identity import MAX_ID_LENGTH, OrgId, ReleaseId, RunId
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.launch import Launch
from deepline.core.trace_parent import read_trace_parent
from deepline.ports.errors import MalformedDocument, Refused
from deepline.ports.wire import fields

_LONGEST_URL = 2_000


def launch_to_json(launch: Launch) -> dict[str, Json]:
    """Encode a launch."""
    document: dict[str, Json] = {
        "runId": launch.run_id,
        "orgId": launch.org_id,
        "playName": launch.play_name,
        "graphHash": launch.graph_hash,
        "baseUrl": launch.base_url,
        "entry": launch.entry,
        "preloadedDbSessions": [{"tableNamespace": name} for name in launch.table_namespaces],
        "secretNames": list(launch.secret_names),
    }
    optional: dict[str, Json] = {
        "bundleHash": launch.bundle_hash,
        "absurdReleaseId": launch.release_id,
        "queueSuffix": launch.queue_suffix,
        "runtimeBackend": launch.runtime_backend,
        "runtimeSandboxPlacementPolicyId": launch.placement_policy_id,
        "schedulerSchema": launch.scheduler_schema,
        "ceilingMs": None if launch.ceiling is None else length_ms(launch.ceiling),
        "runtimeTestFaultHeader": launch.test_fault_header,
        "traceParent": launch.trace_parent,
        "retryOf": launch.retry_of,
        "submittedBy": launch.submitted_by,
        "submittedAtMs": None if launch.submitted_at is None else to_ms(launch.submitted_at),
        "playCallGovernance": launch.governance,
    }
    document.update((name, value) for name, value in optional.items() if value is not None)
    if launch.workflow_id is not None:
        document["runtimeAuthority"] = {"workflowId": launch.workflow_id}
    return document


def launch_from_json(value: object, path: str = "") -> Launch:
    """Parse a stored launch; raises `MalformedDocument`."""
    document = fields.as_object(value, path)
    release_id = _optional_id(document, "absurdReleaseId", path)
    retry_of = _optional_id(document, "retryOf", path)
    return Launch(
        run_id=RunId(_id(document, "runId", path)),
        org_id=OrgId(_id(document, "orgId", path)),
        play_name=fields.text(document, "playName", path),
        graph_hash=fields.text(document, "graphHash", path),
        base_url=fields.text(document, "baseUrl", path, longest=_LONGEST_URL),
        bundle_hash=fields.optional_text(document, "bundleHash", path),
        entry=fields.optional_text(document, "entry", path) or "play",
        release_id=None if release_id is None else ReleaseId(release_id),
        queue_suffix=_optional_id(document, "queueSuffix", path),
        runtime_backend=_optional_id(document, "runtimeBackend", path),
        placement_policy_id=_optional_id(document, "runtimeSandboxPlacementPolicyId", path),
        workflow_id=_workflow_id(document, path),
        scheduler_schema=_optional_id(document, "schedulerSchema", path),
        ceiling=fields.optional_length(document, "ceilingMs", path),
        table_namespaces=_table_namespaces(document, path),
        secret_names=fields.texts(document, "secretNames", path),
        test_fault_header=fields.optional_text(document, "runtimeTestFaultHeader", path),
        trace_parent=read_trace_parent(fields.optional_text(document, "traceParent", path)),
        retry_of=None if retry_of is None else RunId(retry_of),
        submitted_by=fields.optional_text(document, "submittedBy", path),
        submitted_at=fields.optional_instant(document, "submittedAtMs", path),
        governance=fields.optional_object(document, "playCallGovernance", path),
    )


def check_launch(launch: Launch) -> None:
    """Make sure before it is stored that a launch can be read back (I26).

    Raises `Refused` (`launch_unusable`), naming the field. A launch that cannot be read is as good
    as missing, and its run could only fail, after all its attempts.
    """
    try:
        launch_from_json(launch_to_json(launch))
    except MalformedDocument as problem:
        raise Refused(
            "launch_unusable", f"run {launch.run_id} cannot be submitted: {problem}"
        ) from None


def _id(document: JsonObject, name: str, path: str) -> str:
    return fields.text(document, name, path, longest=MAX_ID_LENGTH)


def _optional_id(document: JsonObject, name: str, path: str) -> str | None:
    return fields.optional_text(document, name, path, longest=MAX_ID_LENGTH)


def _workflow_id(document: JsonObject, path: str) -> str | None:
    authority = fields.optional_object(document, "runtimeAuthority", path)
    if authority is None:
        return None
    return _optional_id(authority, "workflowId", fields.join(path, "runtimeAuthority"))


def _table_namespaces(document: JsonObject, path: str) -> tuple[str, ...]:
    sessions = document.get("preloadedDbSessions")
    if sessions is None:
        return ()
    place = fields.join(path, "preloadedDbSessions")
    names: list[str] = []
    for index, session in enumerate(fields.as_array(sessions, place)):
        name = fields.as_object(session, f"{place}[{index}]").get("tableNamespace")
        if not isinstance(name, str):
            raise MalformedDocument(f"{place}[{index}].tableNamespace", "must be a text")
        names.append(name)
    return tuple(names)
