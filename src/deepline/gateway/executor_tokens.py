"""Executor tokens: short JWTs by which a runner speaks for one attempt of one run (C16, C34).

A token is worth nothing once its attempt is over, since every route that writes asks the store
as well. It is short because a sandbox is not a safe place, and renewable because runs are long.
"""

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Protocol

import attrs

from deepline.core.instants import to_ms
from deepline.core.model.identity import AttemptKey, OrgId, RunId
from deepline.core.model.json_value import Json, JsonObject
from deepline.gateway.signing import InvalidToken, SigningKeys

AUDIENCE = "deepline-runner"


class WallClock(Protocol):
    """The part of the clock that tokens need."""

    def now(self) -> datetime:
        """Say what time it is in aware UTC."""
        ...


@attrs.frozen(kw_only=True)
class RunnerIdentity:
    """Who a valid token speaks for."""

    key: AttemptKey
    org_id: OrgId


@attrs.frozen(kw_only=True)
class TokenTerms:
    """What the tokens of a deployment say and for how long they hold."""

    issuer: str
    lifetime: timedelta
    leeway: timedelta


class ExecutorTokenIssuer:
    """Signs tokens for attempts, and checks those that come back."""

    def __init__(
        self, keys: SigningKeys, terms: TokenTerms, clock: WallClock, chance: random.Random
    ) -> None:
        self._keys = keys
        self._terms = terms
        self._clock = clock
        self._chance = chance

    def mint(self, identity: RunnerIdentity) -> JsonObject:
        """Sign a token; returns the answer of the token routes, `{executorToken, expiresAtMs}`."""
        issued = self._clock.now().replace(microsecond=0)
        expires = issued + self._terms.lifetime
        claims: dict[str, Json] = {
            "iss": self._terms.issuer,
            "aud": AUDIENCE,
            "sub": identity.key.run_id,
            "attempt": identity.key.attempt,
            "org": identity.org_id,
            "iat": int(issued.timestamp()),
            "exp": int(expires.timestamp()),
            "jti": f"{self._chance.getrandbits(128):032x}",
        }
        return {"executorToken": self._keys.sign(claims), "expiresAtMs": to_ms(expires)}

    def verify(self, token: str) -> RunnerIdentity:
        """Check signature, audience, issuer, age and shape. Raises `InvalidToken`."""
        claims = self._keys.verify(token)
        if claims.get("aud") != AUDIENCE or claims.get("iss") != self._terms.issuer:
            raise InvalidToken("the token is for another audience or from another issuer")
        self._check_age(claims)
        run_id, attempt, org_id = claims.get("sub"), claims.get("attempt"), claims.get("org")
        if not isinstance(run_id, str) or not isinstance(org_id, str):
            raise InvalidToken("the token names no run or no organisation")
        if isinstance(attempt, bool) or not isinstance(attempt, int) or attempt < 1:
            raise InvalidToken("the token names no attempt")
        return RunnerIdentity(key=AttemptKey(RunId(run_id), attempt), org_id=OrgId(org_id))

    def _check_age(self, claims: Mapping[str, Json]) -> None:
        now, leeway = self._clock.now(), self._terms.leeway
        if now >= _instant(claims, "exp") + leeway:
            raise InvalidToken("the token has expired; renew it before its time is up")
        if now < _instant(claims, "iat") - leeway:
            raise InvalidToken("the token is from the future; check the clocks of the gateways")


def _instant(claims: Mapping[str, Json], name: str) -> datetime:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 34:
        raise InvalidToken(f"the token has no usable {name}")
    return datetime.fromtimestamp(value, tz=UTC)
