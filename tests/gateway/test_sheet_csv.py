"""CSV: the same columns for every row, exact values, quoted so that any reader gets them back."""

import csv
import io
from functools import partial

import attrs
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.model.json_value import Json
from deepline.gateway.sheet_csv import MORE, MOST_COLUMNS, ColumnNames
from deepline.ports.sheets import RowOutcome
from tests.gateway.deployment import ALICE, BOB, Deployment, Options, bearer, deployed, key_of


def row(index: int, input_row: Json, output: Json, error: str | None = None) -> RowOutcome:
    """A finished row."""
    return RowOutcome(row_index=index, input_row=input_row, output=output, error=error)


def written(*rows: RowOutcome, escape_formulas: bool = False) -> list[dict[str, str]]:
    """The rows as a CSV reader gets them back."""
    columns = ColumnNames()
    for one in rows:
        columns.see(one)
    layout = columns.layout(escape_formulas=escape_formulas)
    text = layout.header() + layout.rows([(one.row_index, one) for one in rows])
    return list(csv.DictReader(io.StringIO(text.decode(), newline="")))


def test_columns_are_the_union_in_order_of_appearance() -> None:
    """A row without a key has an empty cell there; an output key that is taken gets a prefix."""
    rows = written(
        row(0, {"email": "a@x.org", "n": 1}, {"company": "A", "email": "A@X.ORG"}),
        row(1, {"email": "b@x.org"}, {"size": 3}),
        row(2, {"email": "c@x.org"}, None, "no such company"),
    )

    assert list(rows[0]) == [
        "_row", "_status", "_error", "email", "n", "company", "output.email", "size", MORE,
    ]  # fmt: skip
    assert rows[0]["email"] == "a@x.org"
    assert rows[0]["output.email"] == "A@X.ORG"
    assert rows[1]["company"] == ""
    assert rows[1]["size"] == "3"
    assert [one["_status"] for one in rows] == ["completed", "completed", "failed"]
    assert rows[2]["_error"] == "no such company"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        pytest.param(None, "", id="null"),
        pytest.param(True, "true", id="boolean"),
        pytest.param(1.5, "1.5", id="number"),
        pytest.param("", "", id="empty"),
        pytest.param('say "hi"', 'say "hi"', id="quotes"),
        pytest.param("a,b", "a,b", id="comma"),
        pytest.param("two\nlines", "two\nlines", id="newline"),
        pytest.param("two\r\nlines", "two\r\nlines", id="return"),
        pytest.param(" spaced ", " spaced ", id="spaces"),
        pytest.param("Žluťoučký 🐴", "Žluťoučký 🐴", id="unicode"),
        pytest.param({"a": [1]}, '{"a":[1]}', id="object-as-json"),
        pytest.param([1, "x"], '[1,"x"]', id="list-as-json"),
    ],
)
def test_cells_hold_what_the_play_returned(value: Json, cell: str) -> None:
    """Texts stand as they are, everything else as JSON."""
    (only,) = written(row(0, {"v": value}, None))

    assert only["v"] == cell


@pytest.mark.parametrize("value", ["plain", 7, [1, 2], False])
def test_a_value_that_is_no_object_has_a_column_of_its_own(value: Json) -> None:
    """Rows of bare values are rows of one column."""
    (only,) = written(row(0, value, value))

    assert only["input"] == only["output"]
    assert only["output"] != ""


@pytest.mark.parametrize(
    ("value", "safe"),
    [
        pytest.param("=1+1", "'=1+1", id="equals"),
        pytest.param("+cmd", "'+cmd", id="plus"),
        pytest.param("-cmd", "'-cmd", id="minus"),
        pytest.param("@sum", "'@sum", id="at"),
        pytest.param("\tx", "'\tx", id="tab"),
        pytest.param("\rx", "'\rx", id="return"),
        pytest.param("-12.5", "-12.5", id="negative-number"),
        pytest.param("+420", "+420", id="signed-number"),
        pytest.param("a=1", "a=1", id="equals-inside"),
    ],
)
def test_formulas_are_disarmed_only_on_request(value: str, safe: str) -> None:
    """A spreadsheet shows an escaped cell as text; without the option a cell is exact."""
    (escaped,) = written(row(0, {"v": value}, None), escape_formulas=True)
    (exact,) = written(row(0, {"v": value}, None))

    assert escaped["v"] == safe
    assert exact["v"] == value


