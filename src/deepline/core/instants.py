"""Instants and lengths as the wire, the logs and reasons write them."""

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def iso(at: datetime) -> str:
    """ISO 8601 in UTC, always with six digits of a second, so that texts sort as instants do."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def to_ms(at: datetime) -> int:
    """Milliseconds since the epoch, rounded down."""
    return (at - EPOCH) // MILLISECOND


def length_ms(length: timedelta) -> int:
    """Whole milliseconds of a length, rounded down."""
    return length // MILLISECOND
