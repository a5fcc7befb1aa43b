"""The play of the demo does to contacts what it says, and finds every trouble in the list."""

import csv
from pathlib import Path

import pytest

from examples import enrich_contacts

EXAMPLES = Path(enrich_contacts.__file__).parent
FINE = {
    "name": "MURPHY, dr. ada",
    "email": " <Ada.Murphy@Example.ORG>",
    "phone": "0044 (20) 7946-0018",
    "company": "acme  widgets",
    "country": "Ireland",
}


@pytest.fixture(autouse=True)
def _no_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enrich_contacts, "LOOKUP_S", 0.0)


def test_a_contact_is_cleaned() -> None:
    """Names, addresses, numbers and countries come out in one form."""
    assert enrich_contacts.enrich(FINE) == {
        "full_name": "Ada Murphy",
        "clean_email": "ada.murphy@example.org",
        "domain": "example.org",
        "clean_phone": "+442079460018",
        "company_name": "Acme Widgets",
        "country_code": "IE",
    }


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param({"email": " "}, "no email address", id="none"),
        pytest.param({"email": "ada at example"}, "not an email", id="malformed"),
        pytest.param({"name": "=1+1"}, "formula", id="formula"),
    ],
)
def test_a_contact_that_cannot_be_cleaned_says_why(change: dict[str, str], why: str) -> None:
    """The row fails alone, with words for people."""
    with pytest.raises(ValueError, match=why):
        enrich_contacts.enrich(FINE | change)


def test_the_list_is_messy_and_large_enough() -> None:
    """More than a thousand rows, each one either cleaned or refused with a reason."""
    with (EXAMPLES / "contacts.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, strict=True))
    reasons = [reason for row in rows if (reason := refusal(row)) is not None]

    assert len(rows) > 1_000
    assert len(rows) / 20 < len(reasons) < len(rows) / 5
    assert all(reasons)


def refusal(row: dict[str, str]) -> str | None:
    """Why a contact is refused, if it is."""
    try:
        enrich_contacts.enrich(row)
    except ValueError as error:
        return str(error)
    return None
