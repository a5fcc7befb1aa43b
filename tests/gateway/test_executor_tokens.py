"""Executor tokens: whose they are, for whom, and for how long."""

import random
from datetime import UTC, datetime, timedelta

import attrs
import pytest

from deepline.core.model.identity import AttemptKey, OrgId, RunId
from deepline.core.model.json_value import Json
from deepline.gateway import SigningKeys, generate_signing_key
from deepline.gateway.executor_tokens import (
    AUDIENCE,
    ExecutorTokenIssuer,
    RunnerIdentity,
    TokenTerms,
)
from deepline.gateway.signing import InvalidToken

KEYS = SigningKeys.from_pem([generate_signing_key()])
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
RUNNER = RunnerIdentity(key=AttemptKey(RunId("run_1"), 3), org_id=OrgId("alice"))
TERMS = TokenTerms(issuer="deepline", lifetime=timedelta(minutes=10), leeway=timedelta(seconds=30))


@attrs.define
class Hand:
    """A clock that is set by hand."""

    at: datetime = NOW

    def now(self) -> datetime:
        return self.at


def issuer(clock: Hand | None = None) -> ExecutorTokenIssuer:
    """An issuer of the usual terms."""
    return ExecutorTokenIssuer(KEYS, TERMS, clock or Hand(), random.Random(1))


def minted(by: ExecutorTokenIssuer) -> str:
    """A token for the usual runner."""
    token = by.mint(RUNNER)["executorToken"]
    assert isinstance(token, str)
    return token


def claims(**changes: Json) -> dict[str, Json]:
    """Claims as the issuer writes them, with changes."""
    at = int(NOW.timestamp())
    usual: dict[str, Json] = {
        "iss": "deepline",
        "aud": AUDIENCE,
        "sub": "run_1",
        "attempt": 3,
        "org": "alice",
        "iat": at,
        "exp": at + 600,
        "jti": "x",
    }
    return {**usual, **changes}


def test_a_token_speaks_for_the_attempt_it_was_minted_for() -> None:
    """Run, attempt and organisation come back as they were given; no two tokens are equal."""
    tokens = issuer()
    answer = tokens.mint(RUNNER)

    assert tokens.verify(minted(tokens)) == RUNNER
    assert answer["expiresAtMs"] == int(NOW.timestamp() * 1000) + 600_000
    assert minted(tokens) != minted(tokens)


@pytest.mark.parametrize(
    ("later", "holds"),
    [
        pytest.param(timedelta(0), True, id="at-once"),
        pytest.param(timedelta(minutes=10), True, id="at-its-end-within-the-leeway"),
        pytest.param(timedelta(minutes=10, seconds=29), True, id="last-second-of-the-leeway"),
        pytest.param(timedelta(minutes=10, seconds=30), False, id="after-the-leeway"),
        pytest.param(timedelta(seconds=-30), True, id="clock-slightly-behind"),
        pytest.param(timedelta(seconds=-31), False, id="clock-far-behind"),
    ],
)
def test_a_token_holds_for_its_lifetime(later: timedelta, holds: bool) -> None:
    """Expiry is judged with a small leeway for the clocks of several gateways."""
    token = minted(issuer())
    verifier = issuer(Hand(NOW + later))

    if holds:
        assert verifier.verify(token) == RUNNER
    else:
        with pytest.raises(InvalidToken):
            verifier.verify(token)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"aud": "somebody-else"}, id="other-audience"),
        pytest.param({"aud": [AUDIENCE, "somebody-else"]}, id="audience-list"),
        pytest.param({"iss": "another"}, id="other-issuer"),
        pytest.param({"sub": None}, id="no-run"),
        pytest.param({"sub": 7}, id="run-is-a-number"),
        pytest.param({"org": None}, id="no-organisation"),
        pytest.param({"attempt": "3"}, id="attempt-is-text"),
        pytest.param({"attempt": True}, id="attempt-is-a-boolean"),
        pytest.param({"attempt": 0}, id="attempt-zero"),
        pytest.param({"attempt": 3.0}, id="attempt-is-a-fraction"),
        pytest.param({"exp": None}, id="no-expiry"),
        pytest.param({"exp": "9999999999"}, id="expiry-is-text"),
        pytest.param({"exp": True}, id="expiry-is-a-boolean"),
        pytest.param({"exp": 10**40}, id="expiry-beyond-all-time"),
        pytest.param({"iat": None}, id="no-issue-time"),
    ],
)
def test_a_signed_token_of_the_wrong_shape_is_refused(changes: dict[str, Json]) -> None:
    """A good signature does not excuse a claim that is missing or of another type."""
    with pytest.raises(InvalidToken):
        issuer().verify(KEYS.sign(claims(**changes)))
