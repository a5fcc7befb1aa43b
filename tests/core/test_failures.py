"""Failures as values, and the kinds that core and ports share (C15, C59)."""

import typing

from deepline.core.failures import Failure, name_of
from deepline.core.model.unavailable import UnavailableKind
from deepline.ports import errors
from tests.core.every_failure import EVERY_FAILURE


def test_every_class_of_failure_has_a_name_of_its_own() -> None:
    """Evidence tells the classes of failure apart."""
    classes = typing.get_args(Failure)
    seen = {type(failure): name_of(failure) for failure in EVERY_FAILURE.values()}

    assert set(seen) == set(classes)
    assert len(set(seen.values())) == len(classes)


def test_ports_and_rules_mean_the_same_kinds() -> None:
    """A port's error carries the very kind that the rules decide by."""
    assert errors.Unavailable("gone").kind is UnavailableKind.CONNECTION
    assert set(UnavailableKind) == {
        "connection",
        "server_unavailable",
        "circuit_open",
        "retryable_transaction",
        "query_cancelled",
    }
