"""Sealed secrets open in their own place, with a known key, unchanged, and nowhere else."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepline.core.model.identity import OrgId
from deepline.gateway.sealing import (
    CannotUnseal,
    InvalidSecretsKey,
    Sealer,
    generate_secrets_key,
    read_secrets_keys,
)

OLD, NEW = bytes(range(32)), bytes(range(1, 33))
ORG = OrgId("acme")


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=50))
def test_what_was_sealed_opens(value: str) -> None:
    """Any text comes back, and is not to be seen in what is stored."""
    sealer = Sealer([NEW])
    sealed = sealer.seal(ORG, "KEY", value)

    assert sealer.unseal(ORG, "KEY", sealed) == value
    if len(value) > 3:
        assert value.encode() not in sealed


def test_two_seals_of_one_value_differ() -> None:
    """Nobody can tell from the store which secrets are equal."""
    sealer = Sealer([NEW])

    assert sealer.seal(ORG, "KEY", "value") != sealer.seal(ORG, "KEY", "value")


@pytest.mark.parametrize(
    ("org", "name"),
    [
        pytest.param("other", "KEY", id="another-organisation"),
        pytest.param("acme", "KEY2", id="another-name"),
        pytest.param("acm", "e:KEY", id="another-cut"),
    ],
)
def test_a_secret_opens_in_its_own_place_only(org: str, name: str) -> None:
    """A row copied to another organisation or name is of no use there."""
    sealer = Sealer([NEW])

    with pytest.raises(CannotUnseal):
        sealer.unseal(OrgId(org), name, sealer.seal(ORG, "KEY", "value"))


def test_a_changed_secret_does_not_open() -> None:
    """Any byte changed, or cut off, is noticed."""
    sealer = Sealer([NEW])
    sealed = sealer.seal(ORG, "KEY", "value")

    for at in range(len(sealed)):
        changed = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        for damaged in (changed, sealed[:at]):
            with pytest.raises(CannotUnseal):
                sealer.unseal(ORG, "KEY", damaged)


def test_keys_rotate() -> None:
    """The newest key seals, older ones still open; a key that is gone opens nothing."""
    sealed = Sealer([OLD]).seal(ORG, "KEY", "value")
    both = Sealer([NEW, OLD])

    assert both.unseal(ORG, "KEY", sealed) == "value"
    assert Sealer([NEW]).unseal(ORG, "KEY", both.seal(ORG, "KEY", "newer")) == "newer"
    with pytest.raises(CannotUnseal):
        Sealer([NEW]).unseal(ORG, "KEY", sealed)


def test_keys_are_read_as_people_make_them() -> None:
    """Both alphabets of base64, several keys with commas or lines between them."""
    standard = base64.b64encode(b"\xfb\xff" * 16).decode()
    safe = base64.urlsafe_b64encode(b"\xfb\xff" * 16).decode()

    assert read_secrets_keys(f"{standard},{safe}\n") == (b"\xfb\xff" * 16,) * 2
    assert len(read_secrets_keys(generate_secrets_key())[0]) == 32


@pytest.mark.parametrize("text", ["", "short", "c2hvcnQ=", "hunter2hunter2!", "é" * 44])
def test_a_key_that_cannot_be_used(text: str) -> None:
    """It is refused in words that do not repeat it."""
    with pytest.raises(InvalidSecretsKey) as refusal:
        read_secrets_keys(text)

    assert not text or text not in str(refusal.value)


def test_a_sealer_does_not_show_its_keys() -> None:
    """Neither by its `repr` nor by what it says of a bad one."""
    assert repr(Sealer([OLD, NEW])) == "<Sealer of 2 keys>"
    with pytest.raises(InvalidSecretsKey):
        Sealer([b"short"])
    with pytest.raises(InvalidSecretsKey):
        Sealer([])
