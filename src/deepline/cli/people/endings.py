"""After the end of a run: why it ended so, and its files."""

from collections.abc import Sequence
from pathlib import Path

import attrs

from deepline.adapters.http.api_client import ApiClient
from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.people.news import Ended, SavedFile
from deepline.cli.people.output_files import SavedSheet, save_json, save_sheet
from deepline.core.model.identity import RunId
from deepline.core.model.json_value import JsonObject
from deepline.core.model.run import RunStatus

CODES = {
    RunStatus.COMPLETED: ExitCode.DONE,
    RunStatus.FAILED: ExitCode.FAILED,
    RunStatus.CANCELLED: ExitCode.CANCELLED,
}


@attrs.frozen(kw_only=True)
class Wanted:
    """The file that was asked for. `columns` are the input's; `sheet` `None` is the run's own."""

    target: Path
    sheet: str | None = None
    columns: Sequence[str] = ()
    keep_formulas: bool = False


def status_of(run: JsonObject) -> RunStatus:
    """The status of a run as the API shows it."""
    return RunStatus(str(run.get("status")))


def text_of(document: JsonObject, name: str) -> str | None:
    """A text of a document, if it is there."""
    value = document.get(name)
    return value if isinstance(value, str) else None


async def ending(client: ApiClient, run: JsonObject) -> Ended:
    """How a run that has ended did, with its explanation."""
    run_id = str(run.get("runId"))
    explained = await client.explain(RunId(run_id))
    result = run.get("result")
    result = result if isinstance(result, dict) else {}
    return Ended(
        run_id=run_id,
        status=status_of(run).value,
        elapsed_s=_elapsed_s(run),
        sentence=text_of(explained, "sentence") or "",
        error=text_of(result, "error"),
        output=result.get("output"),
    )


async def save_output(client: ApiClient, run: JsonObject, wanted: Wanted) -> SavedFile | None:
    """Write the file: a `.json` holds the play's result, any other the rows of a sheet.

    `None` when a run that did not complete left nothing to write. Raises `CommandFailed` when a
    completed one has not what was asked for.
    """
    if wanted.target.suffix.lower() == ".json":
        return _save_result(run, wanted.target)
    namespace = await _choose_sheet(client, run, wanted.sheet)
    if namespace is None:
        return None
    saved = await save_sheet_of(client, run, namespace, wanted)
    return SavedFile(path=str(saved.path), rows=saved.rows, failed_rows=saved.failed)


async def save_sheet_of(
    client: ApiClient, run: JsonObject, namespace: str, wanted: Wanted
) -> SavedSheet:
    """Write one sheet of a run."""
    return await save_sheet(
        client,
        RunId(str(run.get("runId"))),
        namespace,
        wanted.target,
        columns=wanted.columns,
        keep_formulas=wanted.keep_formulas,
    )


def _save_result(run: JsonObject, target: Path) -> SavedFile | None:
    result = run.get("result")
    if status_of(run) is not RunStatus.COMPLETED or not isinstance(result, dict):
        return None
    save_json(result.get("output"), target)
    return SavedFile(path=str(target))


async def _choose_sheet(client: ApiClient, run: JsonObject, asked: str | None) -> str | None:
    run_id = str(run.get("runId"))
    names = [str(sheet.get("namespace")) for sheet in await client.sheets(RunId(run_id))]
    if asked is not None and asked not in names:
        shown = ", ".join(names) or "none"
        raise CommandFailed(f"the run has no sheet {asked!r}; it has {shown}", ExitCode.FAILED)
    result = run.get("result")
    own = text_of(result, "tableNamespace") if isinstance(result, dict) else None
    for name in (asked, own, *names):
        if name is not None and name in names:
            return name
    if status_of(run) is RunStatus.COMPLETED:
        raise CommandFailed(
            f"the run made no sheet, so there are no rows to write; `deepline runs show {run_id}` "
            "shows its result, and an output file named .json takes it",
            ExitCode.FAILED,
        )
    return None


def _elapsed_s(run: JsonObject) -> float:
    began, over = run.get("createdAtMs"), run.get("terminalAtMs")
    if isinstance(began, int) and isinstance(over, int):
        return max(0, over - began) / 1000
    return 0.0
