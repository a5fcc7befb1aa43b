"""Which runs of many a command is about."""

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from deepline.adapters.http.api_client import ApiClient
from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.people.durations import parse_length
from deepline.core.model.json_value import JsonObject
from deepline.core.model.run import RunStatus

PAGE = 200


@attrs.frozen(kw_only=True)
class Which:
    """Some runs, newest first, at most `limit`; `since_ms` is when they were submitted."""

    statuses: Sequence[RunStatus] = ()
    play_name: str | None = None
    since_ms: int | None = None
    org_id: str | None = None
    limit: int = 50

    async def found(self, client: ApiClient) -> Sequence[JsonObject]:
        """Ask for them, page by page."""
        runs: list[JsonObject] = []
        before: str | None = None
        while len(runs) < self.limit:
            page = await client.list_runs(
                statuses=self.statuses,
                play_name=self.play_name,
                since_ms=self.since_ms,
                org_id=self.org_id,
                limit=min(PAGE, self.limit - len(runs)),
                before=before,
            )
            runs += page.runs
            before = page.following
            if before is None:
                break
        return runs


@Parameter(name="*")
@attrs.frozen(kw_only=True)
class Choice:
    """Which runs.

    Parameters
    ----------
    status
        Only runs of this status; may be repeated.
    failed
        Only failed runs; the same as `--status failed`.
    play
        Only runs of the play of this name.
    since
        Only runs submitted within this time, such as 90m, 24h or 7d.
    org
        Only runs of this organisation, for operators; everybody else sees their own.
    limit
        At most so many.
    """

    status: tuple[RunStatus, ...] = ()
    failed: bool = False
    play: str | None = None
    since: str | None = None
    org: str | None = None
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=10_000))] = 50

    def which(self) -> Which:
        """The runs that are meant. Raises `CommandFailed` for a time that is none."""
        failed = (RunStatus.FAILED,) if self.failed else ()
        return Which(
            statuses=tuple(dict.fromkeys((*self.status, *failed))),
            play_name=self.play,
            since_ms=None if self.since is None else _ago_ms(self.since),
            org_id=self.org,
            limit=self.limit,
        )


EVERYTHING = Choice()


def _ago_ms(text: str) -> int:
    try:
        length = parse_length(text)
    except (ValueError, OverflowError) as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from None
    return max(0, time.time_ns() // 1_000_000 - length // timedelta(milliseconds=1))
