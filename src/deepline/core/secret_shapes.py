"""Text of a shape that only secrets have, masked wherever it turns up (Q58, I46)."""

import re

MASK = "***"
_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.DOTALL), MASK),
    (re.compile(r"\beyJ[\w-]{8,}(?:\.[\w-]+){1,2}"), MASK),
    (re.compile(r"\bdlk_[\w-]{8,}"), MASK),
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1 {MASK}"),
    (re.compile(r"(\w[\w+.-]*://[^\s:/@]*):[^\s@]*@"), rf"\1:{MASK}@"),
    (
        re.compile(r"\b(password|passwd|sslpassword)\s*=\s*('[^']*'|\S+)", re.IGNORECASE),
        rf"\1={MASK}",
    ),
)


def masked(text: str) -> str:
    """The text without keys, tokens and passwords that can be told by their shape."""
    for shape, shown in _SHAPES:
        text = shape.sub(shown, text)
    return text
