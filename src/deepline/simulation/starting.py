"""From a started sandbox to a runner that lives in it."""

import attrs
import trio

from deepline.adapters.memory import Life as SandboxLife
from deepline.core.model.identity import AttemptKey, RunId
from deepline.core.model.sandbox import Operation
from deepline.ports.sandbox_provider import RunnerStart
from deepline.simulation.life import Life
from deepline.simulation.lives import draw_life
from deepline.simulation.runner import Runner
from deepline.simulation.sandboxes import Site
from deepline.simulation.stage import Stage


@attrs.define(eq=False, kw_only=True)
class Starting:
    """Gives each runner that is started a life of its own, in the world's nursery.

    A run has several runners, one after the other, when its play pauses.
    """

    stage: Stage
    site: Site
    nursery: trio.Nursery
    runners: dict[str, Runner] = attrs.field(factory=dict[str, Runner])
    parts: dict[RunId, int] = attrs.field(factory=dict[RunId, int])

    def life_of(self, operation: Operation, _: RunnerStart) -> SandboxLife:
        """Begin the life of a runner; answers what the provider sees of it."""
        stage = self.stage
        key = AttemptKey(operation.run_id, operation.attempt)
        part = self.parts[key.run_id] = self.parts.get(key.run_id, 0) + 1
        script = draw_life(stage.dice, key, part, stage.limits, stage.mixture)
        name = f"{operation.run_id}#{operation.attempt}{f'.{part}' if part > 1 else ''}"
        stage.note(
            "play started",
            f"{script.kind.value}, works {script.works_s:.1f} s",
            run=key.run_id,
            attempt=key.attempt,
        )
        runner = Runner(
            stage=stage,
            key=key,
            script=script,
            life=Life(
                name=f"runner {name}",
                clock=stage.store_clock,
                chance=stage.dice.chance(f"runner {name}"),
                mortal=False,
            ),
        )
        self.runners[operation.key] = runner
        self.nursery.start_soon(runner.live)
        return script.sandbox

    def gone(self, operation: Operation) -> None:
        """The sandbox of this operation is deleted, and its runner with it."""
        runner = self.runners.get(operation.key)
        if runner is not None:
            runner.kill()
