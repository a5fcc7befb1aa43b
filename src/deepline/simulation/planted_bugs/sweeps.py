"""Bugs in the sweep over silent runners."""

from deepline.simulation.mutants import bug

CORE = "deepline.core"
RUNTIME = "deepline.runtime"
MEMORY = "deepline.adapters.memory"

SWEEP_BUGS = (
    bug(
        "sweep-observes-and-writes",
        "A sweep that may only observe records verdicts.",
        f"{CORE}.sweep_read:after_read",
        "if mode is not SweepMode.ENFORCE:",
        "if False:",
    ),
    bug(
        "sweep-unanswered-is-proof",
        "A read that was not answered counts as a proof that the sandbox is gone.",
        f"{CORE}.sweep_read:after_read",
        "if inspection is None or not inspection.proves_gone:",
        "if inspection is None or (answered and not inspection.proves_gone):",
    ),
    bug(
        "sweep-verdict-not-fenced",
        "A verdict of the sweep is recorded whatever the heart has done since.",
        f"{MEMORY}.liveness_work:MemoryLivenessWork.record_verdict",
        "if row.heartbeat != runner.liveness.identity:",
        "if False:",
    ),
    bug(
        "sweep-verdict-unstamped",
        "A verdict of the sweep does not say which provider was read.",
        f"{CORE}.sweep_verdict:choose_verdict",
        "terminal=_stamped(lost, runner.provider),",
        "terminal=lost,",
    ),
    bug(
        "sweep-finds-the-fresh",
        "The sweep takes every parked runner for a silent one.",
        f"{MEMORY}.liveness_work:MemoryLivenessWork._silent",
        "if now - base >= timeout:",
        "if True:",
    ),
    bug(
        "sweep-abandoned-without-bound",
        "A provider is read on though many reads of it never ended.",
        f"{CORE}.sweep_read:before_read",
        "if state.reads_of(runner.provider).abandoned >= settings.abandoned_max:",
        "if False:",
    ),
    bug(
        "sweep-slots-of-a-pass",
        "Each pass has all slots, whatever earlier passes still read.",
        f"{CORE}.sweep_lane:plan_lane",
        "width=max(0, settings.reads_per_provider - in_flight),",
        "width=settings.reads_per_provider,",
    ),
    bug(
        "sweep-read-not-marked",
        "A sandbox is read again in the next pass.",
        f"{RUNTIME}.sweep.passing:_Lanes._read",
        "self._mark(runner)",
        "pass",
    ),
    bug(
        "sweep-mark-kept",
        "A sandbox that was read once is never read again.",
        f"{CORE}.sweep:begin_pass",
        "if due_s > now_s}",
        "}",
    ),
    bug(
        "sweep-settles-two-at-once",
        "A settlement does not wait for the one of an earlier pass.",
        f"{CORE}.sweep_settlement:turn",
        "if state.settling:",
        "if False:",
    ),
    bug(
        "sweep-settlement-cut",
        "A settlement that overruns its pass is cancelled.",
        f"{RUNTIME}.sweep.outlasting:outlasting",
        "            end = Ended(await work())\n",
        "            end = Broken(TimeoutError())\n"
        "            with trio.move_on_at(deadline): end = Ended(await work())\n",
    ),
    bug(
        "sweep-pass-without-hard-stop",
        "A pass is waited for however long it takes.",
        f"{RUNTIME}.sweep.reading:SandboxRead.until",
        "with trio.move_on_at(deadline):",
        "with trio.move_on_at(deadline + 1e6):",
    ),
    bug(
        "duty-taken-from-its-holder",
        "A duty is taken though its lease lasts.",
        f"{MEMORY}.duties:MemoryDuties.take",
        "if held is not None and held.owner != owner and held.expires_at > now:",
        "if False:",
    ),
    bug(
        "duty-held-to-its-end",
        "A process goes on with a duty up to the very end of its lease.",
        f"{RUNTIME}.duty:DutyHolder._held_s",
        "* (1 - MARGIN)",
        "",
    ),
    bug(
        "duty-begun-too-late",
        "A process begins a duty though the answer came when its lease was over.",
        f"{RUNTIME}.duty:DutyHolder._take",
        "if until > trio.current_time():",
        "if True:",
    ),
    bug(
        "duty-held-too-long",
        "A process goes on with a duty whose lease has ended.",
        f"{RUNTIME}.duty:DutyHolder._renew",
        "scope.deadline = asked + self._held_s",
        "scope.deadline = asked + 60",
    ),
    bug(
        "sweep-cursor-stays",
        "A pass begins where the one before it began.",
        f"{CORE}.sweep_lane:next_cursor",
        "return None if len(page) < limit else page[-1].ref.run_id",
        "return current",
    ),
    bug(
        "sweep-verdict-of-another-terminal",
        "A verdict of the sweep replaces the runner's own terminal.",
        f"{MEMORY}.liveness_work:MemoryLivenessWork.record_verdict",
        "if row.runner_terminal is not None:",
        "if False:",
    ),
)
