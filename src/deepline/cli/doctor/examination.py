"""The whole examination, in the order in which one would mend things."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from deepline.cli.doctor.database import CONFIGURED, EMBEDDED, database_findings
from deepline.cli.doctor.findings import Finding, State, broken, skipped
from deepline.cli.doctor.gateway import GatewayFacts, gateway_findings
from deepline.cli.doctor.lanes import lane_findings
from deepline.cli.doctor.machine import home_findings, provider_findings, role_findings
from deepline.cli.doctor.records import record_findings
from deepline.cli.doctor.waits import wait_findings
from deepline.cli.embedded import DSN_VARIABLE, with_local_defaults
from deepline.cli.failures import CommandFailed
from deepline.cli.found_store import found_store
from deepline.cli.home import Home
from deepline.cli.settings.gateway import split_keys
from deepline.cli.settings.parts import read_home, read_limits
from deepline.cli.settings.reading import Reader, SettingsRefused


async def examine(values: Mapping[str, str], *, audit: bool = False) -> Sequence[Finding]:
    """Check everything that can be checked from this machine; changes and starts nothing.

    With `audit` also whether all that the database holds can be true.
    """
    home = Home(read_home(Reader(values)))
    alone = not values.get(DSN_VARIABLE, "").strip()
    found = [*role_findings(values), *await home_findings(home)]
    found += await _store(values, EMBEDDED if alone else CONFIGURED, audit=audit)
    found += await gateway_findings(known_gateway(values, home, alone=alone))
    found += await provider_findings(with_local_defaults(values) if alone else values)
    return found


async def _store(values: Mapping[str, str], remedy: str, *, audit: bool) -> Sequence[Finding]:
    try:
        settings = found_store(values)
    except (SettingsRefused, CommandFailed) as error:
        return [broken("database", str(error), remedy)]
    found = [*await database_findings(settings, remedy)]
    usable = not any(finding.state is State.BROKEN for finding in found)
    if usable:
        limits = read_limits(Reader(values))
        found += await lane_findings(settings, limits)
        found += await wait_findings(settings, limits)
    if audit and usable:
        found += await record_findings(settings)
    elif audit:
        found.append(skipped("records", "the database cannot be worked on"))
    return found


def known_gateway(values: Mapping[str, str], home: Home, *, alone: bool) -> GatewayFacts:
    """What this machine knows of its gateway: from variables, else from what `up` wrote."""
    reader = Reader(values)
    url = (
        reader.text("DEEPLINE_API_URL")
        or reader.text("DEEPLINE_PUBLIC_URL")
        or reader.text("DEEPLINE_RUNTIME_RECEIPT_GATEWAY_URL")
        or _kept(home.address)
    )
    token, key = reader.text("DEEPLINE_INTERNAL_TOKEN"), reader.text("DEEPLINE_API_KEY")
    pem = reader.text("DEEPLINE_SIGNING_KEY")
    pem_file = reader.text("DEEPLINE_SIGNING_KEY_FILE")
    if pem is None and pem_file is not None:
        pem = _kept(Path(pem_file))
    if alone:
        token, key = token or _kept(home.internal_token), key or _kept(home.api_key)
        pem = pem or _kept(home.signing_key)
    return GatewayFacts(
        url=url,
        internal_token=token,
        api_key=key,
        signing_keys=None if pem is None else split_keys(pem),
    )


def _kept(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
