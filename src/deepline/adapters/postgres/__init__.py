"""The store of record on Postgres, over a Trio-native connection."""
