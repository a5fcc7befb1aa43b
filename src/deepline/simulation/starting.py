"""From a started sandbox to a runner that lives in it."""

import attrs
import trio

from deepline.adapters.memory import Life as SandboxLife
from deepline.core.model.identity import AttemptKey
from deepline.core.model.sandbox import Operation
from deepline.ports.sandbox_provider import RunnerStart
from deepline.simulation.life import Life
from deepline.simulation.lives import draw_life
from deepline.simulation.runner import Runner
from deepline.simulation.sandboxes import Site
from deepline.simulation.stage import Stage


@attrs.define(eq=False, kw_only=True)
class Starting:
    """Gives each runner that is started a life of its own, in the world's nursery."""

    stage: Stage
    site: Site
    nursery: trio.Nursery
    runners: dict[AttemptKey, Runner] = attrs.field(factory=dict[AttemptKey, Runner])

    def life_of(self, operation: Operation, _: RunnerStart) -> SandboxLife:
        """Begin the life of a runner; answers what the provider sees of it."""
        stage = self.stage
        script = draw_life(
            stage.dice,
            operation.run_id,
            operation.attempt,
            stage.limits,
            slow_deletes=stage.mixture.slow_deletes,
        )
        key = AttemptKey(operation.run_id, operation.attempt)
        name = f"{operation.run_id}#{operation.attempt}"
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
        self.runners[key] = runner
        self.nursery.start_soon(runner.live)
        return script.sandbox

    def gone(self, key: AttemptKey) -> None:
        """The sandbox of this attempt is deleted, and its runner with it."""
        runner = self.runners.get(key)
        if runner is not None:
            runner.kill()
