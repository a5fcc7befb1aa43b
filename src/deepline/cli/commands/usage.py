"""`deepline usage`."""

import time
from datetime import timedelta
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.people.conduct import conduct_at_once
from deepline.cli.people.durations import parse_length
from deepline.cli.people.where import HERE, Where


def usage(
    *,
    since: str = "30d",
    org: str | None = None,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=500))] = 20,
    where: Where = HERE,
) -> int:
    """Show how long sandboxes were in use, by organisation and by run.

    A sandbox counts with all its seconds once its deletion was accepted or proven; until then it
    is running.

    Parameters
    ----------
    since
        Sandboxes that ended within this time, such as 24h or 7d.
    org
        Only this organisation, for operators; everybody else sees their own.
    limit
        At most so many runs, the longest use first.
    """
    look = where.look()
    since_ms = max(0, time.time_ns() // 1_000_000 - _length(since) // timedelta(milliseconds=1))
    return conduct_at_once(lambda: look.usage(since_ms, org, limit))


def _length(text: str) -> timedelta:
    try:
        return parse_length(text)
    except (ValueError, OverflowError) as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from None
