"""A Postgres server of one's own in a directory: no Docker, no root, no account."""

from deepline.adapters.postgres.embedded.server import EmbeddedPostgres, embedded_postgres

__all__ = ["EmbeddedPostgres", "embedded_postgres"]
