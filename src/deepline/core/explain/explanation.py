"""Why a run ended so, or why it is not moving: one sentence, what is next, and what happened."""

import attrs

from deepline.core.explain.duties import DUTIES, remaining
from deepline.core.explain.ended import ENDED
from deepline.core.explain.queued import QUEUED
from deepline.core.explain.situation import Situation
from deepline.core.explain.timeline import TimelineEntry, timeline
from deepline.core.explain.underway import CONTRADICTIONS, UNDERWAY
from deepline.core.explain.view import View
from deepline.core.model.evidence import RunEvidence
from deepline.core.model.run import RunStatus

_OPEN = (*CONTRADICTIONS, *QUEUED, *UNDERWAY)
SITUATIONS = tuple(row.name for table in (_OPEN, ENDED, *DUTIES) for row in table)
"""The names of all situations, each once."""


@attrs.frozen(kw_only=True)
class Explanation:
    """What is known of one run, in words.

    `sentence` may be more than one when an ended run leaves something to do; `remaining` then
    names it. `next` says what would move the run on. `timeline` is oldest first.
    """

    situation: str
    sentence: str
    next: str
    remaining: tuple[str, ...]
    timeline: tuple[TimelineEntry, ...]


def explain(evidence: RunEvidence) -> Explanation:
    """Explain one run from its durable facts. Same evidence, same words; never raises."""
    view = View(evidence)
    duties = remaining(view) if view.run.status.is_terminal else ()
    row = _first(ENDED if view.run.status.is_terminal else _open_table(view), view)
    return Explanation(
        situation=row.name,
        sentence=" ".join((row.sentence(view), *(duty.sentence(view) for duty in duties))),
        next="; ".join(duty.following(view) for duty in duties) or row.following(view),
        remaining=tuple(duty.name for duty in duties),
        timeline=timeline(evidence),
    )


def _open_table(view: View) -> tuple[Situation, ...]:
    """Contradictions first; then by what the run row says, since an old decision may linger."""
    if view.run.status is RunStatus.QUEUED:
        return (*CONTRADICTIONS, *QUEUED)
    return (*CONTRADICTIONS, *UNDERWAY)


def _first(table: tuple[Situation, ...], view: View) -> Situation:
    return next(row for row in table if row.applies(view))
