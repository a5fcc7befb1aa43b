"""CSV as a play's input: what is read, and how each trouble is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.cli.people import csv_rows
from deepline.cli.people.csv_rows import CsvRefused, parse_csv


def test_rows_are_texts_by_column() -> None:
    """Cells stay as they stand in the file; columns keep their order."""
    table = parse_csv(b"id,name\n1, ada \n2,007\n")

    assert table.columns == ["id", "name"]
    assert table.rows == [{"id": "1", "name": " ada "}, {"id": "2", "name": "007"}]
    assert table.as_input() == {"columns": ["id", "name"], "rows": table.rows}


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        pytest.param("\ufeffname\nØ\n".encode(), [{"name": "Ø"}], id="byte-order-mark"),
        pytest.param(b"name\r\nada\r\n", [{"name": "ada"}], id="crlf"),
        pytest.param(b"name\nada", [{"name": "ada"}], id="no-last-newline"),
        pytest.param(b"name\n\n\nada\n\n", [{"name": "ada"}], id="blank-lines"),
        pytest.param(b"name\n", [], id="no-rows"),
        pytest.param(b'a,b\n"x, ""y""\nz",1\n', [{"a": 'x, "y"\nz', "b": "1"}], id="quoted-cell"),
        pytest.param(b"a,b,c\n1\n", [{"a": "1", "b": "", "c": ""}], id="row-ends-early"),
        pytest.param(b"a,b\n1,2,, \n", [{"a": "1", "b": "2"}], id="blank-cells-too-many"),
        pytest.param(b"a,,c\n1,2,3\n", [{"a": "1", "column_2": "2", "c": "3"}], id="unnamed"),
        pytest.param(b" a ,b\n1,2\n", [{"a": "1", "b": "2"}], id="spaces-around-names"),
    ],
)
def test_what_is_read(content: bytes, rows: list[dict[str, str]]) -> None:
    """Files as they are found in the world are read without a question."""
    assert parse_csv(content).rows == rows


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b"\n \n", "is empty", id="blank"),
        pytest.param("naïve\n".encode("utf-16"), "UTF-16; save it as UTF-8", id="utf-16"),
        pytest.param("naïve\n".encode("utf-32"), "UTF-32", id="utf-32"),
        pytest.param("a\nb\nJosé\n".encode("latin-1"), "line 3 is not UTF-8 .*0xe9", id="latin-1"),
        pytest.param(b"a\n\x00\n", "line 2 holds a NUL", id="nul"),
        pytest.param(b"a,b\n1,2\n1,2,3\n", "line 3 has 3 cells.*2 columns", id="too-many-cells"),
        pytest.param(b"a,b,a\n", "names the column 'a' twice", id="column-twice"),
        pytest.param(b'a\n"open\n', "line 2 cannot be read", id="open-quote"),
        pytest.param(b'a\n"x"y\n', "line 2 cannot be read.*doubled", id="quote-inside"),
        pytest.param(b"a;b\n1;2\n", "--delimiter ';'", id="semicolons"),
        pytest.param(b"a\tb\n1\t2\n", "--delimiter tab", id="tabs"),
        pytest.param(b",".join([b"c"] * 1_001) + b"\n", "1,001 columns", id="many-columns"),
    ],
)
def test_what_is_refused(content: bytes, said: str) -> None:
    """What cannot be understood is refused with its line and with what to do."""
    with pytest.raises(CsvRefused, match=said):
        parse_csv(content)


def test_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows than a sheet may have are refused before they are all read."""
    monkeypatch.setattr(csv_rows, "ROWS_MAX", 2)

    assert len(parse_csv(b"a\n1\n2\n").rows) == 2
    with pytest.raises(CsvRefused, match="more than 2 rows"):
        parse_csv(b"a\n1\n2\n3\n")


def test_another_delimiter() -> None:
    """Cells may be set apart by something else, if that is said."""
    assert parse_csv(b"a;b\n1;2,5\n", delimiter=";").rows == [{"a": "1", "b": "2,5"}]


def test_a_cell_as_large_as_the_file() -> None:
    """A single long cell is no trouble, since the file is bounded."""
    assert parse_csv(b'a\n"' + b"x" * 1_000_000 + b'"\n').rows == [{"a": "x" * 1_000_000}]


@given(st.binary(max_size=200))
def test_no_bytes_break_it(content: bytes) -> None:
    """Whatever a file holds, it is read or refused; every row has every column."""
    try:
        table = parse_csv(content)
    except CsvRefused:
        return
    assert all(list(row) == table.columns for row in table.rows)
