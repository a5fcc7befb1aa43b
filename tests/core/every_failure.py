"""One failure of every class, and strategies over all of them, for the tests of the rules."""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from deepline.core.failures import (
    CapacityFailure,
    EngineSignal,
    EngineSignalKind,
    Failure,
    FenceLostFailure,
    OtherFailure,
    PreCodeFailure,
    RetryableFailure,
    TokenOutage,
    UnknownOutcome,
)
from deepline.core.model.unavailable import UnavailableKind

NOW = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)

SIGNALS = {f"signal-{kind}": EngineSignal(kind=kind, reason="engine") for kind in EngineSignalKind}
CAPACITY = CapacityFailure(reason="pool is full", retry_after=timedelta(seconds=7), source="pool")
RETRYABLE = {
    f"retryable-{kind}": RetryableFailure(reason="store is away", kind=kind)
    for kind in UnavailableKind
}
OUTAGE = TokenOutage(reason="no token [HTTP] (503)", status=503)
PRE_CODE = PreCodeFailure(
    reason="no sandbox", dependency="sandbox_acquisition", cause="provider_unavailable"
)
FENCE_LOST = FenceLostFailure(reason="superseded")
UNKNOWN = UnknownOutcome(reason="commit unanswered")
OTHER = OtherFailure(reason="a bug")

EVERY_FAILURE: dict[str, Failure] = {
    **SIGNALS,
    "capacity": CAPACITY,
    **RETRYABLE,
    "outage": OUTAGE,
    "pre-code": PRE_CODE,
    "fence-lost": FENCE_LOST,
    "unknown-outcome": UNKNOWN,
    "other": OTHER,
}

_texts = st.text(max_size=40)
_lengths = st.timedeltas(min_value=timedelta(days=-1), max_value=timedelta(days=1))

failures: st.SearchStrategy[Failure] = st.one_of(
    st.builds(EngineSignal, kind=st.sampled_from(EngineSignalKind), reason=_texts),
    st.builds(CapacityFailure, reason=_texts, retry_after=st.none() | _lengths, source=_texts),
    st.builds(RetryableFailure, reason=_texts, kind=st.sampled_from(UnavailableKind)),
    st.builds(TokenOutage, reason=_texts, status=st.none() | st.integers(100, 599)),
    st.builds(PreCodeFailure, reason=_texts, dependency=_texts, cause=_texts),
    st.builds(FenceLostFailure, reason=_texts),
    st.builds(UnknownOutcome, reason=_texts),
    st.builds(OtherFailure, reason=_texts),
)

instants = st.datetimes(
    min_value=datetime(2020, 1, 1),  # noqa: DTZ001 - hypothesis wants naive bounds
    max_value=datetime(2040, 1, 1),  # noqa: DTZ001 - hypothesis wants naive bounds
    timezones=st.just(UTC),
)
