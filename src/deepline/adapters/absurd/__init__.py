"""The queue under the runs: Absurd 0.5.1 on its own, unmodified schema (ENGINE, Q28)."""
