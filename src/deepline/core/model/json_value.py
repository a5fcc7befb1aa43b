"""JSON as a Python type, and what of it the store can hold."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Json: TypeAlias = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
"""Any JSON value. Numbers must be finite and strings free of NUL and lone surrogates to be stored."""

JsonObject: TypeAlias = Mapping[str, Json]