def test_a_header_cannot_smuggle_a_formula_in() -> None:
    """Names of columns come from data as well."""
    (only,) = written(row(0, {"=cmd()": 1}, None), escape_formulas=True)

    assert "'=cmd()" in only


def test_the_number_of_columns_is_bounded_and_nothing_is_lost() -> None:
    """Keys beyond the bound, and keys unseen by the first pass, are in the last column as JSON."""
    wide = row(0, {f"k{n}": n for n in range(MOST_COLUMNS + 2)}, None)
    columns = ColumnNames()
    columns.see(wide)
    layout = columns.layout(escape_formulas=False)
    late = row(1, {"k0": "x"}, {"late": 1})
    text = (layout.header() + layout.rows([(0, wide), (1, late)])).decode()
    first, second = csv.DictReader(io.StringIO(text, newline=""))

    assert len(first) == MOST_COLUMNS + 4
    assert first[MORE] == '{"input":{"k500":500,"k501":501}}'
    assert second[MORE] == '{"output":{"late":1}}'


@pytest.mark.parametrize("taken", ["_row", "_status", "_error", MORE])
def test_our_own_columns_keep_their_names(taken: str) -> None:
    """A key of a row that looks like one of ours gets a prefix, and both are there."""
    (only,) = written(row(4, {taken: "i"}, {taken: "o"}))

    assert only["_row"] == "4"
    assert only[f"input.{taken}"] == "i"
    assert only[f"output.{taken}"] == "o"


@given(
    st.lists(
        st.dictionaries(
            st.text(
                st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=5
            ),
            st.text(
                st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=9
            ),
            max_size=4,
        ),
        max_size=5,
    )
)
def test_every_text_survives_the_way_through_a_reader(rows: list[dict[str, str]]) -> None:
    """Whatever the texts hold, a reader of RFC 4180 gets the same cells back."""
    columns = ColumnNames()
    outcomes = [row(index, dict(one), None) for index, one in enumerate(rows)]
    for one in outcomes:
        columns.see(one)
    layout = columns.layout(escape_formulas=False)
    text = layout.header() + layout.rows([(one.row_index, one) for one in outcomes])
    header, *lines = csv.reader(io.StringIO(text.decode(), newline=""))

    assert len(lines) == len(rows)
    for line, given_row in zip(lines, rows, strict=True):
        cells = dict(zip(columns_of(outcomes), line[3:-1], strict=True))
        assert len(line) == len(header)
        assert {name: cells[name] for name in given_row} == given_row


def columns_of(rows: list[RowOutcome]) -> list[str]:
    """Keys in order of first appearance."""
    seen: dict[str, None] = {}
    for one in rows:
        assert isinstance(one.input_row, dict)
        seen.update(dict.fromkeys(one.input_row))
    return list(seen)


async def filled(gateway: Deployment, count: int) -> None:
    """A run whose sheet has `count` rows, every tenth failed."""
    fresh = await gateway.start()
    sheets, key = gateway.store.sheets, key_of(fresh)
    await sheets.open_sheet(key, "leads of may", total=count)
    await sheets.finish_rows(
        key,
        "leads of may",
        [
            row(
                n,
                {"n": n},
                None if n % 10 == 0 else {f"o{n % 3}": n},
                "bad" if n % 10 == 0 else None,
            )
            for n in range(count)
        ],
    )


async def test_a_sheet_is_downloaded_whole_over_many_pages() -> None:
    """Every row is there once and in order, with the columns of all of them."""
    url = "/api/v1/runs/run_1/sheets/leads%20of%20may.csv"
    async with deployed() as gateway:
        await filled(gateway, 345)
        answer = await gateway.client.get(url, headers=bearer(ALICE))

    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="leads_of_may.csv"'
    assert [int(one["_row"]) for one in rows] == list(range(345))
    assert list(rows[0])[3:-1] == ["n", "o1", "o2", "o0"]
    assert sum(one["_status"] == "failed" for one in rows) == 35


