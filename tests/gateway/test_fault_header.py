"""The test-fault header: read once, bounded, signed, bound to its run (Q26)."""

import pytest

from deepline.gateway import SigningKeys, generate_signing_key
from deepline.gateway.fault_header import read_silence_ms, sign_fault, signed_silence_ms

KEYS = SigningKeys.from_pem([generate_signing_key()])
OTHERS = SigningKeys.from_pem([generate_signing_key()])


@pytest.mark.parametrize(
    ("header", "silence_ms"),
    [
        pytest.param(None, 0, id="absent"),
        pytest.param("", 0, id="empty"),
        pytest.param("heartbeatSilenceMs=1500", 1_500, id="given"),
        pytest.param(" heartbeatSilenceMs = 1500 ", 1_500, id="spaces"),
        pytest.param("heartbeatSilenceMs=999999999", 600_000, id="capped-at-ten-minutes"),
        pytest.param("heartbeatSilenceMs=-5", 0, id="negative"),
        pytest.param("heartbeatSilenceMs=1e3", 0, id="not-a-whole-number"),
        pytest.param("heartbeatSilenceMs=" + "9" * 10_000, 0, id="absurdly-long"),
        pytest.param("heartbeatSilenceMs=١٢", 0, id="other-digits"),
        pytest.param("somethingElse=5", 0, id="unknown-fault"),
    ],
)
def test_reading_the_header(header: str | None, silence_ms: int) -> None:
    """What cannot be read means no fault, and no silence is longer than ten minutes."""
    assert read_silence_ms(header) == silence_ms


def test_a_signed_fault_counts_for_its_run_alone() -> None:
    """A launch keeps a fault only in the form that this deployment signed for that run."""
    signed = sign_fault(KEYS, "run_1", "heartbeatSilenceMs=700")

    assert signed_silence_ms(KEYS, "run_1", signed) == 700
    assert signed_silence_ms(KEYS, "run_2", signed) == 0
    assert signed_silence_ms(OTHERS, "run_1", signed) == 0
    assert signed_silence_ms(KEYS, "run_1", "heartbeatSilenceMs=700") == 0
    assert signed_silence_ms(KEYS, "run_1", None) == 0


def test_no_fault_leaves_no_trace() -> None:
    """Without a fault the launch keeps nothing."""
    assert sign_fault(KEYS, "run_1", None) is None


@pytest.mark.parametrize("silence", [0, -1, True, "700", None, 1.5])
def test_a_signed_fault_of_the_wrong_shape_is_none(silence: object) -> None:
    """Even under our own signature only a positive whole number silences a heart."""
    signed = KEYS.sign(
        {"sub": "run_1", "heartbeatSilenceMs": silence},  # type: ignore[dict-item]
        token_type="deepline-test-fault",
    )

    assert signed_silence_ms(KEYS, "run_1", signed) == 0
