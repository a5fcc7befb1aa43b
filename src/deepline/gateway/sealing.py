"""Sealing secrets with AES-256-GCM under a key that gateways alone hold (I45, Q58).

What is sealed is bound to its organisation and its name, so it cannot be moved to another's row.
Several keys may be known at once, newest first: the newest seals, all unseal, so keys rotate.

A sealed secret is one byte that names this form, eight that name the key, twelve of nonce, and
the ciphertext with its tag. With nonces by chance one key is good for some billions of secrets.
"""

import base64
import binascii
import hashlib
import os
from collections.abc import Callable, Sequence

import attrs
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from deepline.core.model.identity import OrgId

KEY_BYTES = 32
_FORM = b"\x01"
_KEY_NAME_BYTES = 8
_NONCE_BYTES = 12
_HEAD_BYTES = len(_FORM) + _KEY_NAME_BYTES + _NONCE_BYTES


class InvalidSecretsKey(Exception):
    """A configured key cannot be used; the message says what to do."""


class CannotUnseal(Exception):
    """No key that is known here opens this secret, or somebody changed it."""


@attrs.frozen
class _Key:
    name: bytes
    cipher: AESGCM


class Sealer:
    """Seals and unseals with one or several keys."""

    def __init__(
        self, keys: Sequence[bytes], random_bytes: Callable[[int], bytes] = os.urandom
    ) -> None:
        """`keys` of 32 bytes, newest first. Raises `InvalidSecretsKey`."""
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise InvalidSecretsKey(f"a key for secrets has {KEY_BYTES} bytes")
        self._keys = [_Key(_name_of(key), AESGCM(key)) for key in keys]
        self._random_bytes = random_bytes

    def __repr__(self) -> str:
        return f"<Sealer of {len(self._keys)} keys>"

    def seal(self, org_id: OrgId, name: str, value: str) -> bytes:
        """Seal a value for its place."""
        key, nonce = self._keys[0], self._random_bytes(_NONCE_BYTES)
        sealed = key.cipher.encrypt(nonce, value.encode(), _place(org_id, name))
        return _FORM + key.name + nonce + sealed

    def unseal(self, org_id: OrgId, name: str, sealed: bytes) -> str:
        """Open what was sealed for this place. Raises `CannotUnseal`."""
        head, ciphertext = sealed[:_HEAD_BYTES], sealed[_HEAD_BYTES:]
        key_name, nonce = head[1 : 1 + _KEY_NAME_BYTES], head[1 + _KEY_NAME_BYTES :]
        if head[:1] == _FORM:
            for key in self._keys:
                if key.name == key_name:
                    return _opened(key, nonce, ciphertext, _place(org_id, name))
        raise CannotUnseal("it was sealed with a key that is not known here")


def read_secrets_keys(text: str) -> tuple[bytes, ...]:
    """Read keys in base64, newest first, with commas or white space between them.

    Raises `InvalidSecretsKey`, whose message holds nothing of the text.
    """
    try:
        keys = tuple(
            base64.b64decode(part.translate(_STANDARD), validate=True)
            for part in text.replace(",", " ").split()
        )
    except (binascii.Error, ValueError):
        raise InvalidSecretsKey(_ADVICE) from None
    if not keys or any(len(key) != KEY_BYTES for key in keys):
        raise InvalidSecretsKey(_ADVICE)
    return keys


def generate_secrets_key() -> str:
    """Make a key that `read_secrets_keys` takes."""
    return base64.b64encode(os.urandom(KEY_BYTES)).decode("ascii")


_STANDARD = str.maketrans("-_", "+/")
_ADVICE = "must hold 32 random bytes in base64, as `openssl rand -base64 32` prints them"


def _name_of(key: bytes) -> bytes:
    return hashlib.sha256(b"deepline secrets key" + key).digest()[:_KEY_NAME_BYTES]


def _place(org_id: OrgId, name: str) -> bytes:
    return f"{len(org_id)}:{org_id}:{name}".encode()


def _opened(key: _Key, nonce: bytes, ciphertext: bytes, place: bytes) -> str:
    try:
        return key.cipher.decrypt(nonce, ciphertext, place).decode()
    except (InvalidTag, ValueError):
        raise CannotUnseal("it was changed, or sealed for another place") from None
