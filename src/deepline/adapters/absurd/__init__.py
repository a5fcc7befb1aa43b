<<<<<<< HEAD
"""The queue under the runs: Absurd 0.5.1 on its own, unmodified schema (ENGINE, Q28)."""
=======
"""The engine port on Absurd, in the same Postgres as the store of record."""
>>>>>>> main
