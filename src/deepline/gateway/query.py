"""Parameters of a query string, bounded, with answers that name the parameter."""

from starlette.requests import Request

from deepline.gateway.problems import Problem

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
