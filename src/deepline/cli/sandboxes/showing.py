"""Sandboxes as lines: words for people, one JSON object each for programs."""

from datetime import datetime

from deepline.cli.people.durations import show_s
from deepline.cli.sandboxes.looking import Listed
from deepline.core.instants import iso
from deepline.core.model.json_value import JsonObject
from deepline.core.orphans import Orphan
from deepline.ports.sandboxes import SandboxRecord, StatedGone

_WORDS = {
    "orphan.operation_over": "its run is over and nobody owes its deletion",
    "orphan.operation_unknown": "ours, and nothing is known of it",
    "orphan.another_deployment": "another deployment's",
    "orphan.identity_differs": "our token under another name or run",
    "orphan.unmarked": "carries nothing of ours",
    "orphan.in_use": "in use",
    "orphan.being_deleted": "being deleted",
    "orphan.age_unknown": "of unknown age",
    "orphan.too_young": "too young to tell",
}


def record_json(record: SandboxRecord) -> JsonObject:
    """A record for programs."""
    return {
        "operation": record.operation_key,
        "provider": record.provider,
        "name": record.name,
        "sandboxId": record.sandbox_id,
        "routingDomain": record.routing_domain,
        "orgId": record.org_id,
        "runId": record.run_id,
        "attempt": record.attempt,
        "state": record.state,
        "runStatus": None if record.run_status is None else record.run_status.value,
        "inUse": record.in_use,
        "reservedAt": iso(record.reserved_at),
        "goneAt": None if record.gone_at is None else iso(record.gone_at),
        "owedSince": None if record.owed_since is None else iso(record.owed_since),
        "dueAt": None if record.due_at is None else iso(record.due_at),
        "failureCount": record.failure_count,
        "lastEvent": record.last_event,
        "statedGone": None if record.stated is None else _stated_json(record.stated),
    }


def _stated_json(stated: StatedGone) -> JsonObject:
    return {"by": stated.by, "why": stated.why, "at": iso(stated.at)}


def record_line(record: SandboxRecord, now: datetime) -> str:
    """A record in one line: how it stands, where it is, whose it is, and what is being done."""
    age = show_s((now - record.reserved_at).total_seconds())
    where = record.sandbox_id or f"{record.name} (not seen yet)"
    parts = [f"{record.state:<9}", record.provider, where, f"{record.run_id}#{record.attempt}"]
    return "  ".join([*parts, record.org_id, age, _note(record, now)]).rstrip()


def _note(record: SandboxRecord, now: datetime) -> str:
    if record.in_use:
        return "in use"
    if record.stated is not None:
        return f"stated gone by {record.stated.by}: {record.stated.why}"
    if record.owed_since is None:
        return ""
    note = f"deletion owed for {show_s((now - record.owed_since).total_seconds())}"
    if record.failure_count:
        note += f", failed {record.failure_count} times"
    if record.last_event is not None:
        note += f", last {record.last_event}"
    return note


def listed_json(listed: Listed) -> JsonObject:
    """A listed sandbox for programs; its token is nobody's to see."""
    sandbox, age = listed.sandbox, listed.standing.age
    return {
        "provider": sandbox.ref.provider,
        "name": sandbox.name,
        "sandboxId": sandbox.ref.sandbox_id,
        "routingDomain": sandbox.ref.routing_domain,
        "runId": sandbox.run_id,
        "createdAt": None if sandbox.created_at is None else iso(sandbox.created_at),
        "ageS": None if age is None else age.total_seconds(),
        "use": listed.standing.use.value,
        "orphan": isinstance(listed.decision, Orphan),
        "rule": listed.decision.why.rule,
    }


def listed_line(listed: Listed) -> str:
    """A listed sandbox in one line, with why it is an orphan or is none."""
    sandbox, age = listed.sandbox, listed.standing.age
    kind = "orphan" if isinstance(listed.decision, Orphan) else "left"
    old = "?" if age is None else show_s(age.total_seconds())
    words = _WORDS.get(listed.decision.why.rule, listed.decision.why.rule)
    where = [sandbox.ref.provider, sandbox.ref.sandbox_id, sandbox.run_id or "-"]
    return "  ".join([f"{kind:<6}", *where, old, words])
