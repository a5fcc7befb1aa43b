"""What each rule means, in words; the timeline and the fallback situations read it.

A rule that is not listed is still told: by its name and by what it saw.
"""

from deepline.core.explain.phrases import listed
from deepline.core.model.why import Why

MEANING = {
    "arbitration.attempt_disappeared": "the attempt was gone when its verdict was written",
    "arbitration.ceiling": "the runner reached its wall-clock limit",
    "arbitration.first_write_won": "another result was stored first and was settled",
    "arbitration.fresh_heartbeat": "the runner beat recently, so the run stays parked",
    "arbitration.heartbeat_moved": "the runner beat during the inspection, so the run stays parked",
    "arbitration.inspected_result": "the runner's result was found in its sandbox",
    "arbitration.lost": "the runner is silent and its sandbox gone, without a result",
    "arbitration.needs_inspection": "the heartbeat is stale, so the sandbox was looked at",
    "arbitration.not_proven_gone": "the runner is silent, but nothing proves its sandbox gone",
    "arbitration.pushed_terminal": "the result that the runner pushed was settled",
    "arbitration.silence_unconfirmed": "the silence is not confirmed yet, so the run stays parked",
    "arbitration.stored_terminal_missing": "a stored result could not be read back",
    "arbitration.verdict_outlived": "the runner beat before its verdict was written",
    "cancel.requested": "somebody asked to cancel the run",
    "cancel_cleanup.planned": "the cleanup of a cancelled run was planned",
    "capacity_deferral.deferred": "there was no capacity, so the run was put off",
    "capacity_deferral.retired": "there was no capacity, so the attempt was given up and queued",
    "claim.lease_lost": "a worker stopped extending its claim, so the claim was lost",
    "claim.taken_over": "another worker took the attempt over",
    "cleanup.runner_may_live": "cleanup was withheld, since the runner may live",
    "created_projection.acknowledged": "the created fact is acknowledged",
    "created_projection.contradiction": "a wake came though the created fact is unacknowledged",
    "created_projection.pending": "the created fact is unacknowledged, so the run was put off",
    "error_routing.capacity": "there was no capacity for the attempt",
    "error_routing.fence_lost": "the attempt was superseded",
    "error_routing.fresh_failed": "the attempt failed",
    "error_routing.fresh_outage": "the attempt had no executor token",
    "error_routing.fresh_pre_code": "a dependency of the attempt failed before play code ran",
    "error_routing.handoff_capacity": "there was no capacity to let go of a started runner",
    "error_routing.handoff_deferred": "the runner was started but the run could not be parked",
    "error_routing.handoff_outage": "an executor-token outage followed the start of the runner",
    "error_routing.wake_failed": "looking after the parked runner failed",
    "error_routing.wake_outage": "no executor token could be had to look after the parked runner",
    "executor_token.capacity": "the token route had no capacity",
    "executor_token.refused": "the token route refused the attempt",
    "executor_token.transient_status": "the token route failed for the moment",
    "executor_token.transport": "the token route could not be reached",
    "executor_token.unreadable_success": "the token route gave an unreadable answer",
    "handover.deferred": "a worker that was told to stop put the run back",
    "handover.retired": "a worker that was told to stop handed the run over",
    "parking.ceiling_reached": "the runner reached its wall-clock limit while parked",
    "parking.detached": "the run was parked while its runner works",
    "parking.event_expired": "the awaited event did not come in time",
    "parking.integration_event": "the run was parked until an event comes",
    "parking.signal_arrived": "the awaited event came",
    "parking.sleep": "the run was parked for a sleep of its play",
    "parking.slept": "the sleep of the play is over",
    "parking.unreadable_ceiling": "nothing came of an unreadable suspension within the limit",
    "parking.unreadable_suspension": "what the run waits for cannot be read, so it stays parked",
    "placement.backend_differs": "the worker runs another backend than the launch asks for",
    "placement.policy_not_runnable": "the worker cannot run the launch's placement policy",
    "pre_code.deferred": "a dependency failed before play code ran, so the run was put off",
    "pre_code.exhausted": "a dependency stayed away longer than the run may wait",
    "pre_code.other_failure": "the failure is none that the run may wait out",
    "pre_code.play_may_have_started": "play code may have run, so nothing is waited out",
    "preparation.attempt_spent": "preparing the attempt failed and spent an engine attempt",
    "preparation.capacity": "the store had no capacity to prepare an attempt",
    "preparation.claim_lost": "the claim was lost while the attempt was prepared",
    "preparation.deferred": "the store could not prepare an attempt, so the run was put off",
    "preparation.exhausted": "preparing failed on the last engine attempt",
    "preparation.settlement_capacity": "there was no capacity to end an unprepared run",
    "preparation.settlement_deferred": "the end of an unprepared run could not be written yet",
    "preparation.settlement_failed": "the end of an unprepared run could not be written",
    "recovery.runner_terminal": "a result left unsettled by a worker was settled",
    "runner.pushed_terminal": "the runner pushed its result",
    "salvage.already_over": "the run had ended before its failure was written",
    "salvage.attempts_left": "engine attempts are left, so the engine tries again",
    "salvage.attempts_unknown": "nobody knows which engine attempt is the last",
    "salvage.failed": "the failure of the last engine attempt could not be written",
    "salvage.fence_lost": "the attempt was superseded before its failure was written",
    "salvage.final_attempt": "the last engine attempt failed",
    "salvage.forced": "the executor-token outage outlasted its bound",
    "salvage.kept": "the last engine attempt is kept until the store answers",
    "salvage.not_ours": "another hand holds the run",
    "salvage.still_open": "the run is still open, so its failure is written again",
    "salvage.try_again": "writing the run's failure is tried again",
    "silence.ceiling_first": "the wall-clock limit came before the silence was confirmed",
    "silence.gone": "a whole extra timeout passed without a heartbeat",
    "silence.responded": "the runner answered with a heartbeat",
    "silence.still_silent": "another probe found no heartbeat",
    "silence.watching": "a heartbeat is overdue, so the runner is being probed",
    "silence.woken_early": "a wake came too early to count as a probe",
    "terminal.completed": "the play returned its result",
    "terminal.crash_contained": "the play's process died without a result",
    "terminal.failed": "the play failed",
    "token_outage.bound_exhausted": "no executor token could be had within the bound",
    "token_outage.deferred": "no executor token could be had, so the run was queued again",
    "token_outage.detached_ceiling_reached": "no token could be had until the runner's limit",
    "token_outage.detached_deferred": "no token could be had to look after the parked runner",
    "token_outage.detached_without_deadline": "no token could be had and nothing bounds the wait",
}


def meaning(why: Why) -> str:
    """What a rule means; an unlisted one by its family or name."""
    known = MEANING.get(why.rule)
    return f"the rule {why.rule!r} decided" if known is None else known


def told(why: Why) -> str:
    """What a rule means, with the evidence it saw."""
    evidence = listed(why.evidence)
    return f"{meaning(why)} ({evidence})" if evidence else meaning(why)
