"""Ed25519 keys that sign what the gateway vouches for; only a gateway ever holds one (I45).

Several keys may be known at once, newest first: the newest signs, all verify, and all public
halves are in the JWKS, so keys rotate without a moment in which a valid token is refused.
"""

import warnings
from collections.abc import Mapping, Sequence

import attrs
from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import OKPKey
from joserfc.jws import JWSAlgModel  # type: ignore[attr-defined]  # part of a public signature

from deepline.core.model.json_value import Json, JsonObject
from deepline.ports.errors import MalformedDocument
from deepline.ports.wire import encode_json, parse_json

ALGORITHM = "EdDSA"
_LONGEST_TOKEN = 4096


class InvalidToken(Exception):
    """The token was not signed by us, or not for this; the message is safe to show."""


class InvalidSigningKey(Exception):
    """A configured signing key cannot be used; the message says what to do."""


class _OneAlgorithm(jws.JWSRegistry):
    """Signing and verifying know exactly one algorithm, whatever a token's header asks for."""

    def get_alg(self, name: str) -> JWSAlgModel:
        if name != ALGORITHM:
            raise UnsupportedAlgorithmError(f"only {ALGORITHM} is accepted")
        return self.algorithms[ALGORITHM]


_REGISTRY = _OneAlgorithm()


def generate_signing_key() -> str:
    """Make a signing key; returns its PEM text, to be kept secret and given to every gateway."""
    return OKPKey.generate_key("Ed25519").as_pem(private=True).decode("ascii")


@attrs.frozen
class SigningKeys:
    """The keys of a deployment by key id, newest first. Never shown by `repr`."""

    _by_id: Mapping[str, OKPKey] = attrs.field(repr=False)

    @classmethod
    def from_pem(cls, pems: Sequence[str]) -> "SigningKeys":
        """Read private keys from PEM texts, newest first. Raises `InvalidSigningKey`."""
        if not pems:
            raise InvalidSigningKey("give at least one Ed25519 private key in PEM form")
        keys = [_read_key(pem) for pem in pems]
        return cls({key.thumbprint(): key for key in keys})

    def jwks(self) -> JsonObject:
        """The public halves as a JSON Web Key Set."""
        return {"keys": [_public(key_id, key) for key_id, key in self._by_id.items()]}

    def sign(self, claims: JsonObject, *, token_type: str = "JWT") -> str:  # noqa: S107 - a kind
        """Sign claims with the newest key as a compact JWS."""
        key_id, key = next(iter(self._by_id.items()))
        header = {"alg": ALGORITHM, "kid": key_id, "typ": token_type}
        return jws.serialize_compact(header, encode_json(claims), key, registry=_REGISTRY)

    def verify(self, token: str, *, token_type: str = "JWT") -> JsonObject:  # noqa: S107 - a kind
        """Check the signature and return the claims, which the caller must check in turn.

        Raises `InvalidToken`.
        """
        if len(token) > _LONGEST_TOKEN:
            raise InvalidToken("the token is too long to be one of ours")
        try:
            signed = jws.extract_compact(token.encode("ascii"))
            header = signed.headers()
            key = self._by_id.get(str(header.get("kid")))
            if key is None or header.get("typ") != token_type:
                raise InvalidToken("the token is of another kind or from another signer")
            jws.deserialize_compact(token, key, registry=_REGISTRY)
            claims = parse_json(signed.payload, _LONGEST_TOKEN)
        except (JoseError, MalformedDocument, ValueError) as error:
            raise InvalidToken("the token is malformed or its signature is wrong") from error
        if not isinstance(claims, Mapping):
            raise InvalidToken("the token holds no claims")
        return claims


def _read_key(pem: str) -> OKPKey:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            key = OKPKey.import_key(pem)
    except (ValueError, JoseError, Warning) as error:
        raise InvalidSigningKey(
            "a signing key is not a PEM private key; make one with generate_signing_key()"
        ) from error
    if key.curve_name != "Ed25519" or not key.is_private:
        raise InvalidSigningKey("a signing key must be an Ed25519 private key")
    return key


def _public(key_id: str, key: OKPKey) -> Json:
    public: dict[str, Json] = {
        name: value for name, value in key.as_dict(private=False).items() if isinstance(value, str)
    }
    return {**public, "kid": key_id, "use": "sig", "alg": ALGORITHM}
