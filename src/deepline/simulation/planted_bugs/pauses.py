"""Bugs in pauses that hold no sandbox, and in what is done outside once."""

from deepline.simulation.mutants import bug

CORE = "deepline.core"
MEMORY = "deepline.adapters.memory"

PAUSE_BUGS = (
    bug(
        "verdict-on-a-paused-play",
        "A verdict is stored though the play has paused.",
        f"{CORE}.heartbeats:judge_offer",
        "if state.is_suspended:",
        "if False:",
    ),
    bug(
        "pause-keeps-its-sandbox",
        "A play that pauses keeps its sandbox.",
        f"{MEMORY}.attempts:MemoryAttempts.park",
        "oblige_attempt(self.world, row)",
        "pass",
    ),
    bug(
        "answers-forgotten",
        "A play that pauses again forgets what it was answered before.",
        f"{CORE}.parking:carry_over",
        "answers = {**_answers(stored), **_answers(reported)}",
        "answers = _answers(reported)",
    ),
    bug(
        "event-trusted",
        "A look at a run that waits for an event without end is taken for the event.",
        f"{CORE}.parking:_after_event",
        "if signal is not None:",
        "if signal is not None or suspension.expires_at is None:",
    ),
    bug(
        "receipt-leased-twice",
        "An action that may have been done is leased to another process.",
        f"{MEMORY}.receipts:MemoryReceipts.lease",
        "if row.holder != holder and not redo:",
        "if False:",
    ),
)
