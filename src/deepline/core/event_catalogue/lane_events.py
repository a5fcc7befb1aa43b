"""What is said of lanes: who takes and leaves them, and which nobody serves (C56, C57, C62)."""

from deepline.core.event_catalogue.event import worker

LANES = (
    worker(
        "info",
        "adoption_attached",
        "queue releaseId workerReleaseId rule",
        "A worker serves another release's lane too, by this rule.",
    ),
    worker("info", "adoption_detached", "queue", "It claims no more from that lane."),
    worker("warn", "adoption_failed", "error", "Lanes could not be looked at; it is tried again."),
    worker("warn", "lane_beat_failed", "error", "Others were not told what this worker serves."),
    worker("info", "worker_leaving", "lane", "A worker leaves once its lane needs it no more."),
    worker("info", "lane_drained", "lane rule", "Its lane needs it no more, by this rule."),
    worker("warn", "drain_poll_failed", "error", "Its lane could not be read, so it stays."),
    worker(
        "warn",
        "lane_stranded",
        "lane releaseId runs advice",
        "A lane holds runs and nobody serves it.",
    ),
    worker("info", "lane_not_stranded", "lane", "Somebody serves it again, or it is empty."),
    worker("warn", "lane_watch_failed", "error", "A controller could not look at the lanes."),
)
