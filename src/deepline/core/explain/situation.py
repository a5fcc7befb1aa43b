"""A situation: how to recognise it, what to say of it, and what would move it on."""

from collections.abc import Callable

import attrs

from deepline.core.explain.view import View


@attrs.frozen(kw_only=True)
class Situation:
    """One row of a table that is read from the top; the first that applies is the run's.

    `sentence` says what is the case and on what evidence, `following` what would move it.
    """

    name: str
    applies: Callable[[View], bool]
    sentence: Callable[[View], str]
    following: Callable[[View], str]


def by_rule(*prefixes: str) -> Callable[[View], bool]:
    """Recognise by the newest decision's rule."""
    return lambda view: view.rule.startswith(prefixes)


def by_end(*prefixes: str) -> Callable[[View], bool]:
    """Recognise by the rule that ended the run."""
    return lambda view: view.why.rule.startswith(prefixes)


def always(text: str) -> Callable[[View], str]:
    """The same words for every run."""
    return lambda _: text
