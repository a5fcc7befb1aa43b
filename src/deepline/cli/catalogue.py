"""Every command of `deepline`: its name, what it is for, and the module that is loaded to run it.

Nothing but the table is loaded for `deepline --help`, so a command may import what it likes.
"""

from collections.abc import Sequence

import attrs

PLAYS = "Plays"
SETUP = "One machine"
ROLES = "Roles of a deployment"
CARE = "Care"
GROUPS: Sequence[str] = (PLAYS, SETUP, ROLES, CARE)
"""In the order in which help shows them."""

COMMANDS_PACKAGE = "deepline.cli.commands"


@attrs.frozen(kw_only=True)
class Entry:
    """One command. `target` is `module:function`, or `module:app` for one with commands below."""

    name: str
    group: str
    summary: str
    target: str


def _entry(name: str, group: str, summary: str, function: str | None = None) -> Entry:
    target = f"{COMMANDS_PACKAGE}.{name}:{function or name}"
    return Entry(name=name, group=group, summary=summary, target=target)


ENTRIES: Sequence[Entry] = (
    _entry("run", PLAYS, "Run a play, watch it, and write what came out."),
    _entry("runs", PLAYS, "List, show, follow, signal, cancel and retry runs.", "app"),
    _entry("explain", PLAYS, "Say why a run ended so, or why it is not moving."),
    _entry("secrets", PLAYS, "Keep, list and remove secrets that plays use by name.", "app"),
    _entry("usage", PLAYS, "Show how long sandboxes were in use, by organisation and by run."),
    _entry("demo", SETUP, "Run the example play for real, its worker killed half-way."),
    _entry("up", SETUP, "Run everything on this machine: database, gateway, worker, controller."),
    _entry("worker", ROLES, "Serve one lane of runs."),
    _entry("gateway", ROLES, "Serve people, runners and workers over HTTP."),
    _entry("controller", ROLES, "Deliver what is due across all lanes."),
    _entry("migrate", CARE, "Bring the database to the schema of this release."),
    _entry("doctor", CARE, "Check everything a deployment needs, and say what to do."),
    _entry("sandboxes", CARE, "List sandboxes, find those that are nobody's, delete one.", "app"),
    _entry("lanes", CARE, "See which releases hold runs and who serves them; retire one.", "app"),
    _entry("sim", CARE, "Run the runtime in simulated worlds and see whether it holds.", "app"),
    _entry("outbox", CARE, "List facts that the ledger refused, and send them again.", "app"),
    _entry("keys", CARE, "Make, list and revoke API keys.", "app"),
)

NAMES: Sequence[str] = tuple(entry.name for entry in ENTRIES)
