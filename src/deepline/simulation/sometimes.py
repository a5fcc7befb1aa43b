"""States that some seed must reach: a simulation that never gets anywhere finds nothing.

`always` rules say that nothing bad happens; this table says that interesting things do. A state is
a word that a history reaches: the rule of a decision, or what an event of a counted kind said.
The suite fails when a state is never reached.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from deepline.simulation.history import Event, History

_LAST_WORD = frozenset({"inspected", "delete answered"})
_WHOLE = frozenset({"attempt left", "cancel answered", "fault", "pushed", "token"})
_FIRST_WORD = frozenset({"RUN ENDED"})
_BARE = frozenset({"crashed", "ended", "started"})

SOMETIMES: Mapping[str, str] = {}


def states_of(history: History) -> set[str]:
    """Everything that one history reached."""
    states = {state for state in history.reached if not state.startswith("log ")}
    states |= {word for event in history.events for word in _words(event)}
    return states


def _words(event: Event) -> Iterator[str]:
    kind = event.kind
    if kind in _WHOLE:
        yield f"{kind}: {event.what}"
    elif kind in _LAST_WORD:
        yield f"{kind}: {event.what.rpartition(' ')[2]}"
    elif kind in _FIRST_WORD:
        yield f"{kind}: {event.what.partition(' ')[0]}"
    elif kind in _BARE:
        yield kind


def count(histories: Iterable[History]) -> Counter[str]:
    """In how many histories each state was reached."""
    counts: Counter[str] = Counter()
    for history in histories:
        counts.update(states_of(history))
    return counts


def never(counts: Mapping[str, int]) -> list[str]:
    """The states of the table that no history reached."""
    return [state for state in SOMETIMES if not counts.get(state)]
