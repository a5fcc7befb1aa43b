"""Explaining a run: every decision says why, and this says it in words (DESIGN: outcome explained).

`explain` takes everything durable that is known of a run and answers with the situation it is in,
a sentence, what would move it, and its timeline. Tables of situations are read from the top, as
decision tables are.
"""

from deepline.core.explain.explanation import SITUATIONS, Explanation, explain
from deepline.core.explain.timeline import TimelineEntry

__all__ = ["SITUATIONS", "Explanation", "TimelineEntry", "explain"]
