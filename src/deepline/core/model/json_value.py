"""JSON as a Python type, and what of it the store can hold."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
"""Any JSON value.

To be stored, numbers must be finite and strings free of NUL and lone surrogates.
"""

JsonObject: TypeAlias = Mapping[str, Json]
