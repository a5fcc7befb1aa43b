"""The files that a run leaves: exact, in readable order, whole or not at all."""

import csv
import json
from pathlib import Path

import pytest

from deepline.adapters.http.api_client import ApiClient
from deepline.cli.exit_codes import ExitCode
from deepline.cli.failures import CommandFailed
from deepline.cli.people.endings import Wanted, save_output
from deepline.cli.people.news import SavedFile
from deepline.cli.people.output_files import check_target, save_sheet
from deepline.core.model.identity import RunId
from deepline.core.model.result import Completed, Failed, Report
from deepline.ports.errors import NotFound
from deepline.ports.sheets import RowOutcome
from tests.cli.people.runs import add_sheet, address_of
from tests.gateway.deployment import deployed

RUN = RunId("run_1")


def row(index: int, given: object, output: object = None, error: str | None = None) -> RowOutcome:
    """One finished row."""
    return RowOutcome(row_index=index, input_row=given, output=output, error=error)  # type: ignore[arg-type]


ROWS = [
    row(0, {"ant": "1", "zebra": 'a,\n"b"'}, {"size": -5, "tags": ["x"]}),
    row(1, {"ant": "=SUM(A1)", "zebra": "-3.5"}, {"size": None, "zebra": "again"}),
    row(2, {"ant": "@x", "zebra": "+353 1"}, error="ValueError: no"),
]


