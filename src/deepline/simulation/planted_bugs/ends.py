"""Bugs in how runs end."""

from deepline.simulation.mutants import bug

RUNTIME = "deepline.runtime"
MEMORY = "deepline.adapters.memory"

END_BUGS = (
    bug(
        "commit-without-claim",
        "A run is ended though the claim is lost.",
        f"{MEMORY}.terminals:MemoryTerminals._commit",
        "if attempt is None or (claim is not None and engine_run is None):",
        "if attempt is None:",
    ),
    bug(
        "cancel-after-end",
        "A cancel changes a run that has ended.",
        f"{MEMORY}.terminals:MemoryTerminals._cancel",
        "if run.ended or unless(run):",
        "if unless(run):",
    ),
    bug(
        "engine-task-left-open",
        "The engine task is not completed with the run.",
        f"{MEMORY}.terminals:MemoryTerminals._commit",
        "world.queue.complete(engine_run)",
        "pass",
    ),
    bug(
        "terminal-fact-forgotten",
        "A cancelled run tells nobody that it ended.",
        f"{MEMORY}.ending:end_run",
        "    world.append_fact(run.run_id, terminal,",
        "    if ending.result is not None: world.append_fact(run.run_id, terminal,",
    ),
    bug(
        "progress-after-terminal",
        "The terminal fact comes before the settled progress of its run.",
        f"{MEMORY}.ending:end_run",
        "    for progress in ending.settled_progress:",
        "    world.append_fact(run.run_id, terminal_event_id(run.run_id), 'run.failed', {})\n"
        "    for progress in ending.settled_progress:",
    ),
    bug(
        "released-before-the-end",
        "Receipts are released before the terminal is written.",
        f"{RUNTIME}.settlement:settle",
        "    commit = await commit_of(context, ending)",
        "    await release_attempt(context, ending.ref, release.after_failed_terminal())\n"
        "    commit = await commit_of(context, ending)",
    ),
    bug(
        "dispatched-before-the-end",
        "The terminal is dispatched before it is written.",
        f"{RUNTIME}.settlement:settle",
        "    commit = await commit_of(context, ending)",
        "    context.dispatcher and context.dispatcher.request_terminal(\n"
        "        ending.ref.run_id, trigger='early', projection_started_at=None)\n"
        "    commit = await commit_of(context, ending)",
    ),
)
