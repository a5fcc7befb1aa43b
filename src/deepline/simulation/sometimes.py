"""States that some seed must reach: a simulation that never gets anywhere finds nothing.

`always` rules say that nothing bad happens; this table says that interesting things do. A state is
a word that a history reaches: the rule of a decision, or what an event of a counted kind said.
The suite fails when a state is never reached.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from deepline.simulation.history import Event, History

_TROUBLE = frozenset({"trouble", "trouble over"})
_LAST_WORD = frozenset(
    {"adopted", "delete answered", "drained", "inspected", "lane given away", "lane removed"}
)
_WHOLE = frozenset(
    {
        "attempt left",
        "cancel answered",
        "did not act",
        "fault",
        "paused",
        "pushed",
        "sweep verdict",
        "token",
    }
)
_FIRST_WORD = frozenset({"RUN ENDED"})
_BARE = frozenset({"acted", "crashed", "create landed late", "ended"})

SOMETIMES: Mapping[str, str] = {
    # How runs end.
    "RUN ENDED: completed": "a run completed",
    "RUN ENDED: failed": "a run failed",
    "RUN ENDED: cancelled": "a run was cancelled",
    "cancel answered: NotCancelled": "a cancel came after the end",
    # The rows of arbitration.
    "arbitration.pushed_terminal": "row 1: the runner's own terminal was settled",
    "arbitration.ceiling": "row 2: a runner ran out of time",
    "arbitration.inspected_result": "row 4: a result was found in the sandbox",
    "arbitration.first_write_won": "a verdict came second to the runner's own terminal",
    "arbitration.verdict_outlived": "a verdict was refused because the heart had beaten",
    "arbitration.suspended_first": "a verdict was refused because the play had paused",
    "arbitration.suspended_meanwhile": "a play paused while its sandbox was looked at",
    "arbitration.heartbeat_moved": "row 6: a heart beat while the sandbox was looked at",
    "arbitration.not_proven_gone": "row 8: silence alone was no proof",
    "arbitration.lost": "row 9: a runner was given up as lost",
    "silence.watching": "a missed heartbeat was watched",
    "silence.still_silent": "a silence went on from slice to slice",
    # What runners say, and when.
    "pushed: OfferStored": "a terminal was stored",
    "pushed: OfferAlreadyStored": "a second terminal came too late",
    "pushed: OfferRefused": "a terminal came after the attempt was over",
    # What the provider says.
    "inspected: command_running": "a silent runner was seen running",
    "inspected: command_exited": "a runner was seen to have exited",
    "inspected: sandbox_stopped": "a sandbox was seen stopped",
    "inspected: sandbox_lookup_failed": "a sandbox could not be read",
    "inspected: wrong_routing_domain": "a sandbox was another organisation's",
    "delete answered: Deleted": "a sandbox was deleted at once",
    "delete answered: DeletePending": "a delete took a while",
    "delete answered: GoneWithAcceptance": "an accepted delete was seen done",
    "delete answered: NotFoundUnproven": "a not-found proved nothing",
    "delete answered: DeleteFailed": "a delete failed",
    "delete answered: Misrouted": "a sandbox was said to be another organisation's",
    "create landed late": "a sandbox came when its caller had given up",
    # Claims and fences.
    "attempt left: retired": "an attempt was given up",
    "attempt left: superseded": "another attempt followed",
    "claim.lease_lost": "a lost claim's fresh attempt was retired",
    "claim.taken_over": "a lost claim's runner was taken over",
    "handover.retired": "a stopping worker gave a fresh attempt up",
    "handover.deferred": "a stopping worker put a wake back",
    "recovery.runner_terminal": "a controller settled what a runner had pushed",
    "overdue.ceiling": "a controller ended a run that was out of time",
    "preparation.exhausted": "a run ended whose last attempt was never prepared",
    # Deferrals and their bounds.
    "created_projection.pending": "a run waited for its created fact",
    "placement.policy_not_runnable": "a worker left a run to one that can place it",
    "preparation.deferred": "the store was away during preparation",
    "capacity_deferral.retired": "an attempt gave way for want of room",
    "capacity_deferral.deferred": "a wake was put off for want of room",
    "pre_code.deferred": "the provider was waited for",
    "token: ok": "a token was given",
    "token: outage": "the token route was away",
    "token: capacity": "the token route had no room",
    "token_outage.deferred": "a token outage was waited out",
    "token_outage.detached_deferred": "a wake waited out a token outage",
    "salvage.forced": "a token outage lasted longer than its bound",
    "salvage.final_attempt": "the last engine attempt wrote the failure",
    "error_routing.fresh_failed": "an error spent an engine attempt",
    "error_routing.handoff_deferred": "a handoff failed and the runner was left alone",
    # Suspensions without a sandbox.
    "parking.detached": "a run was parked for its runner",
    "parking.sleep": "a run slept",
    "parking.integration_event": "a run waited for an event",
    "paused: SuspensionStored": "a runner handed in that its play pauses",
    "paused: SuspensionAlreadyStored": "a pause was handed in twice",
    "paused: SuspensionRefused": "a pause was handed in too late",
    # What is done outside.
    "acted": "something was done outside under a receipt",
    "did not act: ReceiptDone": "a play that went on found it done",
    "did not act: ReceiptInDoubt": "nobody knew whether it was done, so it was left alone",
    # The sweep and its duty.
    "sweep.lost": "the sweep gave a runner up",
    "sweep.inspected_result": "the sweep found a result in a sandbox",
    "sweep verdict: VerdictStored": "a verdict of the sweep was stored",
    "sweep verdict: VerdictRefused": "a verdict of the sweep came too late",
    "log duty_taken": "a process began to sweep",
    "log duty_lost": "a process lost the duty",
    "log duty_renewal_failed": "a duty could not be renewed",
    "log detached_runner_liveness_would_settle": "a sweep that only observes found somebody gone",
    "log detached_runner_liveness_unproven": "a silent runner was not proven gone",
    "log detached_runner_liveness_read_abandoned": "a look hung past its deadline",
    "log detached_runner_liveness_settlement_overran": "a settlement outlasted its pass",
    "log detached_runner_liveness_settlement_deferred": "a settlement waited for another pass's",
    "log detached_runner_liveness_verdict_overran": "a verdict's write outlasted its pass",
    "log detached_runner_liveness_pass_failed": "a pass was given up",
    # Lanes that are left, adopted and removed.
    "adopted: lane_adoption.quiet": "a lane was adopted that its workers left without a word",
    "adopted: lane_adoption.workers_leaving": "a lane was adopted whose workers were leaving",
    "adopted: lane_adoption.draining": "a lane was adopted that an operator drained",
    "adopted: lane_adoption.handed_over": "a lane was adopted that an operator handed over",
    "claimed by an adopter": "a run was claimed by a worker of another release",
    "ended by an adopter": "a run of a left lane was ended by a worker of another release",
    "an adopter crashed": "a worker died while it served another lane",
    "log adoption_detached": "an adopted lane was let go of",
    "log adoption_failed": "a worker could not read who serves which lane",
    "log lane_beat_failed": "a worker could not say which lanes it serves",
    "log worker_leaving": "a worker of a drained lane was about to leave",
    "log drain_poll_failed": "a leaving worker could not read what its lane holds",
    "drained: drain.empty": "a worker left its lane when it was empty",
    "drained: drain.adopted": "a worker left its lane to an adopter",
    "lane removed: drained": "a drained lane was removed",
    "lane removed: unused": "a lane that nobody used was removed",
    # What befalls processes and calls.
    "crashed": "a process crashed",
    "log run_cut": "a run was cut because its claim was lost or it was cancelled",
    "log write_repeated": "a write without an answer was made again",
    "trouble over: cut": "a link was cut one way",
    "trouble: retire lane": "a lane was left by its last worker",
    "ended": "a process stopped in order",
    "fault: lost": "a call was lost",
    "fault: denied": "a token was refused for good",
    "fault: refused": "a call met no room",
    "fault: unanswered": "a call had no answer and no effect",
    "fault: reply_lost": "a call had an effect and no answer",
    "fault: slow": "a call took long",
    "fault: stuck": "a call arrived when its caller had given up",
    "fault: reply_slow": "an answer took long",
    "fault: crash": "a process died before a call",
    "fault: crash_after": "a process died after a call",
}


def states_of(history: History) -> set[str]:
    """Everything that one history reached."""
    states = set(history.reached)
    states |= {word for event in history.events for word in _words(event)}
    return states


def _words(event: Event) -> Iterator[str]:
    kind = event.kind
    if kind in _WHOLE:
        yield f"{kind}: {event.what}"
    elif kind in _LAST_WORD:
        yield f"{kind}: {event.what.rpartition(' ')[2]}"
    elif kind in _TROUBLE:
        yield f"{kind}: {event.what.partition(':')[0].rstrip(' 0123456789')}"
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
