"""External actions done at most once in a run, however many processes perform it (C28, plays).

The lease is stored before the action begins and its result after it ended. A lease without a
result, of a process that is gone, says that the action may have happened; nobody can know better,
so it is not repeated.
"""

import secrets
import threading

from deepline.runner.bounds import STEP_BYTES_MAX
from deepline.runner.failures import CodedError
from deepline.runner.link import Link, RunnerRefused
from deepline.runner.steps import checked_name
from deepline.runner.storable import NotStorable, encode_storable, storable


class ActionInDoubt(CodedError):
    """An earlier process of this run began the action, and did not tell how it ended."""

    code = "ACTION_IN_DOUBT"


class Receipts:
    """The actions of one process of a play, which is the holder of all leases it asks for."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._holder = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._used: set[str] = set()

    def begin(self, name: str, retry: str | None) -> tuple[bool, object]:
        """Lease the action; True with its result when it was done before.

        Raises `ActionInDoubt`, and `ValueError` for a name that was taken already.
        """
        checked_name(name, "receipt")
        if retry not in {None, "safe"}:
            raise ValueError(f'retry is "safe" or left out, not {retry!r}')
        self._take(name)
        answer = self._link.ask(
            "lease_receipt",
            {"receipt": name, "holder": self._holder, "redo": retry == "safe"},
        )
        match answer:
            case {"state": "leased"}:
                self._tell(name, "started")
                return False, None
            case {"state": "done", "output": output}:
                self._tell(name, "reused")
                return True, output
            case {"state": "in_doubt", "attempt": int(attempt)}:
                raise ActionInDoubt(
                    f"the action {name!r} was begun earlier in this run, in attempt {attempt}, and"
                    " its result is not known: it may have happened. See whether it did; where"
                    ' doing it twice is harmless, pass retry="safe"'
                )
            case _:
                raise RunnerRefused("the runner's answer is not understood")

    def keep(self, name: str, output: object) -> object:
        """Keep what came of the action; returns it as it is stored.

        Raises `NotStorable`; then the action is in doubt for every later process.
        """
        try:
            plain = storable(output)
            encode_storable(plain, STEP_BYTES_MAX)
        except NotStorable as failure:
            raise NotStorable(
                f"the action {name!r} was done and returned what cannot be stored: {failure}"
            ) from None
        answer = self._link.ask(
            "complete_receipt", {"receipt": name, "holder": self._holder, "output": plain}
        )
        self._tell(name, "finished")
        return answer.get("output", plain)

    def _take(self, name: str) -> None:
        with self._lock:
            if name in self._used:
                raise ValueError(
                    f"the receipt {name!r} exists already; give each action its own name"
                )
            self._used.add(name)

    def _tell(self, name: str, status: str) -> None:
        self._link.tell("step", {"payload": {"step": name, "status": status, "once": True}})
