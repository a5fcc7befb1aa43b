"""What a search by name means for the deletion of a sandbox nobody wrote down (C47–C49)."""

import pytest

from deepline.core.found_sandbox import (
    KeepLooking,
    RecordIntent,
    Suppress,
    after_record,
    after_search,
)
from deepline.core.model.sandbox import SandboxRef


def ref(provider: str, domain: str | None) -> SandboxRef:
    """One found sandbox."""
    return SandboxRef(provider=provider, sandbox_id="s-1", routing_domain=domain)


@pytest.mark.parametrize(
    ("provider", "found", "decision", "rule"),
    [
        pytest.param("daytona", None, KeepLooking, "nothing", id="C48-row-1-not-found"),
        pytest.param(
            "daytona", ref("daytona", "org"), RecordIntent, "record_intent", id="C48-row-2-found"
        ),
        pytest.param(
            "daytona", ref("modal", "org"), Suppress, "identity_differs", id="C48-row-3-mismatch"
        ),
        pytest.param(
            "daytona", ref("daytona", None), Suppress, "lacks_routing_organization",
            id="C48-row-4-no-organisation",
        ),
        pytest.param(
            "modal", ref("modal", " "), Suppress, "lacks_routing_organization",
            id="C48-row-4-blank-organisation",
        ),
        pytest.param(
            "local", ref("local", None), RecordIntent, "record_intent",
            id="C48-row-2-one-without-organisations",
        ),
    ],
)  # fmt: skip
def test_what_was_found(
    provider: str, found: SandboxRef | None, decision: type[object], rule: str
) -> None:
    """Only what fits in full is written down; the rest suppresses the delete, nothing waits."""
    decided = after_search(provider, found)

    assert isinstance(decided, decision)
    assert decided.why.rule == f"found_sandbox.{rule}"


def test_a_refused_record_suppresses_all() -> None:
    """An intent that was not written suppresses the delete and any further create (C47, I43)."""
    refusal = after_record(recorded=False)

    assert after_record(recorded=True) is None
    assert refusal is not None
    assert refusal.code == "cleanup_intent_not_recorded"
