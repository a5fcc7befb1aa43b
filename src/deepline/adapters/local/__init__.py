"""The sandbox provider that runs a play as a process on this machine."""
