"""Implements the ports: one outside thing each."""
