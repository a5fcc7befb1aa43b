"""`deepline doctor`."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import attrs
import trio
from cyclopts import Parameter
from rich.console import Console

from deepline.cli.doctor.examination import examine
from deepline.cli.doctor.findings import Finding, State
from deepline.cli.exit_codes import ExitCode
from deepline.cli.settings.reading import environment

_STYLES = {State.OK: "green", State.ADVICE: "yellow", State.BROKEN: "red", State.SKIPPED: "dim"}


def doctor(
    *,
    audit: Annotated[bool, Parameter(negative=())] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Check everything a deployment needs, and say what to do.

    Looks at the database, its schema and clock, the gateway, tokens and keys, the sandbox
    provider and its isolation level. Changes nothing. Ends with 1 when something is broken.

    Parameters
    ----------
    audit
        Also check whether all that the database holds can be true; reads every run.
    as_json
        One JSON document instead of lines.
    """
    found = trio.run(partial(examine, environment(), audit=audit))
    if as_json:
        print(json.dumps({"findings": [attrs.asdict(finding) for finding in found]}, indent=2))
    else:
        _show(found)
    failed = any(finding.state is State.BROKEN for finding in found)
    return ExitCode.FAILED if failed else ExitCode.DONE


def _show(found: Sequence[Finding]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    width = max(len(finding.check) for finding in found)
    for finding in found:
        style = _STYLES[finding.state]
        console.print(f"{finding.state:<8}", style=style, end="")
        console.print(f"{finding.check:<{width}}  {finding.says}", markup=False)
        if finding.remedy is not None:
            console.print(f"{'':<{width + 8}}  → {finding.remedy}", markup=False)
