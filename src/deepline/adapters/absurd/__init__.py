"""The engine port on Absurd, in the same Postgres as the store of record."""
