"""The roles of a deployment: each serves until it is asked to stop."""
