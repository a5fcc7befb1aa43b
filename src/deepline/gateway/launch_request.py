"""What a person may ask for when submitting, read into a launch (C05, C06, I26).

Where a run executes and whom its worker talks to is the deployment's to say: the base URL, the
schema and the organisation come from the gateway, never from the request.
"""

import re
from collections.abc import Mapping

import attrs

from deepline.core.governance import ScheduledChild, check_governance
from deepline.core.instants import length_ms
from deepline.core.model.identity import MAX_ID_LENGTH, ReleaseId, RunId
from deepline.core.model.json_value import Json, JsonObject
from deepline.core.model.launch import Launch
from deepline.core.queues import pin_lane
from deepline.gateway.authentication import Principal
from deepline.gateway.problems import Problem, invalid
from deepline.gateway.secrets import SECRET_NAME
from deepline.gateway.settings import GatewaySettings
from deepline.ports.wire import fields

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}")
_BUNDLE_HASH = re.compile(r"[0-9a-f]{64}")
_MOST_NAMES = 100
_ONE_WITH_PROGRESS = frozenset({"bundleHash", "entry", "graphHash", "input"})


@attrs.frozen(kw_only=True)
class LaunchRequest:
    """One launch asked for, with its input; nothing has been written.

    `retried_trace` is the place in a trace of the run that this one runs again.
    """

    launch: Launch
    input_json: Json
    continues: bool = False
    retried_trace: str | None = None


def check_run_id(text: str) -> RunId:
    """Take a run id from outside. Raises a 422 `Problem`."""
    if not _RUN_ID.fullmatch(text):
        raise invalid("runId: use up to 200 letters, digits, '_', '.', ':' or '-'.")
    return RunId(text)


def reject_scheduled_child(document: JsonObject, path: str) -> None:
    """Turn a scheduled child away before anything else happens (C06). Raises a 422 `Problem`."""
    decision = check_governance(_governance(document))
    if isinstance(decision, ScheduledChild):
        code = decision.message.partition(":")[0]
        raise Problem(422, code, f"{path}{': ' if path else ''}{decision.message}")


def check_continues(document: JsonObject, path: str) -> bool:
    """Whether a run is to go on from the one it retries. Raises a 422 `Problem`.

    Only the same play with the same input can go on: what it finished was finished for those.
    """
    if document.get("fromCheckpoint") is not True:
        return False
    changed = sorted(_ONE_WITH_PROGRESS & document.keys())
    if changed or document.get("retryOf") is None:
        raise invalid(
            f"{fields.join(path, 'fromCheckpoint')}: name retryOf beside it, and neither "
            f"{', '.join(sorted(_ONE_WITH_PROGRESS))}."
        )
    return True


def inherit(document: JsonObject, launch: Launch, input_json: Json) -> JsonObject:
    """Complete a request that names `retryOf` from the launch it wants to run again."""
    inherited: dict[str, Json] = {
        "playName": launch.play_name,
        "graphHash": launch.graph_hash,
        "bundleHash": launch.bundle_hash,
        "entry": launch.entry,
        "absurdReleaseId": launch.release_id,
        "runtimeBackend": launch.runtime_backend,
        "runtimeSandboxPlacementPolicyId": launch.placement_policy_id,
        "ceilingMs": None if launch.ceiling is None else length_ms(launch.ceiling),
        "queueSuffix": launch.queue_suffix,
        "tableNamespaces": list(launch.table_namespaces),
        "secretNames": list(launch.secret_names),
        "input": input_json,
    }
    return {**inherited, **document}


def read_launch_request(
    document: JsonObject,
    path: str,
    *,
    run_id: RunId,
    principal: Principal,
    settings: GatewaySettings,
    test_fault_header: str | None,
) -> LaunchRequest:
    """Read one request. Raises `MalformedDocument` or a 422 `Problem` that names the field."""
    bundle_hash = fields.text(document, "bundleHash", path, longest=64)
    if not _BUNDLE_HASH.fullmatch(bundle_hash):
        raise invalid(f"{fields.join(path, 'bundleHash')}: give the hex SHA-256 of the bundle.")
    retry_of = _optional_id(document, "retryOf", path)
    release_id = _optional_id(document, "absurdReleaseId", path) or settings.release_id
    launch = Launch(
        run_id=run_id,
        org_id=principal.org_id,
        play_name=fields.text(document, "playName", path, longest=MAX_ID_LENGTH),
        graph_hash=_optional_id(document, "graphHash", path) or bundle_hash,
        base_url=settings.base_url,
        bundle_hash=bundle_hash,
        entry=_optional_id(document, "entry", path) or "play",
        release_id=None if release_id is None else ReleaseId(release_id),
        queue_suffix=_optional_id(document, "queueSuffix", path),
        runtime_backend=_optional_id(document, "runtimeBackend", path) or settings.runtime_backend,
        placement_policy_id=_optional_id(document, "runtimeSandboxPlacementPolicyId", path)
        or settings.placement_policy_id,
        workflow_id=_optional_id(document, "workflowId", path),
        scheduler_schema=settings.scheduler_schema,
        ceiling=fields.optional_length(document, "ceilingMs", path),
        table_namespaces=_names(document, "tableNamespaces", path),
        secret_names=_secret_names(document, path),
        test_fault_header=test_fault_header,
        retry_of=None if retry_of is None else RunId(retry_of),
        submitted_by=principal.key_id,
        governance=_governance(document),
    )
    _check_ceiling(launch, path)
    return LaunchRequest(
        launch=pin_lane(launch, settings.queue_suffix),
        input_json=document.get("input", {}),
        continues=document.get("fromCheckpoint") is True,
    )


def _check_ceiling(launch: Launch, path: str) -> None:
    if launch.ceiling is not None and length_ms(launch.ceiling) < 1:
        raise invalid(f"{fields.join(path, 'ceilingMs')}: must be at least 1.")


def _governance(document: JsonObject) -> JsonObject | None:
    value = document.get("playCallGovernance")
    return value if isinstance(value, Mapping) else None


def _optional_id(document: JsonObject, name: str, path: str) -> str | None:
    return fields.optional_text(document, name, path, longest=MAX_ID_LENGTH)


def _names(document: JsonObject, name: str, path: str) -> tuple[str, ...]:
    found = fields.texts(document, name, path)
    place = fields.join(path, name)
    if len(found) > _MOST_NAMES:
        raise invalid(f"{place}: at most {_MOST_NAMES} names.")
    if any(not text or len(text) > MAX_ID_LENGTH for text in found):
        raise invalid(f"{place}: each must have 1 to {MAX_ID_LENGTH} characters.")
    return tuple(dict.fromkeys(found))


def _secret_names(document: JsonObject, path: str) -> tuple[str, ...]:
    found = _names(document, "secretNames", path)
    if not all(SECRET_NAME.fullmatch(name) for name in found):
        raise invalid(
            f"{fields.join(path, 'secretNames')}: name secrets with capitals, digits and '_'."
        )
    return found
