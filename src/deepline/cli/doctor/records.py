"""The audit of the database of record as findings: whether what is written down can be true."""

from collections.abc import Sequence

import trio

from deepline.adapters.postgres.audit import Violation, audit
from deepline.adapters.postgres.audit_rules import RULES
from deepline.cli.doctor.findings import Finding, broken, ok
from deepline.cli.failures import only
from deepline.cli.settings.parts import StoreSettings
from deepline.ports.errors import PortError

CHECK = "records"
AUDIT_S = 600.0
SHOWN = 20
_REMEDY = "`deepline explain RUN` shows what is known of the run; report it, with this line"


async def record_findings(settings: StoreSettings) -> Sequence[Finding]:
    """Audit what holds at every moment; runs that are under way are no matter."""
    try:
        with trio.move_on_after(AUDIT_S):
            return _said(await audit(settings.dsn, settings.schema))
    except PortError as error:
        return [broken(CHECK, str(only(error)), "see `database` and `schema` above")]
    return [broken(CHECK, f"no answer within {AUDIT_S:.0f} s", "try again when less is going on")]


def _said(violations: Sequence[Violation]) -> Sequence[Finding]:
    if not violations:
        held = [rule for rule in RULES if not rule.settled]
        names = sorted({name for rule in held for name in rule.holds})
        return [ok(CHECK, f"all {len(held)} rules hold: {', '.join(names)}")]
    found = [broken(CHECK, str(violation), _REMEDY) for violation in violations[:SHOWN]]
    more = len(violations) - SHOWN
    return [*found, broken(CHECK, f"and {more} more", _REMEDY)] if more > 0 else found
