"""Bugs in how lanes are adopted, left and removed."""

from deepline.simulation.mutants import bug

CORE = "deepline.core"
RUNTIME = "deepline.runtime"

LANE_BUGS = (
    bug(
        "draining-lanes-not-counted",
        "An adopted lane that only drains leaves its place to another.",
        f"{CORE}.lane_adoption:plan",
        "room = max(0, lanes_max - len(busy))",
        "room = max(0, lanes_max - len(attached) + len(detach))",
    ),
    bug(
        "served-lane-adopted",
        "A lane is adopted though its own workers serve it.",
        f"{CORE}.lane_adoption:judge",
        "if serving and not is_draining(state, lost_after):",
        "if False:",
    ),
    bug(
        "queued-runs-adopted",
        "Adopters begin runs that wait for a release of their own.",
        f"{RUNTIME}.lane_adoption:LaneAdoption._admits",
        "return self.org_limit if adoption.admits else 0",
        "return self.org_limit",
    ),
    bug(
        "left-lane-never-adopted",
        "A lane counts as left only while others serve it already.",
        f"{CORE}.lane_adoption:_is_left",
        "return state.read_at - last_activity(state) >= settings.quiet_after",
        "return False",
    ),
    bug(
        "adopted-lane-not-claimed",
        "An adopted lane is said to be served, and nobody claims from it.",
        f"{RUNTIME}.lane_adoption:LaneAdoption._attach",
        "services.start_soon(self._serve, adoption.lane, adopted)",
        "pass",
    ),
    bug(
        "adopter-outlives-its-stop",
        "A worker that ends leaves the places of what it adopted taken.",
        f"{RUNTIME}.lane_adoption:LaneAdoption._serve",
        "self._draining.pop(lane, None)",
        "pass",
    ),
    bug(
        "leaves-with-runs-in-hand",
        "A worker leaves its lane to others while it still has runs of it in hand.",
        f"{CORE}.drain:_nothing_left",
        "if in_hand > 0:",
        "if False:",
    ),
)
