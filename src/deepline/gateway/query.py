"""Parameters of a query string, bounded, with answers that name the parameter."""

from starlette.requests import Request

from deepline.core.model.identity import OrgId
from deepline.gateway.authentication import Principal
from deepline.gateway.problems import Problem

LATEST_MS = 7_258_118_400_000
"""The latest instant that a parameter may name; as far as any is read from JSON."""
_LONGEST_NUMBER = 18


def query_integer(request: Request, name: str, *, default: int, lowest: int, highest: int) -> int:
    """Read a whole number. Raises a 400 `Problem` when it is none or out of bounds."""
    text = request.query_params.get(name)
    if text is None or text == "":
        return default
    digits = text.removeprefix("-")
    if len(digits) <= _LONGEST_NUMBER and digits.isascii() and digits.isdigit():
        value = int(text)
        if lowest <= value <= highest:
            return value
    raise Problem(
        400, "invalid_query", f"{name}: give a whole number between {lowest} and {highest}."
    )


def query_text(request: Request, name: str, *, longest: int = 200) -> str | None:
    """Read a text, `None` when absent or empty. Raises a 400 `Problem` when it is too long."""
    text = request.query_params.get(name) or None
    if text is not None and (len(text) > longest or not text.isprintable()):
        raise Problem(400, "invalid_query", f"{name}: give at most {longest} printable characters.")
    return text


def seen_organisation(request: Request, principal: Principal) -> OrgId | None:
    """The organisation that `org` names, or all that the key sees. Raises a 404 `Problem`."""
    named = query_text(request, "org")
    if named is None:
        return principal.sees
    if principal.sees not in (None, named):
        raise Problem(
            404, "organisation_not_found", f"This key does not see the organisation {named}."
        )
    return OrgId(named)
