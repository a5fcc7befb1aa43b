"""Signatures: one algorithm, several keys, nothing else believed."""

import base64
import hashlib
import hmac
import json

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.model.json_value import JsonObject
from deepline.gateway import InvalidSigningKey, SigningKeys, generate_signing_key
from deepline.gateway.signing import InvalidToken

OLD, NEW = generate_signing_key(), generate_signing_key()
KEYS = SigningKeys.from_pem([NEW, OLD])
CLAIMS: JsonObject = {"sub": "run_1", "attempt": 1}


def encoded(value: object) -> str:
    """One part of a compact token."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def private_pem(key: PrivateKeyTypes) -> str:
    """The PEM text of a private key of any kind."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def public_pem() -> str:
    """The PEM text of a public Ed25519 key."""
    public = ed25519.Ed25519PrivateKey.generate().public_key()
    return public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode()


def test_what_the_newest_key_signs_all_of_them_verify() -> None:
    """A gateway that knows the new and the old key accepts tokens of both while keys rotate."""
    signed_before = SigningKeys.from_pem([OLD]).sign(CLAIMS)

    assert KEYS.verify(KEYS.sign(CLAIMS)) == CLAIMS
    assert KEYS.verify(signed_before) == CLAIMS
    with pytest.raises(InvalidToken):
        SigningKeys.from_pem([OLD]).verify(KEYS.sign(CLAIMS))


def test_the_key_set_names_every_key_by_its_thumbprint_newest_first() -> None:
    """A verifier elsewhere finds the key of a token by the `kid` in its header."""
    header = json.loads(base64.urlsafe_b64decode(KEYS.sign(CLAIMS).split(".")[0] + "=="))
    published = json.loads(json.dumps(KEYS.jwks()))["keys"]

    assert published[0]["kid"] == header["kid"]
    assert len(published) == 2
    for key in published:
        thumb = json.dumps(
            {"crv": key["crv"], "kty": key["kty"], "x": key["x"]},
            separators=(",", ":"),
            sort_keys=True,
        )
        digest = hashlib.sha256(thumb.encode()).digest()
        assert key["kid"] == base64.urlsafe_b64encode(digest).decode().rstrip("=")


def forged_with(algorithm: str, secret: bytes) -> str:
    """A token whose header asks for a symmetric algorithm over a public value."""
    kid = json.loads(base64.urlsafe_b64decode(KEYS.sign(CLAIMS).split(".")[0] + "=="))["kid"]
    head = f"{encoded({'alg': algorithm, 'typ': 'JWT', 'kid': kid})}.{encoded(CLAIMS)}"
    signature = hmac.new(secret, head.encode(), hashlib.sha256).digest()
    return f"{head}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("", id="empty"),
        pytest.param("a.b.c", id="garbage"),
        pytest.param("ünïcode.b.c", id="not-ascii"),
        pytest.param("x" * 5_000, id="too-long"),
        pytest.param(f"{encoded({'alg': 'none'})}.{encoded(CLAIMS)}.", id="alg-none"),
        pytest.param(forged_with("HS256", b"public-x"), id="alg-hs256"),
        pytest.param(forged_with("EdDSA", b"public-x"), id="wrong-signature"),
        pytest.param(KEYS.sign(CLAIMS)[:-4] + "AAAA", id="signature-cut"),
        pytest.param(KEYS.sign(CLAIMS, token_type="other"), id="other-kind"),
        pytest.param(SigningKeys.from_pem([generate_signing_key()]).sign(CLAIMS), id="other-key"),
    ],
)
def test_what_was_not_signed_here_for_this_is_refused(token: str) -> None:
    """The algorithm is ours to choose, whatever the header of a token asks for."""
    with pytest.raises(InvalidToken):
        KEYS.verify(token)


@given(st.data())
def test_no_changed_token_verifies(data: st.DataObject) -> None:
    """Changing any one character of the head or of the claims breaks the token."""
    token = KEYS.sign(CLAIMS)
    end = token.rindex(".")
    at = data.draw(st.integers(0, end - 1))
    other = data.draw(st.sampled_from("AZaz09-_").filter(lambda char: char != token[at]))

    with pytest.raises(InvalidToken):
        KEYS.verify(token[:at] + other + token[at + 1 :])


@pytest.mark.parametrize(
    "pem",
    [
        pytest.param("not a key", id="no-pem"),
        pytest.param(public_pem(), id="public-key"),
        pytest.param(private_pem(rsa.generate_private_key(65537, 2048)), id="rsa"),
        pytest.param(private_pem(ec.generate_private_key(ec.SECP256R1())), id="elliptic-curve"),
        pytest.param(private_pem(x25519.X25519PrivateKey.generate()), id="x25519"),
    ],
)
def test_only_private_ed25519_keys_can_sign(pem: str) -> None:
    """Another key is refused at start, in words that do not repeat it."""
    with pytest.raises(InvalidSigningKey) as refusal:
        SigningKeys.from_pem([pem])

    assert pem not in str(refusal.value)


def test_at_least_one_key_is_needed() -> None:
    """A gateway without a key would refuse every runner; it does not start."""
    with pytest.raises(InvalidSigningKey):
        SigningKeys.from_pem([])


def test_keys_do_not_show_themselves() -> None:
    """Neither the keys nor their text are in a `repr` (I46)."""
    assert repr(KEYS) == "SigningKeys()"
