"""Reading a JSON object field by field, with an answer that names the field and the remedy."""

from collections.abc import Mapping, Sequence

import attrs

from deepline.core.model.identity import MAX_ID_LENGTH
from deepline.core.model.json_value import Json, JsonObject
from deepline.gateway.problems import invalid


@attrs.frozen
class Fields:
    """One JSON object of a request; `where` is a prefix for messages, such as `runs[3].`.

    Every reader raises a 422 problem that names the field.
    """

    values: JsonObject
    where: str = ""

    def raw(self, name: str) -> Json:
        """The value as it came, `None` when absent."""
        return self.values.get(name)

    def text(self, name: str, *, longest: int = MAX_ID_LENGTH) -> str:
        """A string with something in it."""
        found = self.optional_text(name, longest=longest)
        if found is None:
            raise invalid(f"{self.where}{name}: give a non-empty string.")
        return found

    def optional_text(self, name: str, *, longest: int = MAX_ID_LENGTH) -> str | None:
        """A string, or `None` when it is absent, null or blank."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise invalid(f"{self.where}{name}: must be a string.")
        if len(value) > longest:
            raise invalid(f"{self.where}{name}: at most {longest} characters.")
        if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
            raise invalid(f"{self.where}{name}: must not hold NUL or lone surrogates.")
        return value if value.strip() else None

    def integer(self, name: str, *, lowest: int, highest: int) -> int:
        """A whole number within bounds."""
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise invalid(f"{self.where}{name}: must be a whole number.")
        if not lowest <= value <= highest:
            raise invalid(f"{self.where}{name}: must lie between {lowest} and {highest}.")
        return value

    def optional_integer(self, name: str, *, lowest: int, highest: int) -> int | None:
        """A whole number within bounds, or `None` when absent or null."""
        if self.values.get(name) is None:
            return None
        return self.integer(name, lowest=lowest, highest=highest)

    def object(self, name: str) -> JsonObject:
        """An object; an empty one when absent."""
        value = self.values.get(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise invalid(f"{self.where}{name}: must be an object.")
        return value

    def objects(self, name: str, *, most: int) -> Sequence["Fields"]:
        """A list of objects, each ready to be read itself."""
        return [
            Fields(_as_object(item, where), f"{where}.")
            for item, where in self._items(name, most=most)
        ]

    def texts(self, name: str, *, most: int, longest: int = MAX_ID_LENGTH) -> Sequence[str]:
        """A list of strings without repetition, empty when absent."""
        found: dict[str, None] = {}
        for item, where in self._items(name, most=most):
            if not isinstance(item, str) or not item.strip() or len(item) > longest:
                raise invalid(f"{where}: must be a string of 1 to {longest} characters.")
            found[item] = None
        return tuple(found)

    def _items(self, name: str, *, most: int) -> Sequence[tuple[Json, str]]:
        value = self.values.get(name)
        if value is None:
            return ()
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise invalid(f"{self.where}{name}: must be a list.")
        if len(value) > most:
            raise invalid(f"{self.where}{name}: at most {most} entries; send the rest separately.")
        return [(item, f"{self.where}{name}[{index}]") for index, item in enumerate(value)]


def _as_object(value: Json, where: str) -> JsonObject:
    if not isinstance(value, Mapping):
        raise invalid(f"{where}: must be an object.")
    return value