async def test_sheets_are_listed_with_their_counts() -> None:
    """Completed, failed and total, in the data plane's own account (C23)."""
    async with deployed() as gateway:
        await filled(gateway, 20)
        answer = await gateway.client.get("/api/v1/runs/run_1/sheets", headers=bearer(ALICE))

    assert answer.json() == {
        "sheets": [{"namespace": "leads of may", "completed": 18, "failed": 2, "total": 20}]
    }


async def test_rows_are_read_as_json_page_by_page() -> None:
    """Every row is there once, with its input; `next` continues and is null at the end."""
    url, pages = "/api/v1/runs/run_1/sheets/leads%20of%20may/rows", []
    after: int | None = -1
    async with deployed() as gateway:
        await filled(gateway, 25)
        while after is not None:
            query = {"after": str(after), "limit": "10"}
            answer = await gateway.client.get(url, params=query, headers=bearer(ALICE))
            pages.append(answer.json()["rows"])
            after = answer.json()["next"]
        stranger = await gateway.client.get(url, headers=bearer(BOB))

    assert [len(page) for page in pages] == [10, 10, 5]
    assert [one["rowIndex"] for page in pages for one in page] == list(range(25))
    assert pages[0][0] == {"rowIndex": 0, "input": {"n": 0}, "output": None, "error": "bad"}
    assert pages[0][1] == {"rowIndex": 1, "input": {"n": 1}, "output": {"o1": 1}, "error": None}
    assert stranger.json()["code"] == "run_not_found"


async def test_a_page_of_large_rows_holds_fewer() -> None:
    """What is left out of a page for its size is the beginning of the next one."""
    url = "/api/v1/runs/run_1/sheets/large/rows"
    large = "x" * (3 << 20)
    async with deployed() as gateway:
        key = key_of(await gateway.start())
        await gateway.store.sheets.open_sheet(key, "large", total=3)
        await gateway.store.sheets.finish_rows(key, "large", [row(n, 0, large) for n in range(3)])
        get = partial(gateway.client.get, url, headers=bearer(ALICE))
        first = (await get()).json()
        second = (await get(params={"after": str(first["next"])})).json()

    assert ([one["rowIndex"] for one in first["rows"]], first["next"]) == ([0, 1], 1)
    assert ([one["rowIndex"] for one in second["rows"]], second["next"]) == ([2], None)


async def test_a_sheet_that_is_none_and_an_option_that_is_none_are_named() -> None:
    """Unknown sheets are 404, unknown options 400."""
    async with deployed() as gateway:
        await filled(gateway, 1)
        get = partial(gateway.client.get, headers=bearer(ALICE))
        missing = await get("/api/v1/runs/run_1/sheets/other.csv")
        option = await get("/api/v1/runs/run_1/sheets/leads%20of%20may.csv?formulas=run")

    assert missing.json()["code"] == "sheet_not_found"
    assert option.json()["code"] == "invalid_query"


async def test_a_download_that_fails_half_way_is_seen_to_be_incomplete() -> None:
    """The connection is cut, so that half a file is never taken for a whole one."""
    calls = 0

    class Failing:
        def __init__(self, inner: object) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

        async def read_rows(self, *args: object, **kwargs: object) -> object:
            nonlocal calls
            calls += 1
            if calls == 5:
                raise ZeroDivisionError
            return await self._inner.read_rows(*args, **kwargs)  # type: ignore[attr-defined]

    options = Options(ports=lambda ports: attrs.evolve(ports, sheets=Failing(ports.sheets)))  # type: ignore[arg-type]
    async with deployed(options) as gateway:
        await filled(gateway, 205)
        with pytest.raises(httpx.RemoteProtocolError):
            await gateway.client.get(
                "/api/v1/runs/run_1/sheets/leads%20of%20may.csv", headers=bearer(ALICE)
            )
        (cut,) = gateway.telemetry.named("answer_cut")

    assert cut.fields["code"] == "internal_error"
