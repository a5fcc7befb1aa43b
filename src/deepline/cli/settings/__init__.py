"""Settings from the environment: parsed by explicit functions, refused all at once (C01)."""
