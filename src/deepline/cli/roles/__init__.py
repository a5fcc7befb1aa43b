"""The roles of a deployment: each serves until it is asked to stop, in a process of its own or not."""