def cells(path: Path) -> list[list[str]]:
    """A CSV file as it is."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, strict=True))


async def test_columns_stand_in_the_order_of_the_input(tmp_path: Path) -> None:
    """Input columns, output columns, the error; formulas get an apostrophe, numbers do not."""
    async with deployed() as gateway, ApiClient(address_of(gateway)) as client:
        await add_sheet(gateway, await gateway.start(), ROWS)
        target = tmp_path / "out.csv"
        saved = await save_sheet(client, RUN, "contacts", target, columns=("zebra", "ant"))

    assert cells(target) == [
        ["zebra", "ant", "size", "tags", "output.zebra", "_error"],
        ['a,\n"b"', "1", "-5", '["x"]', "", ""],
        ["-3.5", "'=SUM(A1)", "", "", "again", ""],
        ["'+353 1", "'@x", "", "", "", "ValueError: no"],
    ]
    assert (saved.rows, saved.failed, list(saved.indexes)) == (3, 1, [0, 1, 2])
    assert list(tmp_path.iterdir()) == [target]


async def test_formulas_may_be_kept(tmp_path: Path) -> None:
    """Then every cell is what the play was given and returned."""
    async with deployed() as gateway, ApiClient(address_of(gateway)) as client:
        await add_sheet(gateway, await gateway.start(), ROWS)
        target = tmp_path / "out.csv"
        await save_sheet(client, RUN, "contacts", target, keep_formulas=True)

    assert cells(target)[2][:2] == ["=SUM(A1)", "-3.5"]


async def test_odd_names_of_columns(tmp_path: Path) -> None:
    """Columns called like ours, or like a formula, are all there, each once."""
    given = {"_error": "mine", "=x": "2", "output.b": "3", "b": "4"}
    async with deployed() as gateway, ApiClient(address_of(gateway)) as client:
        await add_sheet(gateway, await gateway.start(), [row(0, given, {"b": "5", "_row": "6"})])
        target = tmp_path / "out.csv"
        await save_sheet(client, RUN, "contacts", target, columns=tuple(given))

    header, line = cells(target)
    assert header[:4] == ["input._error", "'=x", "output.b", "b"]
    assert line[:4] == ["mine", "2", "3", "4"]
    assert sorted(line[4:6]) == ["5", "6"]
    assert (header[-1], line[-1]) == ("_error", "")


async def test_rows_that_are_no_objects(tmp_path: Path) -> None:
    """They stand below the names input and output."""
    async with deployed() as gateway, ApiClient(address_of(gateway)) as client:
        await add_sheet(gateway, await gateway.start(), [row(0, "ada", 3)])
        target = tmp_path / "out.csv"
        await save_sheet(client, RUN, "contacts", target)

    assert cells(target) == [["input", "output", "_error"], ["ada", "3", ""]]


async def test_what_was_there_stays_when_nothing_came(tmp_path: Path) -> None:
    """A download that fails leaves the old file, and nothing beside it."""
    target = tmp_path / "out.csv"
    target.write_text("precious")
    async with deployed() as gateway, ApiClient(address_of(gateway)) as client:
        await gateway.start()
        with pytest.raises(NotFound):
            await save_sheet(client, RUN, "nothing", target)

    assert target.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [target]


async def test_the_runs_own_sheet_is_taken(tmp_path: Path) -> None:
    """Of several sheets the one that the run names, or the one that was asked for."""
    async with deployed() as gateway, ApiClient(address_of(gateway)) as client:
        fresh = await gateway.start()
        await add_sheet(gateway, fresh, [row(0, {"a": "first"})], "a-sheet")
        await add_sheet(gateway, fresh, [row(0, {"a": "own"})], "own")
        await gateway.end(fresh, Completed(output={}, report=Report(table_namespace="own")))
        run = await client.show(RUN)
        target = tmp_path / "out.csv"
        saved = await save_output(client, run, Wanted(target=target))
        own = cells(target)
        await save_output(client, run, Wanted(target=target, sheet="a-sheet"))
        with pytest.raises(CommandFailed, match="no sheet 'other'; it has a-sheet, own"):
            await save_output(client, run, Wanted(target=target, sheet="other"))

    assert saved == SavedFile(path=str(target), rows=1, failed_rows=0)
    assert own[1][0] == "own"
    assert cells(target)[1][0] == "first"


async def test_a_result_as_json(tmp_path: Path) -> None:
    """A name that ends in .json takes what the play returned."""
    target = tmp_path / "out.json"
    async with deployed() as gateway, ApiClient(address_of(gateway)) as client:
        await gateway.end(await gateway.start(), Completed(output={"naïve": [1, None]}))
        saved = await save_output(client, await client.show(RUN), Wanted(target=target))

    assert json.loads(target.read_text("utf-8")) == {"naïve": [1, None]}
    assert saved == SavedFile(path=str(target))


async def test_a_run_without_rows(tmp_path: Path) -> None:
    """A completed run that made no sheet is told so; a failed one just leaves nothing."""
    wanted = Wanted(target=tmp_path / "out.csv")
    async with deployed() as gateway, ApiClient(address_of(gateway)) as client:
        await gateway.end(await gateway.start(), Completed(output=1))
        with pytest.raises(CommandFailed, match="made no sheet") as refused:
            await save_output(client, await client.show(RUN), wanted)
        await gateway.end(await gateway.start("run_2"), Failed(error="PLAY_FAILED: x"))
        failed = await client.show(RunId("run_2"))
        assert await save_output(client, failed, wanted) is None
        as_json = Wanted(target=tmp_path / "out.json")
        assert await save_output(client, failed, as_json) is None

    assert refused.value.code is ExitCode.FAILED
    assert not list(tmp_path.iterdir())


def test_a_target_that_cannot_be_written(tmp_path: Path) -> None:
    """It is refused before anything runs."""
    source = tmp_path / "in.csv"
    source.touch()
    (tmp_path / "alias.csv").symlink_to(source)

    for target, said in (
        (tmp_path / "alias.csv", "replace the input"),
        (tmp_path, "is a directory"),
        (tmp_path / "none" / "out.csv", "there is no directory"),
    ):
        with pytest.raises(CommandFailed, match=said) as refused:
            check_target(target, str(source))
        assert refused.value.code is ExitCode.USAGE
    assert check_target(tmp_path / "out.csv", "-") == tmp_path / "out.csv"
