"""Telemetry of simulated processes: trouble goes into the history, names into what was reached."""

import attrs

from deepline.core.model.json_value import Json
from deepline.simulation.life import Life
from deepline.simulation.stage import Stage

_OF_LANES = {
    "adoption_attached": "adopted",
    "adoption_detached": "let go",
    "lane_drained": "drained",
    "worker_leaving": "leaving",
}
"""What workers do toward lanes, and the kind of event that it becomes."""


@attrs.define(eq=False)
class ToldTelemetry:
    """The `Telemetry` of one life."""

    stage: Stage
    life: Life

    def info(self, channel: str, name: str, **fields: Json) -> None:
        """Count the name; what rules watch is noted."""
        self.stage.history.reached.add(f"log {name}")
        if name == "immediate_dispatch_requested":
            self._note("dispatch asked", name, fields)
        elif name == "detached_runner_liveness_pass" and not fields.get("budgetExhausted"):
            self._note("sweep passed", self.stage.newest_sweep(self.life.name), {})
        elif name in _OF_LANES:
            lane = fields.get("queue") or fields.get("lane")
            self._note(_OF_LANES[name], f"{lane} {fields.get('rule', '')}".rstrip(), {})

    def warn(self, channel: str, name: str, **fields: Json) -> None:
        """Note it."""
        self.stage.history.reached.add(f"log {name}")
        self._note("warned", name, fields)

    def error(self, channel: str, name: str, **fields: Json) -> None:
        """Note it."""
        self.stage.history.reached.add(f"log {name}")
        self._note("alarmed", name, fields)

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Counters are nobody's business here."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Nor are histograms."""

    def _note(self, kind: str, name: str, fields: dict[str, Json]) -> None:
        if self.life.dead:
            return
        reason = fields.get("reason") or fields.get("error") or fields.get("operation")
        self.stage.note(
            kind,
            name if reason is None else f"{name}: {reason}",
            actor=self.life.name,
            run=str(fields.get("runId") or ""),
        )
