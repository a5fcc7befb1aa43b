"""Seeded worlds, faults, histories and invariants over the real runtime."""
