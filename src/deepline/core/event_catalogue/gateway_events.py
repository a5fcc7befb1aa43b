"""What gateways say of requests, submissions and signals, and clients of tokens (C62)."""

from deepline.core.event_catalogue.event import (
    GATEWAY,
    PERFORMANCE,
    SIGNAL,
    SUBMIT,
    TOKENS,
    event,
)

_PERFORMED = "source runId playName graphHash phase ms"

REQUESTS = (
    event(
        GATEWAY,
        "info",
        "request",
        "requestId method route status durationMs",
        "A request was answered.",
    ),
    event(GATEWAY, "warn", "answer_cut", "requestId code", "Half an answer was out already."),
    event(
        GATEWAY,
        "warn",
        "dependency_failed",
        "requestId error",
        "The store did not answer, or refused.",
    ),
    event(GATEWAY, "error", "request_failed", "requestId errorType error at", "A bug of ours."),
    event(
        SUBMIT,
        "info",
        "enqueue",
        "runId orgId queue releaseId schedulerSchema queueSuffix",
        "A run is about to be stored.",
    ),
    event(
        SIGNAL,
        "info",
        "event_emitted",
        "runId eventKey boundaryId releaseId queue schema",
        "A signal is stored and its run woken.",
    ),
    event(
        PERFORMANCE,
        "info",
        "server.absurd_submit_admitted",
        f"{_PERFORMED} queueDepth waitMs",
        "A submission has its permit.",
    ),
    event(PERFORMANCE, "info", "server.absurd_schema_ready", _PERFORMED, "Its lane is there."),
    event(
        PERFORMANCE,
        "info",
        "server.absurd_spawned",
        f"{_PERFORMED} created taskCreated queue",
        "Its run is claimable.",
    ),
    event(
        TOKENS,
        "info",
        "request_succeeded",
        "runId attempt traceId durationMs status",
        "An executor token was minted.",
    ),
    event(
        TOKENS,
        "warn",
        "request_failed",
        "runId attempt traceId durationMs status code error",
        "None was; the code says whether the run waits.",
    ),
)
