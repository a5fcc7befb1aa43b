"""Exact fakes of every port, for simulation and for consumers' tests."""
