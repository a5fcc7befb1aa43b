"""Dead letters as an operator sees them, and sending them again (C26)."""

import getpass
import sys

import trio

from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.people.reports import printable
from deepline.core.instants import to_ms
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import Json
from deepline.ports.dead_letters import DeadLetter, DeadLetters
from deepline.ports.wire import encode_json

PAGE = 200
REVIVED_AT_ONCE = 1_000
ERROR_CHARS = 200


async def show_letters(run_id: RunId | None, letters: DeadLetters, *, as_json: bool) -> None:
    """Print every dead letter, of one run or of all, page by page."""
    after: RunId | None = None
    shown = 0
    while True:
        page = await letters.list(run_id=run_id, after=after, limit=PAGE)
        for letter in page:
            print(encode_json(_document(letter)) if as_json else _line(letter))
        shown += len(page)
        if len(page) < PAGE:
            break
        after = page[-1].run_id
    if not shown and not as_json:
        print("no dead letters: the ledger took every fact that was due")


async def retry_letter(run_id: RunId, letters: DeadLetters) -> None:
    """Send the dead letter of one run again. Raises `CommandFailed` when it has none."""
    if not await letters.revive(run_id=run_id, by=_operator()):
        raise CommandFailed(f"run {run_id} has no dead letter; `deepline outbox list` shows them")
    print(f"{run_id} is due again")


async def retry_letters(letters: DeadLetters, *, confirmed: bool) -> None:
    """Send all dead letters again, once somebody said yes to it. Raises `CommandFailed`."""
    if not await letters.list(limit=1):
        print("there is nothing to send again")
        return
    if not confirmed and not await _agrees():
        raise CommandFailed("nothing was sent again", ExitCode.FAILED)
    revived = 0
    while count := await letters.revive(run_id=None, by=_operator(), limit=REVIVED_AT_ONCE):
        revived += count
    print(f"{revived} due again")


def _line(letter: DeadLetter) -> str:
    error = printable(letter.error or "")[:ERROR_CHARS]
    return (
        f"{letter.run_id}  {letter.kind}  {letter.died_at:%Y-%m-%d %H:%M:%S}  "
        f"refused {letter.attempts} times: {error}"
    )


def _document(letter: DeadLetter) -> dict[str, Json]:
    return {
        "runId": letter.run_id,
        "orgId": letter.org_id,
        "seq": letter.seq,
        "eventId": letter.event_id,
        "kind": letter.kind,
        "attempts": letter.attempts,
        "diedAtMs": to_ms(letter.died_at),
        "error": letter.error,
    }


async def _agrees() -> bool:
    if not sys.stdin.isatty():
        raise CommandFailed(
            "sending all dead letters again needs a yes: give --yes", ExitCode.USAGE
        )
    answer = await trio.to_thread.run_sync(
        input, "send all dead letters again? [y/N] ", abandon_on_cancel=True
    )
    return answer.strip().lower() in {"y", "yes"}


def _operator() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "an operator"  # in a container its user may have no name
