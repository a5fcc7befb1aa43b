"""Checks of the gateway: it answers, and it knows the tokens and keys that this machine has."""

from collections.abc import Mapping, Sequence

import attrs

from deepline.adapters.http.executor_tokens import PATH as TOKEN_PATH
from deepline.adapters.http.executor_tokens import TokenCredentials
from deepline.adapters.http.limited_client import Answer, Call, ClientLimits, LimitedClient
from deepline.cli.doctor.findings import Finding, bounded, broken, ok, skipped
from deepline.cli.settings.parts import masked
from deepline.gateway import InvalidSigningKey, SigningKeys
from deepline.ports.errors import MalformedDocument
from deepline.ports.wire import encode_json, parse_json

_ANSWER_BYTES = 1 << 20
_START = "start one with `deepline up` or `deepline gateway`, or correct DEEPLINE_API_URL"


@attrs.frozen(kw_only=True)
class GatewayFacts:
    """What this machine knows of its gateway; `None` where it knows nothing."""

    url: str | None
    internal_token: str | None = attrs.field(repr=masked)
    api_key: str | None = attrs.field(repr=masked)
    signing_keys: Sequence[str] | None = attrs.field(repr=masked)


async def gateway_findings(facts: GatewayFacts) -> Sequence[Finding]:
    """Look at the gateway, and if it answers at what it says to this machine's secrets."""
    names = ("internal token", "API key", "signing key")
    if facts.url is None:
        nowhere = broken("gateway", "this machine knows of no gateway", _START)
        return [nowhere, *(skipped(name, "there is no gateway to ask") for name in names)]
    async with LimitedClient(ClientLimits(connect_s=5.0, silence_s=10.0)) as client:
        asking = _Asking(facts, facts.url.rstrip("/"), client)
        found = await bounded("gateway", asking.readiness, _START)
        if found[0].state == "broken":
            return [*found, *(skipped(name, "the gateway is not ready") for name in names)]
        looks = (asking.internal_token, asking.api_key, asking.signing_key)
        more = [await bounded(*one, _START) for one in zip(names, looks, strict=True)]
        return [*found, *(finding for findings in more for finding in findings)]


@attrs.frozen(eq=False)
class _Asking:
    facts: GatewayFacts
    url: str
    client: LimitedClient

    async def readiness(self) -> Sequence[Finding]:
        """Ask whether it takes work."""
        status = (await self._get("/readyz")).status
        if status == 200:
            return [ok("gateway", f"{self.url} is ready")]
        if status == 503:
            return [
                broken("gateway", f"{self.url} cannot reach its database", "check its database")
            ]
        return [broken("gateway", f"{self.url} answered {status}, as no gateway does", _START)]

    async def internal_token(self) -> Sequence[Finding]:
        """Ask for the token of an attempt that never was: whoever may ask is told that."""
        name, token = "internal token", self.facts.internal_token
        if token is None:
            return [skipped(name, "DEEPLINE_INTERNAL_TOKEN is not set here")]
        body = encode_json(
            {"runId": "doctor", "attempt": 1, "leaseToken": "none", "schedulerSchema": None}
        )
        call = Call(
            method="POST",
            url=self.url + TOKEN_PATH,
            headers=TokenCredentials(internal_token=token).headers(),
            content=body.encode(),
            idempotent=True,
        )
        answer = await self.client.request(call, answer_bytes=_ANSWER_BYTES)
        if answer.status == 401:
            return [
                broken(
                    name,
                    "the gateway does not know it",
                    "give worker, controller and gateway the same DEEPLINE_INTERNAL_TOKEN",
                )
            ]
        return [ok(name, "the gateway knows it")]

    async def api_key(self) -> Sequence[Finding]:
        """Ask for a run list with the key that is set here."""
        name, key = "API key", self.facts.api_key
        if key is None:
            return [skipped(name, "DEEPLINE_API_KEY is not set here")]
        headers = {"authorization": f"Bearer {key}"}
        status = (await self._get("/api/v1/runs?limit=1", headers)).status
        if status == 200:
            return [ok(name, "the gateway takes it")]
        return [
            broken(
                name,
                f"the gateway answered {status} to it",
                "make one with `deepline keys create` and set DEEPLINE_API_KEY",
            )
        ]

    async def signing_key(self) -> Sequence[Finding]:
        """Compare the public halves of the keys held here with those that it shows."""
        name, pems = "signing key", self.facts.signing_keys
        if not pems:
            return [skipped(name, "this machine holds none, as it should be for a worker")]
        try:
            ours = _key_ids(SigningKeys.from_pem(pems).jwks())
        except InvalidSigningKey as error:
            return [broken(name, str(error), "set DEEPLINE_SIGNING_KEY to an Ed25519 key")]
        theirs = _key_ids(_document(await self._get("/.well-known/jwks.json")))
        if ours & theirs:
            return [ok(name, "the gateway signs with it")]
        return [
            broken(
                name,
                "the gateway signs with another one",
                "give every gateway the same DEEPLINE_SIGNING_KEY and start them again",
            )
        ]

    async def _get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        call = Call(method="GET", url=self.url + path, headers=headers or {}, idempotent=True)
        return await self.client.request(call, answer_bytes=_ANSWER_BYTES)


def _document(answer: Answer) -> object:
    try:
        return parse_json(answer.body or b"", _ANSWER_BYTES)
    except MalformedDocument:
        return None


def _key_ids(jwks: object) -> frozenset[str]:
    keys = jwks.get("keys") if isinstance(jwks, Mapping) else None
    if not isinstance(keys, list | tuple):
        return frozenset()
    return frozenset(str(key.get("kid")) for key in keys if isinstance(key, Mapping))
