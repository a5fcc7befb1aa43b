"""Results of steps, kept so that a resumed play does not do them again (C34)."""

import threading
from collections.abc import Mapping

from deepline.runner.bounds import NAME_CHARS_MAX, STEP_BYTES_MAX
from deepline.runner.link import Link
from deepline.runner.storable import NotStorable, encode_storable, storable


class Steps:
    """The finished steps of a run, read when the first one is asked for."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._kept: dict[str, object] | None = None
        self._used: set[str] = set()

    def begin(self, name: str) -> tuple[bool, object]:
        """Take the name for this play; True with the kept output when the step was done before.

        Raises `ValueError` for a name that was taken already.
        """
        checked_name(name, "step")
        with self._lock:
            if name in self._used:
                raise ValueError(f"the step {name!r} exists already; give each step its own name")
            self._used.add(name)
            if self._kept is None:
                self._kept = _kept(self._link.ask("steps", {}))
            done, output = name in self._kept, self._kept.get(name)
        self._link.tell("step", {"payload": {"step": name, "status": _word(kept=done)}})
        return done, output

    def keep(self, name: str, output: object) -> object:
        """Keep what the step returned; returns it as it is stored.

        Raises `NotStorable`.
        """
        try:
            plain = storable(output)
            encode_storable(plain, STEP_BYTES_MAX)
        except NotStorable as failure:
            raise NotStorable(
                f"the step {name!r} returned what cannot be stored: {failure}"
            ) from None
        answer = self._link.ask("keep_step", {"step": name, "output": plain})
        self._link.tell("step", {"payload": {"step": name, "status": "finished"}})
        return answer.get("output", plain)


def checked_name(name: object, what: str) -> str:
    """The name of a step or a sheet; raises `ValueError` for one that cannot be stored."""
    if (
        not isinstance(name, str)
        or not name
        or len(name) > NAME_CHARS_MAX
        or not name.isprintable()
    ):
        raise ValueError(f"a {what} is named by 1 to {NAME_CHARS_MAX} printable characters")
    return name


def _kept(answer: Mapping[str, object]) -> dict[str, object]:
    found = answer.get("steps")
    kept: dict[str, object] = {}
    for item in found if isinstance(found, list) else []:
        match item:
            case {"step": str(step), "output": output}:
                kept[step] = output
            case _:
                pass
    return kept


def _word(*, kept: bool) -> str:
    return "reused" if kept else "started"
