"""The test-fault header: lets a test silence a runner's heart, nowhere else (C61, Q26).

What a submitter sends is read, bounded and signed once, and the signed form is what the launch
keeps. So a fault in a launch is one that this deployment let in at submit.
"""

from datetime import timedelta

from deepline.gateway.signing import InvalidToken, SigningKeys

HEADER = "x-deepline-test-fault"
LONGEST_SILENCE = timedelta(minutes=10)
_KIND = "deepline-test-fault"
_LONGEST_MS = LONGEST_SILENCE // timedelta(milliseconds=1)


def read_silence_ms(header: str | None) -> int:
    """Read `heartbeatSilenceMs=N`; whatever else is given means no fault. Capped at ten minutes."""
    name, _, value = (header or "").strip().partition("=")
    if name.strip() != "heartbeatSilenceMs" or not value.strip().isascii():
        return 0
    digits = value.strip()
    if not digits.isdigit() or len(digits) > 9:
        return 0
    return min(int(digits), _LONGEST_MS)


def sign_fault(keys: SigningKeys, run_id: str, header: str | None) -> str | None:
    """The form that a launch keeps, bound to its run; `None` when there is no fault."""
    silence_ms = read_silence_ms(header)
    if silence_ms <= 0:
        return None
    return keys.sign({"sub": run_id, "heartbeatSilenceMs": silence_ms}, token_type=_KIND)


def signed_silence_ms(keys: SigningKeys, run_id: str, signed: str | None) -> int:
    """The silence that a launch asks for; 0 when there is none or it was not signed here."""
    if signed is None:
        return 0
    try:
        claims = keys.verify(signed, token_type=_KIND)
    except InvalidToken:
        return 0
    silence_ms = claims.get("heartbeatSilenceMs")
    if claims.get("sub") != run_id or isinstance(silence_ms, bool):
        return 0
    return min(silence_ms, _LONGEST_MS) if isinstance(silence_ms, int) and silence_ms > 0 else 0
