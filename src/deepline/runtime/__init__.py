"""Carries out core's decisions through ports, as one tree of Trio nurseries."""
