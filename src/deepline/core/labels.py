"""What text from outside may stand in a code or a log field as it is."""

import re

_LABEL = re.compile(r"[A-Za-z0-9_]{1,80}")


def is_label(text: str) -> bool:
    """True for 1 to 80 letters, digits and underscores."""
    return _LABEL.fullmatch(text) is not None
