"""Why something outside is unavailable, in the words that rules and ports share (C15, C59)."""

import enum


class UnavailableKind(enum.StrEnum):
    """Why it is unavailable; each may go away by waiting (C15)."""

    CONNECTION = "connection"
    SERVER_UNAVAILABLE = "server_unavailable"
    CIRCUIT_OPEN = "circuit_open"
    RETRYABLE_TRANSACTION = "retryable_transaction"
    QUERY_CANCELLED = "query_cancelled"
