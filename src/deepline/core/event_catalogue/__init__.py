"""Every event that a process may log, with its fields: the one list of them (C62)."""

from deepline.core.event_catalogue.catalogue import BY_NAME, EVENTS, problem_of
from deepline.core.event_catalogue.event import Event, title

__all__ = ["BY_NAME", "EVENTS", "Event", "problem_of", "title"]
