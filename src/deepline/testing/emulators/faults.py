"""Faults to order: which calls of an emulator go wrong, how, and how often (FAULTS J).

A rule names calls and says what happens to them. The worst fault of all is a reply that is lost
after its effect; it is `FaultRule(calls=..., after_effect=True, lost=True)`.
"""

import json
import random
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import cattrs

from deepline.testing.emulators.records import replace_json


@attrs.frozen(kw_only=True)
class FaultRule:
    """What happens to some calls.

    `calls` is a regular expression for the whole name of a call, such as `DELETE /api/sandbox/.*`.
    The first `skip` calls are left alone; of the following every `every`th is hit, or a `share` of
    those by chance, `times` in all. A hit call waits `delay_s`; then it is done for real if
    `after_effect` is set or nothing else is, only `late_s` after its caller heard; then it is left
    without an answer for ever (`hangs`), its connection is torn (`lost`), or it is answered with
    `status`, `headers` and `message`. With `bare` the answer has no body, like one of a proxy that
    stands between. A call that is `foreign` is answered as if somebody else had made it.
    """

    calls: str
    times: int = 1
    skip: int = 0
    every: int = 1
    share: float = 1.0
    delay_s: float = 0.0
    after_effect: bool = False
    late_s: float = 0.0
    hangs: bool = False
    lost: bool = False
    status: int | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])
    message: str = "a fault to order"
    bare: bool = False
    foreign: bool = False

    @property
    def done(self) -> bool:
        """True when the call has its effect in spite of the fault."""
        return self.after_effect or not (self.hangs or self.lost or self.status is not None)


@attrs.define
class _Counted:
    rule: FaultRule
    seen: int = 0
    hit: int = 0
    chance: random.Random = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Have a chance that is the same each time, and another for each rule."""
        self.chance = random.Random(repr(self.rule))  # noqa: S311 - nothing is kept secret by it

    def takes(self) -> bool:
        """Count one matching call; True when it is hit."""
        self.seen += 1
        due = self.seen > self.rule.skip and (self.seen - self.rule.skip - 1) % self.rule.every == 0
        if not due or self.hit >= self.rule.times or self.chance.random() >= self.rule.share:
            return False
        self.hit += 1
        return True


class FaultBook:
    """The rules in force, kept in a file. Threads may share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._rules: list[_Counted] = []
        if path.exists():
            self._rules = cattrs.structure(json.loads(path.read_text()), list[_Counted])

    def add(self, rule: FaultRule) -> None:
        """Put a rule in force. Raises `ValueError` when `calls` is no regular expression."""
        try:
            re.compile(rule.calls)
        except re.error as problem:
            raise ValueError(f"{rule.calls!r} is no regular expression: {problem}") from problem
        with self._lock:
            self._rules.append(_Counted(rule))
            self._keep()

    def clear(self) -> None:
        """Put every rule out of force."""
        with self._lock:
            self._rules.clear()
            self._keep()

    def take(self, call: str) -> FaultRule | None:
        """The first rule that hits this call, used up by one."""
        with self._lock:
            for counted in self._rules:
                if re.fullmatch(counted.rule.calls, call) and counted.takes():
                    self._keep()
                    return counted.rule
        return None

    def left(self) -> int:
        """How many times the rules are yet to hit."""
        with self._lock:
            return sum(counted.rule.times - counted.hit for counted in self._rules)

    def hits(self) -> Sequence[int]:
        """How many times each rule has hit so far, in the order in which they were added."""
        with self._lock:
            return [counted.hit for counted in self._rules]

    def _keep(self) -> None:
        replace_json(self._path, cattrs.unstructure(self._rules))
